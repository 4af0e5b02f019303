"""What a WebSocket needs from the server beyond ASGI.

ASGI's `send` must be awaited. The broker delivers from callbacks, which cannot await.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, cast

if TYPE_CHECKING:
    from broker.doors.asgi import Scope
    from broker.listening.loop_time import TimeShare

__all__ = ["EXTENSION", "FrameTransport", "transport_of"]

EXTENSION: Final = "vela.transport"


class FrameTransport(Protocol):
    """The server's side of one WebSocket. No method raises after the connection is lost."""

    @property
    def address(self) -> str:
        """Host and port of the peer."""

    def write_frames(self, payloads: Sequence[bytes], *, binary: bool) -> None:
        """Send each payload as a frame. If the socket is not open, drop the payloads."""

    @property
    def share(self) -> TimeShare:
        """The connection's share of the event loop's time."""

    @property
    def unsent_bytes(self) -> int:
        """Approximate number of written bytes that have not left this process."""

    def is_connected(self) -> bool:
        """Return whether the socket is open and not closing."""

    def is_writable(self) -> bool:
        """Return whether the caller may write more frames."""

    def on_writable(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever the socket becomes writable again."""

    async def drained(self) -> None:
        """Wait until the socket is writable or lost. Safe to cancel."""

    async def is_alive(self, timeout_ms: int) -> bool:
        """Ping the peer. If no pong or message arrives within `timeout_ms`, drop the connection and return False.

        If the server has paused reading from the peer, return True. Safe to cancel.
        """

    def close(self, code: int, reason: str) -> None:
        """Send a close frame. Safe to repeat."""


def transport_of(scope: Scope) -> FrameTransport:
    """Return a connection's transport. Raises KeyError if the server offers no transport."""
    return cast(FrameTransport, scope["extensions"][EXTENSION])
