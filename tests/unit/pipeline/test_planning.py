from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.planning import EntryRange, split


def ranges_of(sizes: list[int]) -> list[EntryRange]:
    return [
        EntryRange(topic="t", partition=-1, ledger_id=index, first=index, last=index + size - 1)
        for index, size in enumerate(sizes)
    ]


def positions(ranges: list[EntryRange]) -> list[tuple[int, int]]:
    return [(part.ledger_id, entry) for part in ranges for entry in range(part.first, part.last + 1)]


@given(sizes=st.lists(st.integers(1, 50), max_size=20), parts=st.integers(1, 70))
def test_every_entry_once_in_order_and_in_nearly_equal_lists(sizes: list[int], parts: int) -> None:
    ranges = ranges_of(sizes)
    dealt = split(ranges, parts)
    assert positions([part for each in dealt for part in each]) == positions(ranges)
    counts = [len(positions(each)) for each in dealt]
    assert len(dealt) == max(1, min(parts, sum(sizes)))
    assert max(counts) - min(counts) <= 1


def test_a_ledger_of_a_billion_entries_is_cut_without_counting_them() -> None:
    dealt = split(ranges_of([10**9]), 3)
    assert [each[0].entries for each in dealt] == [333_333_334, 333_333_333, 333_333_333]
