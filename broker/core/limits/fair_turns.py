"""Share the time of one event loop among connections, by deficit round robin.

Time is divided into turns. A connection that has used its part of a turn waits in line. The connections in line
get about half of each turn. The other half is for connections that were idle and have new data.
"""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["FairTurns", "Share"]


class Share:
    """The account of one connection."""

    __slots__ = ("credit_ns", "is_granted", "is_waiting", "last_turn")

    def __init__(self) -> None:
        self.credit_ns = 0  # Working time left; a negative number is a debt
        self.is_waiting = False
        self.is_granted = False  # `next` has returned the connection, but it has not begun to work
        self.last_turn = -1


class FairTurns:
    """The connections in line, and the time left in the current turn."""

    def __init__(self, *, part_ns: int, turn_ns: int) -> None:
        if part_ns < 1 or turn_ns < 1:
            raise ValueError(f"a part of {part_ns} ns, a turn of {turn_ns} ns: both must be 1 or more")
        self._part_ns = part_ns
        self._turn_ns = turn_ns
        self._left_ns = turn_ns
        self._turn = 0
        self._line: OrderedDict[Share, None] = OrderedDict()
        self._visits = 0  # Number of connections that `next` may still try in this turn

    @property
    def is_turn_due(self) -> bool:
        """Whether the next pass of the event loop must begin a turn."""
        return bool(self._line) or 4 * self._left_ns < self._turn_ns

    def begin_turn(self) -> None:
        """Begin a turn. The caller must then call `next` until it returns None."""
        self._turn += 1
        self._left_ns = self._turn_ns
        self._visits = len(self._line)

    def next(self) -> Share | None:
        """Remove and return the next waiting connection that may work in this turn, or None."""
        # Connections may have left the line since the turn began.
        while self._visits and self._line and 2 * self._left_ns > self._turn_ns:
            self._visits -= 1
            share, _ = self._line.popitem(last=False)
            if share.credit_ns <= 0:
                share.credit_ns += self._part_ns
            if share.credit_ns <= 0:
                self._line[share] = None
                continue
            share.is_waiting, share.is_granted = False, True
            share.last_turn = self._turn
            self._left_ns -= share.credit_ns  # Reserve this time until the connection begins to work
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
            share.credit_ns = self._part_ns  # The connection is new or was idle
        share.last_turn = self._turn
        return share.credit_ns > 0

    def worked(self, share: Share, time_ns: int) -> None:
        """Charge a connection for its work."""
        share.credit_ns -= time_ns
        self._left_ns -= time_ns

    def may_go_on(self, share: Share) -> bool:
        """Return whether a working connection may do more in this turn."""
        return share.credit_ns > 0 and self._left_ns > 0

    def wait(self, share: Share) -> None:
        """Put a connection in line. Safe to repeat."""
        if share.is_waiting or share.is_granted:
            return
        share.is_waiting = True
        self._line[share] = None
        if share.credit_ns > 0 and share.last_turn == self._turn:
            self._line.move_to_end(share, last=False)

    def leave(self, share: Share) -> None:
        """Remove a connection. Safe to repeat."""
        share.is_granted = False
        if share.is_waiting:
            share.is_waiting = False
            del self._line[share]
