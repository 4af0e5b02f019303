"""Small rules of receiving: who waits, what may be called, where to begin, when a batch is full, zero queues."""

from __future__ import annotations

import weakref

import pytest

from vela.core.consuming.batch_receiving import BatchMeasure
from vela.core.consuming.pending_receives import PendingReceives
from vela.core.consuming.start_position import StartPosition
from vela.core.consuming.state import ConsumerState
from vela.core.flow.zero_queue import ZeroQueueBalance


class Waiter:
    def __init__(self) -> None:
        self.is_done = False

    def done(self) -> bool:
        return self.is_done


@pytest.mark.row("S0.21")
def test_waiting_receives_are_served_in_the_order_of_their_calls() -> None:
    pending: PendingReceives[Waiter] = PendingReceives()
    waiters = [Waiter() for _ in range(3)]
    for waiter in waiters:
        pending.add(waiter)
    assert len(pending) == 3
    assert [pending.next(), pending.next(), pending.next()] == waiters
    assert pending.next() is None
    assert not pending


@pytest.mark.row("S0.24")
def test_cancelled_receives_are_passed_over() -> None:
    pending: PendingReceives[Waiter] = PendingReceives()
    waiters = [Waiter() for _ in range(4)]
    for waiter in waiters:
        pending.add(waiter)
    waiters[0].is_done = waiters[2].is_done = True
    assert len(pending) == 2
    assert pending.next() is waiters[1]
    assert pending.take_all() == [waiters[3]]
    assert pending.next() is None


@pytest.mark.row("S0.24")
def test_receives_that_time_out_on_a_quiet_topic_do_not_pile_up() -> None:
    pending: PendingReceives[Waiter] = PendingReceives()
    first = Waiter()  # waits without a limit, in front of all others
    pending.add(first)
    waiters = [Waiter() for _ in range(1000)]
    references = [weakref.ref(each) for each in waiters]
    while waiters:
        waiter = waiters.pop()
        pending.add(waiter)
        waiter.is_done = True
        del waiter
    assert sum(reference() is not None for reference in references) < 50
    assert pending.take_all() == [first]


@pytest.mark.row("S0.33")
@pytest.mark.parametrize(
    ("state", "receives", "over"),
    [
        (ConsumerState.UNINITIALIZED, False, False),
        (ConsumerState.CONNECTING, True, False),
        (ConsumerState.READY, True, False),
        (ConsumerState.CLOSING, False, True),
        (ConsumerState.CLOSED, False, True),
        (ConsumerState.FAILED, False, False),
    ],
)
def test_the_state_decides_whether_a_receive_is_allowed(
    state: ConsumerState, receives: bool, over: bool
) -> None:
    assert (state.can_receive, state.is_over) == (receives, over)


@pytest.mark.parametrize(
    ("start", "inclusive", "kept"),
    [(-1, False, []), (-1, True, [0, 1, 2, 3]), (1, False, [2, 3]), (1, True, [1, 2, 3])],
)
def test_a_start_inside_a_batch_skips_its_earlier_messages(
    start: int, inclusive: bool, kept: list[int]
) -> None:
    position = StartPosition(ledger_id=3, entry_id=5, batch_index=start, inclusive=inclusive)
    assert [index for index in range(4) if not position.skips(3, 5, index)] == kept
    assert not position.skips(3, 6, 0)
    assert not position.skips(4, 5, 0)


def test_a_start_at_a_single_message_skips_it_unless_it_is_inclusive() -> None:
    assert StartPosition(ledger_id=3, entry_id=5, batch_index=-1, inclusive=False).skips(3, 5, -1)
    assert not StartPosition(ledger_id=3, entry_id=5, batch_index=-1, inclusive=True).skips(3, 5, -1)


def test_a_batch_receive_takes_messages_within_its_limits() -> None:
    measure = BatchMeasure(3, 100)
    assert [measure.add(size) for size in (60, 40, 1)] == [True, True, False]
    assert BatchMeasure(3, 100).add(500)  # a message larger than the limit is a batch by itself
    unlimited = BatchMeasure(-1, -1)
    assert all(unlimited.add(1 << 20) for _ in range(100))


@pytest.mark.row("S2.13")
def test_a_permit_left_over_is_used_by_the_next_receive() -> None:
    balance = ZeroQueueBalance(lambda: 0)
    assert balance.grant_for(1) == 1
    assert balance.grant_for(0) == 0  # the receive was cancelled
    assert balance.grant_for(1) == 0
    balance.spent(1)
    assert balance.grant_for(1) == 1


@pytest.mark.row("S2.6")
def test_every_receive_that_waits_has_its_permit() -> None:
    balance = ZeroQueueBalance(lambda: 0)
    assert [balance.grant_for(1), balance.grant_for(2), balance.grant_for(3)] == [1, 1, 1]
    assert balance.at_broker == 3


@pytest.mark.row("S2.8")
def test_while_paused_nothing_is_granted() -> None:
    balance = ZeroQueueBalance(lambda: 0, paused=True)
    assert balance.is_paused
    assert balance.grant_for(2) == 0
    balance.resume()
    assert balance.grant_for(2) == 2
    balance.pause()
    balance.spent(2)
    assert balance.grant_for(1) == 0


@pytest.mark.row("S2.16")
def test_a_new_connection_begins_without_permits() -> None:
    balance = ZeroQueueBalance(lambda: 0)
    balance.grant_for(1)
    balance.attached()
    assert balance.grant_for(1) == 1


@pytest.mark.row("S0.19")
def test_the_permits_of_a_discarded_batch_are_restored() -> None:
    balance = ZeroQueueBalance(lambda: 0)
    balance.grant_for(1)
    balance.spent(10)
    assert balance.grant_for(1) == 10
    assert balance.at_broker == 1
