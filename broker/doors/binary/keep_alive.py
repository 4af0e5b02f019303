"""Keep-alive pings and liveness probes of a binary connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.clock import Timer

__all__ = ["PROBE_TIMEOUT_MS", "KeepAlive"]

PERIOD_S: Final = 30.0
PROBE_TIMEOUT_MS: Final = 5_000


class KeepAlive:
    """Pings a peer every 30 s after the handshake.

    A silent peer counts as alive while the broker does not read from it.
    """

    def __init__(
        self,
        *,
        call_later: Timer,
        ping: Callable[[], None],
        give_up: Callable[[str], None],
        is_established: Callable[[], bool],
        is_heard: Callable[[], bool],
        handshake_timeout_s: float,
        on_slow_handshake: Callable[[], None],
    ) -> None:
        self._call_later = call_later
        self._ping = ping
        self._give_up = give_up
        self._is_established = is_established
        self._is_heard = is_heard
        self._ping_is_out = False
        self._probes: set[asyncio.Future[bool]] = set()
        self._handshake_timeout_s = handshake_timeout_s
        self._on_slow_handshake = on_slow_handshake
        self._timer = call_later(handshake_timeout_s, self._check_handshake)

    def heard(self) -> None:
        """Record that the peer is alive, because bytes arrived.

        Also call this when the broker resumes reading, because the answer to a ping may still be in the socket.
        """
        self._ping_is_out = False
        if self._probes:
            self._settle_probes(alive=True)

    def stop(self) -> None:
        """Stop all timers and end all probes."""
        self._timer.cancel()
        self._settle_probes(alive=False)

    async def probe(self, timeout_ms: int = PROBE_TIMEOUT_MS) -> bool:
        """Ping, and return whether bytes arrive in time. Safe to cancel and to repeat.

        If no bytes arrive in time, this method calls `give_up`.

        If the broker does not read from the peer, return True, because the broker would not see an answer.
        """
        if not self._is_heard():
            return True
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._probes.add(answer)
        timer = self._call_later(timeout_ms / 1000, lambda: _settle(answer, alive=not self._is_heard()))
        self._ping()
        try:
            alive = await answer
        finally:
            timer.cancel()
            self._probes.discard(answer)
        if not alive:
            self._give_up(f"no answer to a ping within {timeout_ms} ms while another client wants its place")
        return alive

    def _check_handshake(self) -> None:
        if self._is_established():
            self._timer = self._call_later(max(0.0, PERIOD_S - self._handshake_timeout_s), self._tick)
        else:
            self._on_slow_handshake()
            self._give_up(
                f"the handshake took over {self._handshake_timeout_s:g} s (VELA_HANDSHAKE_TIMEOUT_S)"
            )

    def _tick(self) -> None:
        if not self._is_heard():
            self._ping_is_out = False
        elif self._ping_is_out:
            self._give_up(f"nothing was received within {PERIOD_S:g} s of a ping")
            return
        else:
            self._ping_is_out = True
            self._ping()
        self._timer = self._call_later(PERIOD_S, self._tick)

    def _settle_probes(self, *, alive: bool) -> None:
        for answer in self._probes:
            _settle(answer, alive=alive)
        self._probes.clear()


def _settle(answer: asyncio.Future[bool], *, alive: bool) -> None:
    if not answer.done():
        answer.set_result(alive)
