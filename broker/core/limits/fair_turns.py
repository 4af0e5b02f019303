"""Share the time of one event loop among connections, by deficit round robin.

In each turn all connections together may work for a limited time, and each of them for a part of it. A connection that
has used its part waits in line for a later turn. The line gets about half of a turn, so that an idle connection with
new data does not queue behind busy ones. If a piece of work takes longer than the rest of the part, the connection is
in debt and pays with its next parts. While a connection waits, each pass of the loop begins a turn; otherwise a turn
lasts until most of it is used. There is no clock here: callers say how long each piece of work took.
"""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["FairTurns", "Share"]


class Share:
    """The account of one connection. Only `FairTurns` changes it."""

    __slots__ = ("credit_ns", "is_granted", "is_waiting", "last_turn")

    def __init__(self) -> None:
        self.credit_ns = 0  # working time that is left; 0 or less: wait in line, unless it has never worked
        self.is_waiting = False
        self.is_granted = False  # `next` has taken it out of the line, and it has not begun yet
        self.last_turn = -1  # the latest turn that let it work; -1: none


class FairTurns:
    """The line of waiting connections, and the time that is left of the current turn."""

    def __init__(self, *, part_ns: int, turn_ns: int) -> None:
        """Give each connection `part_ns` in a turn, and all together `turn_ns`. Raises ValueError if one is below 1."""
        if part_ns < 1 or turn_ns < 1:
            raise ValueError(f"a part of {part_ns} ns, a turn of {turn_ns} ns: both must be 1 or more")
        self._part_ns = part_ns
        self._turn_ns = turn_ns
        self._left_ns = turn_ns
        self._turn = 0
        self._line: OrderedDict[Share, None] = OrderedDict()
        self._visits = 0  # how many more connections in line this turn may look at

    @property
    def is_turn_due(self) -> bool:
        """Whether the next pass of the loop must begin a turn: most of this turn is used, or a connection waits."""
        return bool(self._line) or 4 * self._left_ns < self._turn_ns

    def begin_turn(self) -> None:
        """Begin a turn. Call `next` until it returns None, then let the connections with new data work."""
        self._turn += 1
        self._left_ns = self._turn_ns
        self._visits = len(self._line)

    def next(self) -> Share | None:
        """Return the next connection that may work, and remove it from the line; None if there is none in this turn.

        The connection need not begin immediately.
        """
        # The line may be shorter than expected: the work of a connection may have closed others.
        while self._visits and self._line and 2 * self._left_ns > self._turn_ns:
            self._visits -= 1
            share, _ = self._line.popitem(last=False)
            if share.credit_ns <= 0:
                share.credit_ns += self._part_ns
            if share.credit_ns <= 0:
                self._line[share] = None  # still in debt
                continue
            share.is_waiting, share.is_granted = False, True
            share.last_turn = self._turn
            self._left_ns -= share.credit_ns  # reserved until the connection begins
            return share
        return None

    def may_begin(self, share: Share) -> bool:
        """Return whether this connection may begin to work now. If not, call `wait`."""
        if share.is_granted:
            if share.last_turn == self._turn:
                self._left_ns += share.credit_ns
            share.is_granted = False
            share.last_turn = self._turn
            return True
        if share.is_waiting or self._left_ns <= 0:
            return False
        if share.last_turn != self._turn and (share.credit_ns > 0 or share.last_turn < 0):
            share.credit_ns = self._part_ns  # it is new, or ran out of work when it last worked
        share.last_turn = self._turn
        return share.credit_ns > 0

    def worked(self, share: Share, time_ns: int) -> None:
        """Charge a connection for its work."""
        share.credit_ns -= time_ns
        self._left_ns -= time_ns

    def may_go_on(self, share: Share) -> bool:
        """Return whether a connection that has begun may do more in this turn. If not, call `wait`."""
        return share.credit_ns > 0 and self._left_ns > 0

    def wait(self, share: Share) -> None:
        """Put a connection in line. Safe to repeat.

        If the turn ended before the connection had its whole part, the connection goes to the front.
        """
        if share.is_waiting or share.is_granted:
            return
        share.is_waiting = True
        self._line[share] = None
        if share.credit_ns > 0 and share.last_turn == self._turn:
            self._line.move_to_end(share, last=False)

    def leave(self, share: Share) -> None:
        """Take a connection out of the line because it is closed. Safe to repeat."""
        share.is_granted = False
        if share.is_waiting:
            share.is_waiting = False
            del self._line[share]
