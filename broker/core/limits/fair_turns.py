"""Shares the time of one event loop among connections, by deficit round robin.

Time passes in turns, one for each pass of the loop. In each turn the connections together may work for a limited time,
and each of them for a part of it. A connection that has used its part waits in line for a later turn. The line gets
half of a turn at most, so that a connection that did nothing before need not queue behind busy ones. Work that took
longer than it should have is a debt, which the connection pays with its next parts. There is no clock here: callers say
how long each piece of work took.
"""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["FairTurns", "Share"]


class Share:
    """The account of one connection. Only `FairTurns` changes it."""

    __slots__ = ("credit_ns", "is_granted", "is_waiting", "last_turn")

    def __init__(self) -> None:
        self.credit_ns = 0  # time it may still work; 0 or less: it must wait in line
        self.is_waiting = False
        self.is_granted = False  # its place in line has come, and it has not finished since
        self.last_turn = -1  # in which it last worked


class FairTurns:
    """The line of waiting connections, and what is left of the present turn."""

    def __init__(self, *, part_ns: int, turn_ns: int) -> None:
        """Give each connection `part_ns` a turn, and all together `turn_ns`. Raises ValueError if one is below 1."""
        if part_ns < 1 or turn_ns < 1:
            raise ValueError(f"a part of {part_ns} ns, a turn of {turn_ns} ns: both must be 1 or more")
        self._part_ns = part_ns
        self._turn_ns = turn_ns
        self._left_ns = turn_ns
        self._turn = 0
        self._line: OrderedDict[Share, None] = OrderedDict()
        self._visits = 0  # connections that may still be looked at in this turn: each once

    @property
    def is_turn_due(self) -> bool:
        """Whether the next pass of the loop must begin a turn: most of this one is used, or a connection waits."""
        return bool(self._line) or 4 * self._left_ns < self._turn_ns

    def begin_turn(self) -> None:
        """Begin a turn. Call `next` until it returns None, then let the connections with new data work."""
        self._turn += 1
        self._left_ns = self._turn_ns
        self._visits = len(self._line)

    def next(self) -> Share | None:
        """Take the next connection out of the line. It may begin to work, now or later. None: nobody may."""
        while self._visits and 2 * self._left_ns > self._turn_ns:
            self._visits -= 1
            share, _ = self._line.popitem(last=False)
            if share.credit_ns <= 0:
                share.credit_ns += self._part_ns
            if share.credit_ns <= 0:
                self._line[share] = None  # still in debt
                continue
            share.is_waiting, share.is_granted = False, True
            share.last_turn = self._turn
            self._left_ns -= share.credit_ns  # reserved until it begins
            return share
        return None

    def may_begin(self, share: Share) -> bool:
        """Return whether this connection may begin to work now. If not, let it `wait`."""
        if share.is_granted:
            if share.last_turn == self._turn:
                self._left_ns += share.credit_ns
            share.is_granted = False
            share.last_turn = self._turn
            return True
        if share.is_waiting or self._left_ns <= 0:
            return False
        if share.last_turn != self._turn and (share.credit_ns > 0 or share.last_turn < 0):
            share.credit_ns = self._part_ns  # it stopped by itself before: each turn gives it a whole part
        share.last_turn = self._turn
        return share.credit_ns > 0

    def worked(self, share: Share, time_ns: int) -> None:
        """Charge a connection for its work."""
        share.credit_ns -= time_ns
        self._left_ns -= time_ns

    def may_go_on(self, share: Share) -> bool:
        """Return whether a connection that has begun may do more in this turn. If not, let it `wait`."""
        return share.credit_ns > 0 and self._left_ns > 0

    def wait(self, share: Share) -> None:
        """Put a connection in line. Safe to repeat.

        One that was interrupted only because the turn was over comes first: it has not had its whole part.
        """
        if share.is_waiting or share.is_granted:
            return
        share.is_waiting = True
        self._line[share] = None
        if share.credit_ns > 0 and share.last_turn == self._turn:
            self._line.move_to_end(share, last=False)

    def leave(self, share: Share) -> None:
        """Take a connection out of the line: it is gone. Safe to repeat."""
        share.is_granted = False
        if share.is_waiting:
            share.is_waiting = False
            del self._line[share]
