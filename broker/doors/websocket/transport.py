"""The services that a WebSocket needs from the server beyond ASGI: writing from callbacks, and flow control.

ASGI's `send` must be awaited and sends one frame per call. The broker delivers from callbacks and in bulk, so the
server puts its own object for the connection into the scope, under `extensions` / `vela.transport`.
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
    """The server's side of one WebSocket. No method raises after the connection is lost.

    Only `drained` and `is_alive` wait.
    """

    @property
    def address(self) -> str:
        """Host and port of the peer."""

    def write_frames(self, payloads: Sequence[bytes], *, binary: bool) -> None:
        """Send each payload as one frame, all with one transport write. Drop them unless the socket is open."""

    @property
    def share(self) -> TimeShare:
        """The connection's share of the event loop's time."""

    @property
    def unsent_bytes(self) -> int:
        """Roughly how many written bytes wait in this process."""

    def is_connected(self) -> bool:
        """Return whether neither side has begun to close the socket, and the connection is not lost."""

    def is_writable(self) -> bool:
        """Return False after a write passed the high-water mark, until everything is sent or the peer is gone."""

    def on_writable(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever the socket becomes writable again."""

    async def drained(self) -> None:
        """Wait until the socket is writable, or the connection is gone. Safe to cancel."""

    async def is_alive(self, timeout_ms: int) -> bool:
        """Ping the peer, and return whether a message or a pong arrives in time. If none does, drop the connection.

        While the server does not read from the peer, return True. Safe to cancel.
        """

    def close(self, code: int, reason: str) -> None:
        """Send the written frames, then the close frame. Safe to repeat."""


def transport_of(scope: Scope) -> FrameTransport:
    """Return a connection's transport. Raises KeyError unless `broker.doors.http.daphne_server` serves it."""
    return cast(FrameTransport, scope["extensions"][EXTENSION])
