"""Where a read begins and ends, and the errors about messages that are no longer stored."""

from __future__ import annotations

import json
from typing import cast
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.database import Connection
from pipeline.errors import DataLost, InvalidOption
from pipeline.source.bounds import ends_of, last_before, require_stored, starts_of
from pipeline.source.offsets import BEGINNING, Offset, offsets_to_json
from pipeline.source.options import ReadOptions
from tests.unit.pipeline.memory_log import (
    BETWEEN_APPENDS_MS,
    FIRST_APPEND_MS,
    MemoryIndex,
    emptied_log,
    memory_log,
)

STRICT = ReadOptions.parse({"topic": "t", "url": "postgresql://vela@127.0.0.1/vela"})
LENIENT = ReadOptions.parse(
    {"topic": "t", "url": "postgresql://vela@127.0.0.1/vela", "failOnDataLoss": "false"}
)

NAME = "persistent://public/default/t"
NO_CONNECTION = cast(Connection, None)


def since(start: Offset, **options: str) -> ReadOptions:
    """Return the options of a read that begins after an offset. The offset has a count, as in an export's manifest."""
    return ReadOptions.parse(
        {
            "topic": "t",
            "url": "postgresql://vela@127.0.0.1/vela",
            "startingOffsets": json.dumps(offsets_to_json({NAME: start})),
            **options,
        }
    )


def until(end: str, **options: str) -> ReadOptions:
    """Return the options of a read that ends at an offset."""
    return ReadOptions.parse(
        {
            "topic": "t",
            "url": "postgresql://vela@127.0.0.1/vela",
            "endingOffsets": f'{{"t": "{end}"}}',
            **options,
        }
    )


