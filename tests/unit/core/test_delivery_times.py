"""When entries were delivered: exact while few runs are in flight, and bounded when there are many."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
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
        assert len(times) <= 64
    assert times.acked(Position(1, 999), 2) == 1999
    found = times.acked_through(Position(1, 999), 1998)
    assert sum(messages for _, messages in found) == 1998
    assert len(times) == 0


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
