"""Back-pressure on peers with too many unanswered commands.

A closed gate stops all reading from the peer, so no frame from the peer can open the gate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["ReadGate"]

MAX_PENDING_BYTES: Final = 4 * 1024 * 1024  # Total size of all unanswered sends
MAX_PENDING_SENDS: Final = 1000
MAX_PENDING_REQUESTS: Final = 1000
MAX_PENDING_ACKS: Final = 10_000


class ReadGate:
    """Counts unanswered commands. Closes above a limit, and opens when every count is at most half its limit."""

    __slots__ = (
        "_acks",
        "_bytes",
        "_open",
        "_output_is_stuck",
        "_pause",
        "_requests",
        "_resume",
        "_sends",
        "_throttles",
    )

    def __init__(self, *, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._pause = pause
        self._resume = resume
        self._bytes = 0
        self._sends = 0
        self._requests = 0
        self._acks = 0
        self._output_is_stuck = False
        self._throttles = 0
        self._open = True

    @property
    def is_open(self) -> bool:
        """Whether the broker reads from the peer."""
        return self._open

    def send_queued(self, size_bytes: int) -> None:
        """Count a send that waits for a receipt or a refusal."""
        self._bytes += size_bytes
        self._sends += 1
        if self._open and (self._bytes > MAX_PENDING_BYTES or self._sends > MAX_PENDING_SENDS):
            self._close()

    def sends_answered(self, sends: int, size_bytes: int) -> None:
        """Remove sends from the count."""
        self._bytes -= size_bytes
        self._sends -= sends
        self._open_if_possible()

    def request_begun(self) -> None:
        """Count a request that is not answered at once."""
        self._requests += 1
        if self._open and self._requests > MAX_PENDING_REQUESTS:
            self._close()

    def request_done(self) -> None:
        """Remove a request from the count."""
        self._requests -= 1
        self._open_if_possible()

    def ack_begun(self) -> None:
        """Count an ack command whose client wants a receipt."""
        self._acks += 1
        if self._open and self._acks > MAX_PENDING_ACKS:
            self._close()

    def ack_done(self) -> None:
        """Remove an ack command from the count."""
        self._acks -= 1
        self._open_if_possible()

    def output_stuck(self, *, stuck: bool) -> None:
        """Close the gate while the peer does not read the answers."""
        self._output_is_stuck = stuck
        if stuck and self._open:
            self._close()
        elif not stuck:
            self._open_if_possible()

    def throttled(self, is_throttled: bool) -> None:
        """Close the gate while a throttle applies, such as an exceeded rate limit.

        Several throttles may apply at once, so each call with True needs a later call with False.
        """
        self._throttles += 1 if is_throttled else -1
        if self._throttles and self._open:
            self._close()
        elif not self._throttles:
            self._open_if_possible()

    def _close(self) -> None:
        self._open = False
        self._pause()

    def _open_if_possible(self) -> None:
        if (
            not self._open
            and not self._output_is_stuck
            and not self._throttles
            and self._bytes <= MAX_PENDING_BYTES // 2
            and self._sends <= MAX_PENDING_SENDS // 2
            and self._requests <= MAX_PENDING_REQUESTS // 2
            and self._acks <= MAX_PENDING_ACKS // 2
        ):
            self._open = True
            self._resume()
