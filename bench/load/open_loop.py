"""Send at a fixed rate, however late the answers are. Latency counts from the intended time of each send."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from bench.figures import percentile
from bench.load.peers.binary import PeerFailed

__all__ = ["Latencies", "OpenLoop", "run_exactly"]

_Result = TypeVar("_Result")
_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """One run's messages, warm-up left out."""

    values_ms: list[float]
    intended_s: list[float]  # when each was to be sent, by time.perf_counter
    lateness_ms: list[float]  # how long after its intended time each was sent; values_ms includes it

    def at(self, percent: float) -> float:
        """Return a percentile in ms."""
        return percentile(self.values_ms, percent)

    def __str__(self) -> str:
        return (
            f"p50 {self.at(50):.2f} p99 {self.at(99):.2f} p99.9 {self.at(99.9):.2f} max {max(self.values_ms):.1f} ms;"
            f" generator late p99 {percentile(self.lateness_ms, 99):.2f} ms"
        )


class OpenLoop:
    """Sends each message at its intended time. Its user calls `arrived` with a message's number when it has arrived."""

    def __init__(self, *, per_s: float, warm_up_s: float, run_s: float) -> None:
        self._per_s = per_s
        self._first = round(per_s * warm_up_s)  # earlier messages are the warm-up and do not count
        self._count = self._first + round(per_s * run_s)
        self._arrivals: list[float] = [0.0] * self._count
        self._sent: list[float] = [0.0] * self._count
        self._missing = self._count
        self._all_arrived = asyncio.Event()
        self._began = 0.0

    def arrived(self, number: int) -> None:
        """Record that message `number` has arrived. Later arrivals of the same message change nothing."""
        if self._arrivals[number]:
            return
        self._arrivals[number] = time.perf_counter()
        self._missing -= 1
        if not self._missing:
            self._all_arrived.set()

    async def run(self, send: Callable[[int], None]) -> Latencies:
        """Send all messages and wait for their arrivals. Raises PeerFailed when one never arrives."""
        self._began = time.perf_counter() + 0.01
        for number in range(self._count):
            wait_s = self._intended(number) - time.perf_counter()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            elif number % 64 == 0:
                await asyncio.sleep(0)  # behind schedule, but answers must still be read
            self._sent[number] = time.perf_counter()
            send(number)
        try:
            await asyncio.wait_for(self._all_arrived.wait(), _PATIENCE_S)
        except TimeoutError:
            raise PeerFailed(f"{self._missing} of {self._count} messages never arrived") from None
        counted = range(self._first, self._count)
        return Latencies(
            values_ms=[1000 * (self._arrivals[number] - self._intended(number)) for number in counted],
            intended_s=[self._intended(number) for number in counted],
            lateness_ms=[1000 * (self._sent[number] - self._intended(number)) for number in counted],
        )

    def _intended(self, number: int) -> float:
        return self._began + number / self._per_s


def run_exactly(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run in a loop over `select`, whose timers are exact to the microsecond; those of `epoll` count milliseconds."""
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        return runner.run(work)
