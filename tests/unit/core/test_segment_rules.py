"""When segments are closed, and which segment is worth copying from."""

from __future__ import annotations

import pytest

from broker.core.ledgers.segment_rules import MAX_SEGMENTS, SegmentUse, closing_factor, worth_copying


def use(
    segment_id: int, *, live: int, size: int = 1000, ledgers: int = 3, open_ledgers: int = 0
) -> SegmentUse:
    return SegmentUse(
        segment_id=segment_id,
        size_bytes=size,
        ledgers=ledgers,
        open_ledgers=open_ledgers,
        live_bytes=live,
    )


@pytest.mark.parametrize(
    ("segments", "factor"), [(1, 1), (47, 1), (48, 2), (52, 4), (60, 16), (63, 16), (64, 0), (90, 0)]
)
def test_with_more_segments_each_is_filled_further_and_at_the_limit_none_is_closed(
    segments: int, factor: int
) -> None:
    assert closing_factor(segments) == factor
    assert MAX_SEGMENTS == 64


def test_the_segment_with_the_least_alive_is_copied_when_a_quarter_or_less_of_it_is() -> None:
    assert worth_copying([use(1, live=250), use(2, live=100), use(3, live=400)], 3) == use(2, live=100)
    assert worth_copying([use(1, live=251)], 3) is None
    assert worth_copying([], 3) is None


def test_dead_segments_and_those_with_an_open_ledger_are_not_copied() -> None:
    assert worth_copying([use(1, live=0, ledgers=0), use(2, live=10, open_ledgers=1)], 3) is None


def test_when_segments_are_crowded_the_one_with_the_least_to_copy_goes_unless_most_of_it_lives() -> None:
    crowd = [use(1, live=600, size=1000), use(2, live=450, size=1000), use(3, live=500, size=1000)]
    assert worth_copying(crowd, 47) is None
    assert worth_copying(crowd, 48) == crowd[1]
    assert worth_copying(crowd[:1], 63) is None
