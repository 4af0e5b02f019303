"""Message index: what is known, what is missing, chunk borders, eviction."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.ledgers.ledger import LedgerInfo, LedgerMap
from broker.core.ledgers.message_index import CHUNK_ENTRIES, IndexMissing, MessageIndex
from broker.core.position import EARLIEST, LATEST, Position
from tests.unit.core.logs import ENTRY_BYTES, Log


def big(entries: int) -> tuple[LedgerMap, MessageIndex]:
    """Make an index over one open ledger. Each entry has 2 messages and 10 bytes, and the index knows no entry yet."""
    ledgers = LedgerMap([LedgerInfo(ledger_id=3, messages_before=100, bytes_before=1000)])
    ledgers.append(3, entries, 2 * entries, 10 * entries, append_ms=1)
    return ledgers, MessageIndex(ledgers)


def record(index: MessageIndex, first: int, last: int) -> None:
    entries = range(first, last + 1)
    index.record(3, first, [102 + 2 * e for e in entries], [1010 + 10 * e for e in entries])


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8)), max_size=6), st.integers(0, 40))
def test_recorded_positions_are_found(parts: list[tuple[int, int]], at: int) -> None:
    _, index = big(50)
    known = set()
    for first, length in parts:
        record(index, first, first + length)
        known |= set(range(first, first + length + 1))
    assert index.messages_through(Position(3, at)) == (102 + 2 * at if at in known else None)
    assert index.bytes_through(Position(3, at)) == (1010 + 10 * at if at in known else None)
    in_reach = at in known and (at == 0 or at - 1 in known)
    assert index.messages_in(Position(3, at)) == (2 if in_reach else None)
    missing = {e for low, high in index.missing(3, 0, 40) for e in range(low, high + 1)}
    assert set(range(41)) - known <= missing


def test_borders_need_nothing_recorded() -> None:
    log = Log(indexed=False)
    log.publish_all(3, 2)
    log.roll(gap=5)
    log.publish(4)
    log.publish(1)
    through = log.index.messages_through
    assert through(Position(1, -1)) == through(EARLIEST) == 0
    assert through(Position(1, 1)) == through(Position(1, 99)) == through(Position(4, 7)) == 5
    assert through(Position(6, -1)) == 5
    assert through(Position(6, 0)) is None
    assert through(Position(6, 1)) == through(LATEST) == 10
    assert log.index.bytes_through(LATEST) == 10 * ENTRY_BYTES
    assert log.index.messages_in(Position(1, 2)) is None


def test_ranges_over_chunk_borders_are_found_and_missed() -> None:
    _, index = big(3 * CHUNK_ENTRIES)
    edge = CHUNK_ENTRIES
    record(index, edge - 2, edge + 1)
    assert index.messages_in(Position(3, edge)) == 2
    assert index.messages_in(Position(3, edge - 2)) is None
    assert index.missing(3, edge - 2, edge + 1) == []
    assert index.missing(3, edge - 3, edge + 3) == [(edge - 3, edge - 3), (edge + 2, edge + 3)]
    assert index.missing(3, edge, 3 * edge - 1) == [(edge + 2, 3 * edge - 1)]
    assert len(index) == 2


def test_an_entry_is_found_by_the_count_of_messages_before_it() -> None:
    ledgers, index = big(CHUNK_ENTRIES + 10)
    ledger = ledgers.get(3)
    assert ledger is not None
    with pytest.raises(IndexMissing) as missing:
        index.entry_at(ledger, 100)
    assert missing.value.ranges == ((3, 0, CHUNK_ENTRIES + 9),)
    record(index, 0, CHUNK_ENTRIES + 9)
    for messages, entry_id in ((100, 0), (101, 0), (102, 1), (100 + 2 * CHUNK_ENTRIES, CHUNK_ENTRIES)):
        assert index.entry_at(ledger, messages) == entry_id
    assert index.first_above(3, 0, 9, 10**6) == 10


def test_an_unknown_position_asks_for_a_window_of_entries_around_it() -> None:
    _, index = big(10_000)
    (ledger_id, low, high) = index.unknown(Position(3, 5000))[0]
    assert ledger_id == 3
    assert low <= 4999
    assert 5000 <= high < 10_000
    assert high - low < 2048
    record(index, low, high)
    assert index.messages_in(Position(3, 5000)) == 2
    assert index.unknown(Position(9, 0)) == []


def test_eviction_forgets_chunks_below_the_position_and_then_the_least_recently_recorded() -> None:
    _, index = big(5 * CHUNK_ENTRIES)
    for chunk in (0, 2, 1, 4):
        record(index, chunk * CHUNK_ENTRIES, chunk * CHUNK_ENTRIES)
    assert index.evict(Position(3, CHUNK_ENTRIES), max_chunks=2) == 2
    known = [c for c in range(4) if index.messages_through(Position(3, c * CHUNK_ENTRIES)) is not None]
    assert known == [1]
    assert index.evict(LATEST, max_chunks=5) == 1
    assert index.evict(LATEST, max_chunks=0) == 0
    assert len(index) == 1


def test_messages_and_bytes_must_be_recorded_together() -> None:
    _, index = big(5)
    with pytest.raises(ValueError, match="one value"):
        index.record(3, 0, [1, 2], [1])


def test_trimmed_ledgers_are_forgotten() -> None:
    log = Log()
    log.publish_all(1, 1)
    log.roll()
    log.publish_all(1, 1)
    log.index.forget_before(1)
    assert len(log.index) == 2
    log.index.forget_before(2)
    assert len(log.index) == 1
    assert log.index.messages_through(Position(1, 0)) is None
    assert log.index.messages_through(Position(2, 0)) == 3
    log.index.forget_before(3)
    assert len(log.index) == 0
    log.load(2, 0, 1)
    assert log.index.messages_through(Position(2, 0)) == 3


def test_a_missing_range_is_named() -> None:
    _, index = big(5)
    with pytest.raises(IndexMissing, match=r"lacks 1 ranges, from \(3, 0, 4\)") as missing:
        index.require_messages_in(Position(3, 2))
    assert missing.value.ranges == ((3, 0, 4),)
    record(index, 0, 4)
    assert index.require_messages_in(Position(3, 2)) == 2


def test_an_entry_that_is_not_stored_needs_no_counts() -> None:
    _, index = big(3)
    assert index.require_messages_in(Position(3, 3)) == 0
    assert index.require_messages_in(Position(2, 0)) == 0  # the entry is trimmed
    with pytest.raises(ValueError, match="not stored"):
        raise IndexMissing(index.unknown(Position(2, 0)))


def test_eviction_keeps_the_chunk_that_begins_at_the_position() -> None:
    _, index = big(5 * CHUNK_ENTRIES)
    for chunk in (1, 2, 3):
        record(index, chunk * CHUNK_ENTRIES, chunk * CHUNK_ENTRIES)
    assert index.evict(Position(3, CHUNK_ENTRIES), max_chunks=3) == 0
    assert index.evict(Position(3, CHUNK_ENTRIES), max_chunks=2) == 1
    assert index.messages_through(Position(3, CHUNK_ENTRIES)) is None
