"""Ranges of entries for tasks: every entry once, in order, in parts of equal size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.source.offsets import Offset
from pipeline.source.ranges import ranges_between, split
from pipeline.source.topic_logs import EntryTotals, StoredLedger, StoredTopic, TopicLog
from tests.unit.pipeline.memory_log import MemoryIndex, memory_log, positions

sizes = st.lists(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 900)), max_size=12), max_size=5)


@given(ledgers=sizes, parts=st.integers(1, 40), part_bytes=st.integers(1, 3_000))
def test_every_entry_is_in_one_range_and_in_order(
    ledgers: list[list[tuple[int, int]]], parts: int, part_bytes: int
) -> None:
    index = MemoryIndex()
    log = memory_log(index, ledgers, bytes_before=77)
    ranges = list(ranges_between(index, log, log.earliest, log.latest))
    dealt = split(index, ranges, most=parts, part_bytes=part_bytes)

    assert positions([part for each in dealt for part in each]) == positions(ranges)
    assert len(positions(ranges)) == sum(len(entries) for entries in ledgers)
    assert len(dealt) <= parts
    assert all(dealt)
    for part in [part for each in dealt for part in each]:
        stored = [
            index.entries[part.ledger_id, entry].size_bytes for entry in range(part.first, part.last + 1)
        ]
        assert part.bytes_through == stored[-1]
        assert part.bytes_before == stored[0] - ledgers[part.ledger_id - 10][part.first][1]


@given(ledgers=sizes, parts=st.integers(1, 40))
def test_tasks_differ_by_an_entry_at_most(ledgers: list[list[tuple[int, int]]], parts: int) -> None:
    index = MemoryIndex()
    log = memory_log(index, ledgers)
    ranges = list(ranges_between(index, log, log.earliest, log.latest))
    total_bytes = sum(part.size_bytes for part in ranges)
    for each in split(index, ranges, most=parts, part_bytes=1):
        assert sum(part.size_bytes for part in each) <= total_bytes / min(parts, total_bytes) + 900


@given(data=st.data(), ledgers=sizes)
def test_a_range_contains_the_entries_between_two_offsets(
    data: st.DataObject, ledgers: list[list[tuple[int, int]]]
) -> None:
    index = MemoryIndex()
    log = memory_log(index, ledgers)
    every = positions(list(ranges_between(index, log, log.earliest, log.latest)))
    places = st.tuples(st.integers(9, 16), st.integers(-1, 12))
    start, end = sorted((data.draw(places), data.draw(places)))
    # An end is always an entry that was stored when the end was chosen.
    end = max((each for each in every if each <= end), default=(9, -1))
    between = ranges_between(
        index,
        log,
        Offset(ledger_id=start[0], entry_id=start[1]),
        Offset(ledger_id=end[0], entry_id=end[1]),
    )
    assert positions(list(between)) == [each for each in every if start < each <= end]


def test_a_ledger_of_a_billion_entries_is_cut_without_counting_them() -> None:
    class Even(MemoryIndex):
        asked = 0

        def totals(self, ledger_id: int, entry_id: int) -> EntryTotals:
            self.asked += 1
            return EntryTotals(0, entry_id + 1, 100 * (entry_id + 1))

    index = Even()
    ledger = StoredLedger(1, 10**9 - 1, 0, 0, 10**9, 10**11, 0)
    log = TopicLog(topic=StoredTopic(1, "t", -1), ledgers=(ledger,))
    dealt = split(
        index, list(ranges_between(index, log, log.earliest, log.latest)), most=3, part_bytes=16 << 20
    )
    assert [each[0].entries for each in dealt] == [333_333_334, 333_333_333, 333_333_333]
    assert index.asked < 100
