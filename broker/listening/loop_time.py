"""Share the event loop's time among the connections of a process.

Time is divided into turns. A connection may work for a limited part of each turn, so one busy connection does not
delay the others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from types import coroutine
from typing import Any, Final, TypeVar

from broker.core.limits.fair_turns import FairTurns, Share

__all__ = ["LoopTime", "TimeShare"]

_Result = TypeVar("_Result")

# How long a connection may work in one turn.
PART_NS: Final = 125_000
# How long all connections together may work in one turn.
TURN_NS: Final = 250_000


class LoopTime:
    """Runs the turns on the event loop. All ports of a process share one LoopTime."""

    def __init__(
        self,
        now_ns: Callable[[], int] = time.perf_counter_ns,
        cpu_ns: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        """`now_ns` is a monotonic clock. `cpu_ns` returns the CPU time of the loop's thread."""
        self.now_ns = now_ns
        self._cpu_ns = cpu_ns
        self._cpu_at_turn_ns = 0
        self.fair = FairTurns(part_ns=PART_NS, turn_ns=TURN_NS)
        self.waits = 0  # Number of times that a connection had to wait for a later turn
        self._is_turn_coming = False

    def share(self) -> TimeShare:
        """Return a share for a new connection."""
        return TimeShare(self)

    def worked_ns(self, time_ns: int) -> int:
        """Return how much of the elapsed `time_ns` counts as work.

        If the work took longer than PART_NS, the result is at most the thread's CPU time in this turn, because other
        processes may have run meanwhile.
        """
        if time_ns <= PART_NS:
            return time_ns
        return min(time_ns, self._cpu_ns() - self._cpu_at_turn_ns)

    def turn_soon(self) -> None:
        """Begin a turn in the loop's next pass."""
        if not self._is_turn_coming:
            self._is_turn_coming = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._is_turn_coming = False
        self._cpu_at_turn_ns = self._cpu_ns()
        fair = self.fair
        fair.begin_turn()
        while (share := fair.next()) is not None:
            assert isinstance(share, TimeShare)
            share.resume()
        if fair.is_turn_due:
            self.turn_soon()


class TimeShare(Share):
    """One connection's part of each turn, and a stopwatch that measures the connection's work."""

    __slots__ = ("_began_ns", "_time", "_waiting")

    def __init__(self, loop_time: LoopTime) -> None:
        super().__init__()
        self._time = loop_time
        self._began_ns: int | None = None  # Start of the uncounted work; None while the stopwatch is stopped
        self._waiting: dict[Callable[[], None], None] = {}

    def may_begin(self) -> bool:
        """Count the work so far. If the connection may work now, start the stopwatch and return True."""
        self.ends()
        if self._time.fair.may_begin(self):
            self._began_ns = self._time.now_ns()
            return True
        return False

    def begins(self, resume: Callable[[], None]) -> bool:
        """If the connection may work now, start the stopwatch and return True.

        Otherwise, return False. A later turn calls the callback `resume`.
        """
        if self.may_begin():
            return True
        self._wait(resume)
        return False

    @property
    def is_working(self) -> bool:
        """Whether the stopwatch is running."""
        return self._began_ns is not None

    def goes_on(self, resume: Callable[[], None]) -> bool:
        """Count the work so far. If the connection must wait, stop the stopwatch and return False.

        In that case, a later turn calls the callback `resume`.
        """
        if self.may_go_on():
            return True
        self._wait(resume)
        return False

    def may_go_on(self) -> bool:
        """Count the work so far. If the connection must wait, stop the stopwatch and return False."""
        if self._began_ns is not None:
            now_ns = self._time.now_ns()
            self._time.fair.worked(self, self._time.worked_ns(now_ns - self._began_ns))
            self._began_ns = now_ns
        if self._time.fair.may_go_on(self):
            return True
        self._began_ns = None
        return False

    def ends(self) -> None:
        """Count the work so far and stop the stopwatch."""
        if self._began_ns is not None:
            self.charge(self._time.worked_ns(self._time.now_ns() - self._began_ns))
            self._began_ns = None

    def charge(self, time_ns: int) -> None:
        """Count `time_ns` of work."""
        self._time.fair.worked(self, time_ns)
        if self._time.fair.is_turn_due:
            self._time.turn_soon()

    async def turn(self) -> None:
        """Wait until the connection may work, then start the stopwatch. Safe to cancel."""
        while not self.may_begin():
            comes = asyncio.get_running_loop().create_future()
            self._wait(partial(_set, comes))
            await comes

    async def away(self, work: Awaitable[_Result]) -> _Result:
        """Await `work` with the stopwatch stopped."""
        self.ends()
        try:
            return await work
        finally:
            self._began_ns = self._time.now_ns()

    @coroutine
    def charging(self, work: Coroutine[Any, Any, _Result], *, paid_ns: int) -> Generator[Any, Any, _Result]:
        """Await `work` and count its running time, but not its waits.

        The caller has charged `paid_ns` in advance, so count only the running time beyond `paid_ns`.
        """
        step: Callable[[], Any] = partial(work.send, None)
        while True:
            began_ns = self._time.now_ns()
            try:
                waits_for = step()
            except StopIteration as done:
                result: _Result = done.value
                return result
            finally:
                paid_ns -= self._time.worked_ns(self._time.now_ns() - began_ns)
                if paid_ns < 0:
                    self.charge(-paid_ns)
                    paid_ns = 0
            try:
                step = partial(work.send, (yield waits_for))
            except BaseException as error:
                step = partial(work.throw, error)

    def resume(self) -> None:
        """Call every callback that waits for a turn."""
        waiting, self._waiting = self._waiting, {}
        for each in waiting:
            each()

    def close(self) -> None:
        """Stop waiting for turns. Safe to repeat.

        This method does not wake the tasks that wait in `turn`, so cancel those tasks first.
        """
        self._waiting.clear()
        self._time.fair.leave(self)

    def _wait(self, resume: Callable[[], None]) -> None:
        self._time.waits += 1
        self._waiting[resume] = None
        self._time.fair.wait(self)
        self._time.turn_soon()


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
