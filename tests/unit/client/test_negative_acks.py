"""Negative acks: when they are due, for each of the three timers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela.core.acks.negative_acks import NegativeAcks, NegativeAckTimer
from vela.wire.redelivery_backoff import RedeliveryBackoff

T0 = 1_700_000_000_017
WINDOWS = {  # the earliest and the latest due time, for a delay
    NegativeAckTimer.PRECISE: lambda delay_ms: (delay_ms, delay_ms + 32),
    NegativeAckTimer.TRUNCATED: lambda delay_ms: (delay_ms - 256, delay_ms),
    NegativeAckTimer.PERIODIC: lambda delay_ms: (delay_ms, delay_ms + delay_ms // 3),
}


def run(tracker: NegativeAcks, until_ms: int) -> dict[tuple[int, int], int]:
    """Call the tracker only when its timer would, and return when each entry was due."""
    found: dict[tuple[int, int], int] = {}
    while (next_ms := tracker.next_due_ms()) is not None and next_ms <= until_ms:
        assert tracker.pop_due(next_ms - 1) == []
        due = tracker.pop_due(next_ms)
        assert due == sorted(due)
        assert not found.keys() & due, "an entry twice"
        found |= dict.fromkeys(due, next_ms)
    return found


@pytest.mark.row("S4.16", "I22")
@given(
    st.sampled_from(NegativeAckTimer),
    st.integers(0, 5000),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 5)), max_size=30),
)
def test_each_entry_is_asked_for_once_and_in_its_window(
    timer: NegativeAckTimer, delay_ms: int, nacks: list[tuple[int, int]]
) -> None:
    tracker = NegativeAcks(delay_ms=delay_ms, timer=timer)
    first: dict[tuple[int, int], int] = {}
    found: dict[tuple[int, int], int] = {}
    now_ms = T0
    for pause_ms, entry in nacks:
        now_ms += pause_ms
        for position, due_ms in run(tracker, now_ms).items():
            assert position in first
            found[position] = due_ms - first.pop(position)
        tracker.add((1, entry), now_ms)
        first.setdefault((1, entry), now_ms)
        earliest, latest = WINDOWS[timer](max(delay_ms, 100))
        assert all(earliest <= waited <= latest for waited in found.values())
    assert len(tracker) == len(first)
    rest = run(tracker, now_ms + 10_000)
    assert rest.keys() == first.keys()
    assert (len(tracker), tracker.next_due_ms()) == (0, None)


@pytest.mark.row("S4.16")
def test_the_delay_is_a_minute_by_default_and_never_under_100_ms() -> None:
    tracker, quick = NegativeAcks(), NegativeAcks(delay_ms=1)
    tracker.add((1, 1), T0)
    quick.add((1, 1), T0)
    assert 60_000 <= (tracker.next_due_ms() or 0) - T0 < 60_032
    assert 100 <= (quick.next_due_ms() or 0) - T0 < 132


@pytest.mark.row("S4.16")
def test_upstreams_timer_is_up_to_256_ms_early_and_the_older_one_looks_every_third() -> None:
    truncated = NegativeAcks(delay_ms=1000, timer=NegativeAckTimer.TRUNCATED)
    truncated.add((1, 1), 1255)
    assert truncated.next_due_ms() == 2048
    periodic = NegativeAcks(delay_ms=900, timer=NegativeAckTimer.PERIODIC)
    periodic.add((1, 1), 1000)
    periodic.add((1, 2), 1001)
    looks = []
    while (next_ms := periodic.next_due_ms()) is not None:
        looks.append((next_ms, periodic.pop_due(next_ms)))
    assert looks == [(1300, []), (1600, []), (1900, [(1, 1)]), (2200, [(1, 2)])]


@pytest.mark.row("S4.19")
def test_a_second_negative_ack_of_an_entry_changes_nothing() -> None:
    tracker = NegativeAcks(delay_ms=1000)
    tracker.add((1, 1), 0)
    tracker.add((1, 1), 900)
    assert tracker.pop_due(1024) == [(1, 1)]
    assert tracker.next_due_ms() is None


@pytest.mark.row("I22")
def test_an_ack_after_a_negative_ack_prevents_redelivery() -> None:
    tracker = NegativeAcks(delay_ms=1000, timer=NegativeAckTimer.PERIODIC)
    tracker.add((1, 1), 0)
    tracker.remove((1, 1))
    tracker.remove((1, 1))
    assert tracker.next_due_ms() is None


@pytest.mark.row("S4.17")
def test_entries_due_together_are_returned_together() -> None:
    tracker = NegativeAcks(delay_ms=1000)
    for entry in reversed(range(2500)):
        tracker.add((1, entry), entry % 30)
    assert tracker.pop_due(1056) == [(1, entry) for entry in range(2500)]


@pytest.mark.row("S4.18")
def test_clearing_forgets_all_negative_acks() -> None:
    tracker = NegativeAcks(timer=NegativeAckTimer.PERIODIC)
    tracker.add((1, 1), 0)
    tracker.clear()
    assert tracker.next_due_ms() is None
    tracker.add((1, 2), 0)
    assert len(tracker) == 1


@pytest.mark.row("S4.16")
@pytest.mark.parametrize("timer", NegativeAckTimer)
def test_with_a_back_off_the_delay_grows_with_the_redelivery_count(timer: NegativeAckTimer) -> None:
    backoff = RedeliveryBackoff(min_ms=1000, max_ms=10_000, multiplier=2)
    tracker = NegativeAcks(backoff=backoff, timer=timer)
    for count in range(6):
        tracker.add((1, count), 0, count)
    found = run(tracker, 100_000)
    for count, delay_ms in enumerate([1000, 2000, 4000, 8000, 10_000, 10_000]):
        assert delay_ms - 256 <= found[1, count] <= delay_ms + 334


def test_a_negative_delay_is_refused() -> None:
    with pytest.raises(ValueError, match="negative_ack_redelivery_delay_ms"):
        NegativeAcks(delay_ms=-1)
