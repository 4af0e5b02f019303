"""When entries were delivered: exact while few runs are in flight, and bounded when there are many."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.position import Position
from broker.core.subscription.delivery_times import DeliveryTimes

steps = st.lists(st.tuples(st.sampled_from(("send", "ack", "ack through")), st.integers(0, 60)), max_size=60)


@given(steps)
def test_every_message_is_found_with_the_time_of_its_delivery(moves: list[tuple[str, int]]) -> None:
    times = DeliveryTimes()
    unacked: dict[int, int] = {}  # entry → when it was delivered
    sent = 0
    for now_ms, (move, number) in enumerate(moves, 1):
        if move == "send":
            entries = range(sent, sent + number % 5 + 1)
            sent = entries.stop
            unacked |= dict.fromkeys(entries, now_ms)
            times.add(Position(1, sent - 1), len(entries), now_ms)
        elif move == "ack" and unacked:
            entry = sorted(unacked)[number % len(unacked)]
            assert times.acked(Position(1, entry), 1) == unacked.pop(entry)
        elif unacked:
            last = sorted(unacked)[number % len(unacked)]
            gone = [entry for entry in unacked if entry <= last]
            found = dict(times.acked_through(Position(1, last), len(gone)))
            assert found == Counter(unacked.pop(entry) for entry in gone)
    assert unacked or not len(times)


def test_many_runs_are_joined_and_none_of_their_messages_is_lost() -> None:
    times = DeliveryTimes()
    for entry in range(1000):
        times.add(Position(1, entry), 2, now_ms=1000 + entry)
        assert len(times) <= 128
    assert times.acked(Position(1, 999), 2) == 1999
    found = times.acked_through(Position(1, 999), 1998)
    assert sum(messages for _, messages in found) == 1998
    assert len(times) == 0


def test_with_a_thousand_entries_in_flight_latencies_are_right_to_a_thirtieth() -> None:
    times = DeliveryTimes()
    for entry in range(5000):
        times.add(Position(1, entry), 1, now_ms=10_000 + entry)
        if entry >= 1000:
            found_ms = times.acked(Position(1, entry - 1000), 1)
            assert 968 < 10_000 + entry - found_ms <= 1000


@settings(max_examples=40)
@given(
    pauses=st.lists(st.integers(0, 5000) | st.integers(1, 3), min_size=1, max_size=20),
    in_flight=st.lists(st.integers(1, 700), min_size=1, max_size=4),
    one_by_one=st.booleans(),
)
def test_a_time_is_late_by_less_than_a_thirty_second_of_the_longest_span(
    pauses: list[int], in_flight: list[int], one_by_one: bool
) -> None:
    times = DeliveryTimes()
    delivered: list[int] = []
    longest: list[int] = []  # from the delivery of the oldest unacked entry to this one
    now_ms, oldest = 1_000_000, 0
    for entry in range(1500):
        now_ms += pauses[entry % len(pauses)]
        times.add(Position(1, entry), 1, now_ms)
        assert len(times) <= 128
        delivered.append(now_ms)
        longest.append(now_ms - delivered[oldest])
        while entry - oldest >= in_flight[entry * len(in_flight) // 1500]:
            if one_by_one:
                found_ms = times.acked(Position(1, oldest), 1)
            else:
                [(found_ms, messages)] = times.acked_through(Position(1, oldest), 1)
                assert messages == 1
            late_ms = found_ms - delivered[oldest]
            assert late_ms == 0 or 0 < late_ms * 32 < max(longest[oldest:])
            oldest += 1


def test_latencies_stay_right_after_the_clock_is_set_back() -> None:
    times = DeliveryTimes()
    times.add(Position(1, 0), 1, now_ms=10_000)
    times.add(Position(1, 1), 1, now_ms=10_500)
    times.add(Position(1, 2), 1, now_ms=4_000)  # 6,500 ms back
    assert times.acked(Position(1, 0), 1) == 3_500
    assert times.acked_through(Position(1, 2), 2) == [(4_000, 2)]


def test_entries_that_were_not_delivered_since_the_rewind_have_no_time() -> None:
    times = DeliveryTimes()
    assert times.acked(Position(1, 3), 1) == 0
    times.add(Position(1, 3), 4, now_ms=5)
    assert times.acked(Position(1, 4), 1) == 0
    times.forget_through(Position(1, 3))
    assert times.acked_through(Position(1, 3), 1) == ()
    times.add(Position(1, 5), 4, now_ms=7)
    times.clear()
    assert times.acked(Position(1, 5), 1) == 0
