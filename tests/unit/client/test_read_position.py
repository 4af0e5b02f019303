"""Where a consumer reads, after a lost connection and after a seek."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vela.core.consuming.read_position import ReadPosition
from vela.message import Message, MessageId, ReceivedEntry
from vela.wire.message_id import MessageId as WireId


def message(entry_id: int) -> Message:
    body: Any = SimpleNamespace(batch_index=-1)
    return Message(body, ReceivedEntry("t", 7, entry_id))


def reading(
    start: MessageId | None = MessageId.latest, *, inclusive: bool = False, taken: int | None = None
) -> ReadPosition:
    position = ReadPosition(start, inclusive=inclusive, durable=False)
    position.last_taken = None if taken is None else message(taken)
    return position


def place(start: MessageId | None) -> tuple[int, int] | None:
    return None if start is None else (start.ledger_id(), start.entry_id())


def test_reading_resumes_after_the_message_that_was_taken_last() -> None:
    position = reading(taken=3)
    assert place(position.resume([message(4)])) == (7, 3)
    assert position.start is not None
    assert not position.start.inclusive


def test_reading_resumes_with_the_first_message_that_arrived_if_none_was_taken() -> None:
    position = reading()
    assert place(position.resume([message(4), message(5)])) == (7, 4)
    assert position.start is not None
    assert position.start.inclusive
    assert place(position.resume([])) == (7, 4)


def test_the_broker_remembers_the_place_of_a_durable_subscription() -> None:
    position = ReadPosition(None, inclusive=False, durable=True)
    position.last_taken = message(3)
    position.sought(1_000)
    assert (position.resume([message(4)]), position.rollback_s(5_000), position.start) == (None, 0, None)


@pytest.mark.parametrize("inclusive", [True, False])
def test_a_seek_to_a_message_begins_as_the_options_say(inclusive: bool) -> None:
    position = reading(inclusive=inclusive, taken=9)
    position.resume([])
    position.sought(MessageId(-1, 7, 2, -1))
    assert position.start is not None
    assert (position.start.entry_id, position.start.inclusive) == (2, inclusive)
    assert (place(position.resume([])), position.last_taken) == ((7, 2), None)


def test_a_seek_to_a_time_counts_whole_seconds_back() -> None:
    position = reading(MessageId(-1, 7, 2, -1))
    assert position.rollback_s(10_000) == 0
    position.sought(8_500)
    assert (position.resume([]), position.rollback_s(10_000), position.rollback_s(8_000)) == (None, 2, 0)


def test_an_entry_that_has_arrived_leaves_nothing_to_read() -> None:
    position = reading(None)
    last = WireId(ledger_id=7, entry_id=3)
    assert position.has_more(last=last, mark_delete=None, newest=(7, 2))
    assert not position.has_more(last=last, mark_delete=None, newest=(7, 3))
