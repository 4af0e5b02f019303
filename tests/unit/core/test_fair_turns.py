"""Fair turns: budgets are kept, no connection starves, and connections that always have work get equal time."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.limits.fair_turns import FairTurns, Share

PART = 100
TURN = 200
LONGEST = 60  # the longest piece of work; nothing interrupts a piece


class Busy(Share):
    """A connection that always has work, in pieces of given lengths."""

    def __init__(self, pieces: list[int]) -> None:
        super().__init__()
        self._pieces = itertools.cycle(pieces)
        self.turns: list[int] = []  # the connection's time in each turn

    def work(self, fair: FairTurns) -> None:
        if not fair.may_begin(self):
            fair.wait(self)
            return
        while True:
            piece = next(self._pieces)
            fair.worked(self, piece)
            self.turns[-1] += piece
            if not fair.may_go_on(self):
                break
        fair.wait(self)


def run(shares: list[Busy], turns: int) -> None:
    fair = FairTurns(part_ns=PART, turn_ns=TURN)
    for turn in range(turns):
        for share in shares:
            share.turns.append(0)
        fair.begin_turn()
        while (first := fair.next()) is not None:
            assert isinstance(first, Busy)
            first.work(fair)
        if turn == 0:
            for each in shares:
                each.work(fair)


PIECES = st.lists(st.integers(1, LONGEST), min_size=1, max_size=5)
MANY = st.lists(PIECES, min_size=1, max_size=12).map(lambda found: [Busy(pieces) for pieces in found])


@given(MANY, st.integers(1, 40))
def test_no_turn_takes_longer_than_its_time_and_a_piece(shares: list[Busy], turns: int) -> None:
    run(shares, turns)
    for turn in zip(*(share.turns for share in shares), strict=True):
        assert sum(turn) < TURN + LONGEST
        assert all(time < PART + LONGEST for time in turn)


@given(MANY)
def test_connections_that_always_have_work_get_equal_time(shares: list[Busy]) -> None:
    run(shares, 60)
    for one, other in itertools.combinations(shares, 2):
        assert abs(sum(one.turns) - sum(other.turns)) <= 2 * (PART + LONGEST)


@given(MANY)
def test_no_connection_waits_for_longer_than_one_round_of_the_others(shares: list[Busy]) -> None:
    run(shares, 60)
    for share in shares:
        waits = [len(list(group)) for got, group in itertools.groupby(share.turns, key=bool) if not got]
        assert max(waits, default=0) <= len(shares) + 1


@given(MANY.filter(lambda shares: len(shares) > 1))
def test_the_time_of_a_turn_is_used_while_a_connection_waits(shares: list[Busy]) -> None:
    run(shares, 60)
    # Waiting connections get half of a turn. A piece of work that takes too long shortens the connection's next part.
    assert sum(sum(share.turns) for share in shares) >= 60 * (TURN // 2 - LONGEST)


def test_a_connection_that_worked_little_begins_each_turn_at_once() -> None:
    fair, share = FairTurns(part_ns=PART, turn_ns=TURN), Share()
    for _ in range(10):
        fair.begin_turn()
        assert fair.may_begin(share)
        fair.worked(share, PART - 1)
        assert fair.may_go_on(share)


def test_a_debt_is_paid_before_the_next_work() -> None:
    fair, share = FairTurns(part_ns=PART, turn_ns=TURN), Share()
    assert fair.may_begin(share)
    fair.worked(share, 4 * PART)
    waited = 0
    assert not fair.may_go_on(share)
    fair.wait(share)
    fair.begin_turn()
    while fair.next() is None:
        waited += 1
        fair.begin_turn()
    assert waited == 3


def test_a_connection_that_does_not_begin_in_its_turn_begins_in_a_later_one() -> None:
    fair, slow, other = FairTurns(part_ns=PART, turn_ns=TURN), Busy([10]), Busy([10])
    other.turns.append(0)
    assert fair.may_begin(slow)
    fair.worked(slow, PART)
    fair.wait(slow)
    fair.begin_turn()
    assert fair.next() is slow
    fair.begin_turn()
    fair.worked(other, TURN)  # nothing is left of this turn
    assert fair.may_begin(slow)
    assert not fair.may_begin(other)


def test_time_reserved_for_one_connection_is_not_given_to_others() -> None:
    fair = FairTurns(part_ns=PART, turn_ns=TURN)
    shares = [Share() for _ in range(5)]
    for share in shares:
        fair.wait(share)
    fair.begin_turn()
    assert [fair.next() for _ in range(2)] == [shares[0], None]


def test_the_line_leaves_half_of_a_turn_to_connections_that_did_not_wait() -> None:
    fair, newcomer = FairTurns(part_ns=PART, turn_ns=TURN), Share()
    for _ in range(9):
        fair.wait(Share())
    for _ in range(9):
        fair.begin_turn()
        while (share := fair.next()) is not None:
            assert fair.may_begin(share)
            fair.worked(share, PART)
        assert fair.may_begin(newcomer)
        assert fair.may_go_on(newcomer)


def test_a_connection_that_is_gone_does_not_take_a_turn() -> None:
    fair, gone, other = FairTurns(part_ns=PART, turn_ns=TURN), Share(), Share()
    fair.wait(gone)
    fair.wait(other)
    fair.leave(gone)
    fair.leave(gone)
    fair.begin_turn()
    assert fair.next() is other
    assert fair.next() is None


def test_a_connection_may_be_closed_by_the_work_of_another_in_the_same_turn() -> None:
    fair, first, gone = FairTurns(part_ns=PART, turn_ns=TURN), Share(), Share()
    fair.worked(first, PART - 1)  # its debt takes most of its next part, so the turn has time for the line
    fair.wait(first)
    fair.wait(gone)
    fair.begin_turn()
    assert fair.next() is first
    fair.leave(gone)
    assert fair.next() is None


@pytest.mark.parametrize(("part_ns", "turn_ns"), [(0, 1), (1, 0)])
def test_a_turn_without_time_is_refused(part_ns: int, turn_ns: int) -> None:
    with pytest.raises(ValueError, match="must be 1 or more"):
        FairTurns(part_ns=part_ns, turn_ns=turn_ns)
