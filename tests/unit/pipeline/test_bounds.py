from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import DataLost
from pipeline.source.bounds import last_before, require_stored
from pipeline.source.offsets import BEGINNING, Offset
from pipeline.source.options import ReadOptions
from tests.unit.pipeline.memory_log import (
    BETWEEN_APPENDS_MS,
    FIRST_APPEND_MS,
    MemoryIndex,
    memory_log,
)

STRICT = ReadOptions.parse({"topic": "t", "url": "postgresql://vela@127.0.0.1/vela"})
LENIENT = ReadOptions.parse(
    {"topic": "t", "url": "postgresql://vela@127.0.0.1/vela", "failOnDataLoss": "false"}
)


@given(
    ledgers=st.lists(st.lists(st.just((1, 10)), max_size=6), min_size=1, max_size=4),
    time_ms=st.integers(FIRST_APPEND_MS - 20, FIRST_APPEND_MS + 300),
)
def test_a_time_is_the_last_entry_stored_before_it(
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
        Offset(ledger_id=3, entry_id=9, messages=4),  # its ledger is gone, but was read to its end
    ):
        assert require_stored(log, offset, STRICT) == offset


@pytest.mark.parametrize(
    ("offset", "said"),
    [
        (Offset(ledger_id=3, entry_id=9, messages=1), "retention trimmed 3 messages after it"),
        (BEGINNING, "retention trimmed 4 messages after it"),
        (Offset(ledger_id=3, entry_id=9), "the topic has no ledger 3"),
        (Offset(ledger_id=3, entry_id=9, messages=12), "fewer messages than were read"),
    ],
)
def test_lost_messages_are_never_passed_silently(offset: Offset, said: str) -> None:
    log = memory_log(MemoryIndex(), [[(2, 10)] * 3, [(1, 10)]], first_ledger=5, messages_before=4)
    with pytest.raises(DataLost, match=said):
        require_stored(log, offset, STRICT)
    assert require_stored(log, offset, LENIENT) == log.earliest


def test_after_a_restore_of_an_older_database_reading_goes_on_at_the_end() -> None:
    log = memory_log(MemoryIndex(), [[(1, 10)] * 3], first_ledger=5)
    offset = Offset(ledger_id=6, entry_id=1, messages=9)
    with pytest.raises(DataLost, match="restored"):
        require_stored(log, offset, STRICT)
    assert require_stored(log, offset, LENIENT) == log.latest
