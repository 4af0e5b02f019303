"""The read gate of a connection: it closes above a limit and opens again at half of it, in any order of answers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.doors.read_gate import MAX_PENDING_ACKS, MAX_PENDING_BYTES, MAX_PENDING_SENDS, ReadGate
from tests.unit.doors.reading import Reading


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, MAX_PENDING_BYTES)), max_size=200))
def test_reading_stops_and_starts_with_unanswered_bytes(steps: list[tuple[bool, int]]) -> None:
    reading = Reading()
    gate = ReadGate(pause=reading.pause, resume=reading.resume)
    pending: list[int] = []
    for is_send, size in steps:
        if is_send:
            pending.append(size)
            gate.send_queued(size)
        elif pending:
            gate.sends_answered(1, pending.pop(0))
        assert reading.on is gate.is_open
        if sum(pending) > MAX_PENDING_BYTES or len(pending) > MAX_PENDING_SENDS:
            assert not reading.on
        if sum(pending) <= MAX_PENDING_BYTES // 2 and len(pending) <= MAX_PENDING_SENDS // 2:
            assert reading.on


def test_a_stuck_output_keeps_the_gate_closed_until_the_peer_reads() -> None:
    reading = Reading()
    gate = ReadGate(pause=reading.pause, resume=reading.resume)
    gate.send_queued(MAX_PENDING_BYTES + 1)
    gate.output_stuck(stuck=True)
    gate.sends_answered(1, MAX_PENDING_BYTES + 1)
    assert not reading.on
    gate.output_stuck(stuck=False)
    assert reading.on


def test_reading_stops_while_too_many_acks_wait_for_their_receipts() -> None:
    reading = Reading()
    gate = ReadGate(pause=reading.pause, resume=reading.resume)
    seen = []
    for call, times in (
        (gate.ack_begun, MAX_PENDING_ACKS),
        (gate.ack_begun, 1),
        (gate.ack_done, MAX_PENDING_ACKS // 2),
        (gate.ack_done, 1),
    ):
        for _ in range(times):
            call()
        seen.append(reading.on)
    assert seen == [True, False, False, True]