@given(
    ledgers=st.lists(st.lists(st.just((1, 10)), max_size=6), min_size=1, max_size=4),
    time_ms=st.integers(FIRST_APPEND_MS - 20, FIRST_APPEND_MS + 300),
)
def test_a_time_stands_for_the_last_entry_stored_before_it(
    ledgers: list[list[tuple[int, int]]], time_ms: int
) -> None:
    index = MemoryIndex()
    log = memory_log(index, ledgers)
    before = [position for position, entry in index.entries.items() if entry.append_ms < time_ms]
    found = last_before(index, log, time_ms)
    assert found.messages == len(before)
    if before:
        assert found.position == before[-1]
    assert len(before) == min(
        len(index.entries), max(0, -(-(time_ms - FIRST_APPEND_MS) // BETWEEN_APPENDS_MS))
    )


def test_reading_goes_on_where_nothing_was_trimmed() -> None:
    log = memory_log(MemoryIndex(), [[(2, 10)] * 3, [(1, 10)]], first_ledger=5, messages_before=4)
    for offset in (
        Offset(ledger_id=5, entry_id=1, messages=8),
        Offset(ledger_id=5, entry_id=1),
        Offset(ledger_id=6, entry_id=0, messages=11),
        Offset(ledger_id=3, entry_id=9, messages=4),  # this ledger is gone, but it was read to its end
    ):
        assert require_stored(log, offset, STRICT) == offset


@pytest.mark.parametrize(
    ("offset", "said"),
    [
        (Offset(ledger_id=3, entry_id=9, messages=1), "retention trimmed 3 messages after it"),
        (Offset(ledger_id=3, entry_id=9, messages=3), "retention trimmed 1 message after it"),
        (BEGINNING, "retention trimmed 4 messages after it"),
        (Offset(ledger_id=3, entry_id=9), "entry 3:9 is not stored any more"),
        (Offset(ledger_id=3, entry_id=9, messages=12), "fewer messages than were read"),
    ],
)
def test_lost_messages_are_never_passed_silently(offset: Offset, said: str) -> None:
    log = memory_log(MemoryIndex(), [[(2, 10)] * 3, [(1, 10)]], first_ledger=5, messages_before=4)
    with pytest.raises(DataLost, match=said):
        require_stored(log, offset, STRICT)
    assert require_stored(log, offset, LENIENT) == log.earliest


@pytest.mark.parametrize(
    ("offset", "said"),
    [
        (Offset(ledger_id=5, entry_id=1, messages=4), "retention trimmed 6 messages after it"),
        (Offset(ledger_id=5, entry_id=-1, messages=0), "retention trimmed 10 messages after it"),
        (Offset(ledger_id=5, entry_id=1), "entry 5:1 is not stored any more"),
        (Offset(ledger_id=5, entry_id=-1), "entry 5:-1 is not stored any more"),
    ],
)
def test_a_ledger_that_was_emptied_has_lost_its_messages(offset: Offset, said: str) -> None:
    log = emptied_log(ledger_id=5, messages=10)
    with pytest.raises(DataLost, match=said):
        require_stored(log, offset, STRICT)
    assert require_stored(log, offset, LENIENT) == log.earliest
    read_to_its_end = Offset(ledger_id=5, entry_id=4, messages=10)
    assert require_stored(log, read_to_its_end, STRICT) == read_to_its_end


def test_an_offset_in_an_emptied_ledger_is_lost_and_not_beyond_the_end() -> None:
    log = emptied_log(ledger_id=5, messages=10, name=NAME)
    for asked, is_beyond in (("5:4", False), ("6:0", True)):
        options = ReadOptions.parse(
            {
                "topic": "t",
                "url": "postgresql://vela@127.0.0.1/vela",
                "startingOffsets": f'{{"t": "{asked}"}}',
            }
        )
        with pytest.raises(InvalidOption if is_beyond else DataLost, match=asked):
            starts_of(NO_CONNECTION, [log], options, default="earliest")


@pytest.mark.parametrize("asked", ["3:9", "4:-1"])
def test_an_end_inside_trimmed_messages_is_a_loss(asked: str, caplog: pytest.LogCaptureFixture) -> None:
    log = memory_log(MemoryIndex(), [[(2, 10)] * 3, [(1, 10)]], name=NAME, first_ledger=5, messages_before=4)
    with pytest.raises(DataLost, match=f"read up to {asked}: retention trimmed everything up to it"):
        ends_of(NO_CONNECTION, [log], until(asked))
    assert ends_of(NO_CONNECTION, [log], until(asked, failOnDataLoss="false")) == {NAME: log.earliest}
    assert f"up to {asked}" in caplog.text


def test_an_end_inside_an_emptied_ledger_is_a_loss() -> None:
    log = emptied_log(ledger_id=5, messages=10, name=NAME)
    with pytest.raises(DataLost, match="up to 5:4"):
        ends_of(NO_CONNECTION, [log], until("5:4"))


@pytest.mark.parametrize("asked", ["-1:-1", "5:-1", "5:1", "5:99", "6:0"])
def test_an_end_that_loses_nothing_is_taken(asked: str) -> None:
    index = MemoryIndex()
    log = memory_log(index, [[(2, 10)] * 3, [(1, 10)]], name=NAME, first_ledger=5, messages_before=4)
    with patch("pipeline.source.bounds.EntryIndex", return_value=index):
        assert ends_of(NO_CONNECTION, [log], until(asked))[NAME].position <= log.latest.position


def test_an_end_before_the_first_message_of_a_new_topic_loses_nothing() -> None:
    log = memory_log(MemoryIndex(), [[(1, 10)]], name=NAME, first_ledger=5)
    assert ends_of(NO_CONNECTION, [log], until("3:9")) == {NAME: log.earliest}


def test_an_empty_ledger_that_never_had_entries_has_lost_nothing() -> None:
    log = memory_log(MemoryIndex(), [[]], first_ledger=5, messages_before=4)
    for offset in (Offset(ledger_id=5, entry_id=-1), Offset(ledger_id=5, entry_id=-1, messages=4)):
        assert require_stored(log, offset, STRICT) == offset


def test_a_topic_that_was_made_again_is_noticed_however_many_messages_it_has() -> None:
    log = memory_log(MemoryIndex(), [[(1, 10)] * 9], first_ledger=8)
    offset = Offset(ledger_id=5, entry_id=2, messages=3)
    with pytest.raises(DataLost, match="deleted and created again"):
        require_stored(log, offset, STRICT)
    assert require_stored(log, offset, LENIENT) == log.earliest


def test_after_a_restore_of_an_older_database_reading_goes_on_at_the_end() -> None:
    log = memory_log(MemoryIndex(), [[(1, 10)] * 3], first_ledger=5)
    offset = Offset(ledger_id=6, entry_id=1, messages=9)
    with pytest.raises(DataLost, match="restored"):
        require_stored(log, offset, STRICT)
    assert require_stored(log, offset, LENIENT) == log.latest


@pytest.mark.parametrize("ledgers", [[], [[(1, 10)] * 3]])
def test_a_batch_read_notices_a_topic_with_fewer_messages_than_were_read(
    ledgers: list[list[tuple[int, int]]],
) -> None:
    index = MemoryIndex()
    log = memory_log(index, ledgers, name=NAME, first_ledger=5)  # created again and still empty, or restored
    start = Offset(ledger_id=6, entry_id=1, messages=9)
    with pytest.raises(DataLost, match="deleted and created again, or restored"):
        starts_of(NO_CONNECTION, [log], since(start), default="earliest")
    with patch("pipeline.source.bounds.EntryIndex", return_value=index):
        found = starts_of(NO_CONNECTION, [log], since(start, failOnDataLoss="false"), default="earliest")
    assert found == {NAME: log.latest}


def test_a_pinned_end_notices_that_the_topic_was_created_again() -> None:
    index = MemoryIndex()
    log = memory_log(index, [[(1, 10)] * 3], name=NAME, first_ledger=5)
    ends = {"endingOffsets": json.dumps(offsets_to_json({NAME: Offset(ledger_id=3, entry_id=8, messages=9)}))}
    with patch("pipeline.source.bounds.EntryIndex", return_value=index):
        with pytest.raises(DataLost, match="up to 3:8: it is not the topic that was read"):
            ends_of(NO_CONNECTION, [log], since(BEGINNING, **ends))
        lenient = since(BEGINNING, failOnDataLoss="false", **ends)
        assert ends_of(NO_CONNECTION, [log], lenient) == {NAME: log.earliest}
