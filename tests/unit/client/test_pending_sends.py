"""Sends and their receipts, against a model: each message is answered once, in the order it was sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from vela.core.producing.chunks import ChunkedSend
from vela.core.producing.pending_sends import NEVER_MS, PendingSend, PendingSends, UnexpectedReceipt


def a_send(
    first: int, last: int | None = None, *, deadline_ms: int = NEVER_MS, chunked: ChunkedSend | None = None
) -> PendingSend[int]:
    last = first if last is None else last
    return PendingSend(
        (b"head", b"entry"),
        list(range(first, last + 1)),
        sequence_id=first,
        last_sequence_id=last,
        is_batch=last > first,
        payload_bytes=1,
        sent_ms=0,
        deadline_ms=deadline_ms,
        chunked=chunked,
    )


class Sending(RuleBasedStateMachine):
    """Sends to a broker that answers some of them, answers twice, refuses, or is silent until the timeout."""

    def __init__(self) -> None:
        super().__init__()
        self.pending = PendingSends[int]()
        self.waiting: list[tuple[int, int, int]] = []  # first and last id, deadline
        self.next_id = 0
        self.now_ms = 0
        self.answered: list[int] = []

    @rule(size=st.integers(1, 4))
    def send(self, size: int) -> None:
        first, last = self.next_id, self.next_id + size - 1
        self.next_id += size
        self.waiting.append((first, last, self.now_ms + 100))
        self.pending.push(a_send(first, last, deadline_ms=self.now_ms + 100))

    @precondition(lambda self: self.waiting)
    @rule(refused=st.booleans())
    def answer(self, refused: bool) -> None:
        first, last, _ = self.waiting.pop(0)
        if refused:
            (taken,) = self.pending.take_refused(last)
        else:
            received = self.pending.take_receipt(first)
            assert received is not None
            taken = received
        self.answered += taken.tokens

    @rule(back=st.integers(1, 50))
    def stale_answer(self, back: int) -> None:
        oldest = self.waiting[0][0] if self.waiting else self.next_id
        assert self.pending.take_receipt(oldest - back) is None
        assert self.pending.take_refused(oldest - back) == []

    @precondition(lambda self: self.waiting)
    @rule(ahead=st.integers(1, 50))
    def answer_from_the_future(self, ahead: int) -> None:
        with pytest.raises(UnexpectedReceipt):
            self.pending.take_receipt(self.waiting[0][1] + ahead)

    @rule(ms=st.integers(0, 150))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        for send in self.pending.take_due(self.now_ms):
            first, last, deadline_ms = self.waiting.pop(0)
            assert deadline_ms <= self.now_ms
            assert send.tokens == list(range(first, last + 1))
            self.answered += send.tokens

    @invariant()
    def what_waits_goes_out_again_in_order(self) -> None:
        assert [(send.sequence_id, send.last_sequence_id) for send in self.pending] == [
            (first, last) for first, last, _ in self.waiting
        ]
        assert self.pending.next_deadline_ms() == (self.waiting[0][2] if self.waiting else None)

    def teardown(self) -> None:
        self.answered += [token for send in self.pending.take_all() for token in send.tokens]
        assert self.answered == list(range(self.next_id))
        assert len(self.pending) == 0


TestSending = Sending.TestCase


@given(st.integers(1, 5), st.integers(0, 4))
def test_a_refused_chunk_ends_its_whole_message_and_no_other(chunks: int, stored: int) -> None:
    pending = PendingSends[int]()
    whole = ChunkedSend("p-1", chunks)
    for _ in range(chunks):
        pending.push(a_send(1, chunked=whole))
    pending.push(a_send(2))
    stored = min(stored, chunks - 1)
    for _ in range(stored):
        assert pending.take_receipt(1) is not None
    assert len(pending.take_refused(1)) == chunks - stored
    assert pending.take_receipt(1) is None  # the receipt of a chunk that was already sent
    assert [send.sequence_id for send in pending] == [2]


def test_a_receipt_with_nothing_waiting_is_ignored() -> None:
    assert PendingSends[int]().take_receipt(5) is None


def test_sends_without_a_timeout_are_never_due() -> None:
    pending = PendingSends[int]()
    pending.push(a_send(0))
    assert pending.next_deadline_ms() is None
    assert pending.take_due(1 << 50) == []
