"""The ack timeout's trackers: never before the timeout, at most two ticks after it."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vela.core.acks.unacked import BackoffUnackedTracker, UnackedTracker, unacked_tracker
from vela.wire.redelivery_backoff import RedeliveryBackoff

steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "remove", "through", "wait", "clear"]),
        st.integers(0, 9),
        st.integers(0, 1500),
    ),
    max_size=60,
)


def add(tracker: UnackedTracker, entry: int, now_ms: int, redeliveries: int = 0) -> None:
    if tracker.next_tick_ms is None:
        tracker.start(now_ms)
    tracker.add((1, entry), redeliveries)


def expiries(tracker: UnackedTracker, until_ms: int) -> dict[int, int]:
    """Tick as the tracker's timer does, and return when each entry expired."""
    found: dict[int, int] = {}
    while tracker.next_tick_ms is not None and tracker.next_tick_ms <= until_ms:
        now_ms = tracker.next_tick_ms
        assert tracker.pop_expired(now_ms - 1) == []
        expired = tracker.pop_expired(now_ms)
        assert expired == sorted(expired)
        found |= {entry: now_ms for _, entry in expired}
    return found


@pytest.mark.row("S4.21", "S4.22", "I22")
@given(steps, st.integers(1000, 3000), st.integers(100, 3000))
@example([("add", 1, 0), ("add", 2, 99), ("add", 3, 1500)], 1000, 100)  # added just before a tick
def test_an_unacked_message_expires_within_its_window(
    steps: list[tuple[str, int, int]], timeout_ms: int, tick_ms: int
) -> None:
    tracker = unacked_tracker(timeout_ms, tick_ms=tick_ms)
    assert tracker is not None
    tick_ms = min(tick_ms, timeout_ms)
    taken: dict[int, int] = {}
    now_ms = 1_700_000_000_000
    for step, entry, wait_ms in steps:
        now_ms += wait_ms
        for expired, at_ms in expiries(tracker, now_ms).items():
            assert timeout_ms < at_ms - taken.pop(expired) + 1 <= timeout_ms + 2 * tick_ms + 1
        assert all(now_ms - since_ms <= timeout_ms + 2 * tick_ms for since_ms in taken.values())
        if step == "add":
            add(tracker, entry, now_ms)
            taken.setdefault(entry, now_ms)
        elif step == "remove":
            tracker.remove((1, entry))
            taken.pop(entry, None)
        elif step == "through":
            tracker.remove_through((1, entry))
            taken = {known: since for known, since in taken.items() if known > entry}
        elif step == "clear":
            tracker.clear()
            taken.clear()
        assert len(tracker) == len(taken)
    assert expiries(tracker, now_ms + 10_000).keys() == taken.keys()
    assert (len(tracker), tracker.next_tick_ms) == (0, None)


@pytest.mark.row("S4.21")
@pytest.mark.parametrize(
    ("timeout_ms", "tick_ms", "slots"), [(1000, 100, 11), (1000, 1000, 2), (1500, 1000, 3), (1000, 5000, 2)]
)
def test_the_wheel_has_one_slot_more_than_the_timeout_has_ticks(
    timeout_ms: int, tick_ms: int, slots: int
) -> None:
    tracker = unacked_tracker(timeout_ms, tick_ms=tick_ms)
    assert tracker is not None
    assert tracker.slots == slots


@pytest.mark.row("S4.21")
def test_a_long_timeout_takes_memory_only_for_the_entries_that_are_tracked() -> None:
    tracemalloc.start()
    try:
        tracker = UnackedTracker(timeout_ms=86_400_000, tick_ms=1000)
        for second in range(1000):  # each entry is acked at once
            add(tracker, second, 1000 * second)
            tracker.remove((1, second))
            tracker.pop_expired(1000 * second + 1000)
        assert tracemalloc.get_traced_memory()[0] < 10_000
    finally:
        tracemalloc.stop()


@pytest.mark.row("S4.21")
def test_a_late_tick_makes_no_entry_expire_early() -> None:
    tracker = UnackedTracker(timeout_ms=1000, tick_ms=100)
    add(tracker, 1, 0)
    add(tracker, 2, 640)  # the loop is busy, so the tick comes 10 ms late
    ticks = [650 + 100 * number for number in range(11)]
    assert [tracker.pop_expired(now_ms) for now_ms in ticks] == [[]] * 10 + [[(1, 1), (1, 2)]]


@pytest.mark.row("S0.45")
def test_the_messages_of_an_entry_share_the_time_of_the_first() -> None:
    tracker = UnackedTracker(timeout_ms=1000, tick_ms=100)
    add(tracker, 1, 0)
    expiries(tracker, 500)
    add(tracker, 1, 500)
    assert expiries(tracker, 2000) == {1: 1100}


@pytest.mark.row("S4.27")
def test_without_a_timeout_nothing_is_tracked_and_a_back_off_chooses_the_other_tracker() -> None:
    backoff = RedeliveryBackoff(min_ms=1000, max_ms=8000, multiplier=2)
    assert unacked_tracker(0) is None
    assert unacked_tracker(None, backoff=backoff) is None
    assert type(unacked_tracker(1000)) is UnackedTracker
    assert type(unacked_tracker(1000, backoff=backoff)) is BackoffUnackedTracker


@pytest.mark.row("S4.28")
def test_with_a_back_off_the_wait_after_the_timeout_grows() -> None:
    backoff = RedeliveryBackoff(min_ms=1000, max_ms=8000, multiplier=2)
    waits = []
    for count in range(5):
        tracker = unacked_tracker(1000, tick_ms=100, backoff=backoff)
        assert tracker is not None
        add(tracker, 1, 0, count)
        assert len(tracker) == 1
        waits.append(expiries(tracker, 20_000)[1])
        assert (len(tracker), tracker.next_tick_ms) == (0, None)
    assert waits == [2100, 3100, 5100, 9100, 9100]


@pytest.mark.row("S4.22", "S4.28")
def test_an_acked_message_does_not_expire() -> None:
    backoff = RedeliveryBackoff(min_ms=1000, max_ms=8000, multiplier=2)
    tracker = BackoffUnackedTracker(timeout_ms=1000, tick_ms=100, backoff=backoff)
    for entry in range(4):
        add(tracker, entry, 0)
    expiries(tracker, 1500)
    add(tracker, 3, 1500)  # another message of an entry that already waits
    tracker.remove((1, 2))
    tracker.remove_through((1, 1))
    assert len(tracker) == 1
    assert expiries(tracker, 5000) == {3: 2100}
    add(tracker, 1, 6000)
    tracker.clear()
    assert expiries(tracker, 20_000) == {}


@pytest.mark.row("S4.30")
@pytest.mark.parametrize("timeout_ms", [1, 999, -5])
def test_a_timeout_under_a_second_is_refused(timeout_ms: int) -> None:
    with pytest.raises(ValueError, match="unacked_messages_timeout_ms"):
        unacked_tracker(timeout_ms)


@pytest.mark.row("S4.30")
def test_a_tick_under_100_ms_is_refused_and_one_over_the_timeout_is_shortened() -> None:
    with pytest.raises(ValueError, match="unacked_messages_tick_ms"):
        unacked_tracker(1000, tick_ms=99)
    tracker = unacked_tracker(1000, tick_ms=60_000)
    assert tracker is not None
    add(tracker, 1, 0)
    assert tracker.next_tick_ms == 1000
