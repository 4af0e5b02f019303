"""What the WebSocket handlers ask of the server beyond ASGI: frames written without a task, and flow control.

A plain ASGI server hands a handler `send`, which must be awaited: one call, one frame. The broker delivers from
callbacks and in bulk, so the server's own object comes along in the scope, under `extensions` / `vela.socket`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, cast

if TYPE_CHECKING:
    from broker.doors.asgi import Scope

__all__ = ["EXTENSION", "Socket", "socket_of"]

EXTENSION: Final = "vela.socket"


class Socket(Protocol):
    """One WebSocket. Nothing blocks, and nothing raises after the connection is lost."""

    @property
    def address(self) -> str:
        """Host and port of the peer."""

    def write_frames(self, payloads: Sequence[bytes], *, binary: bool) -> None:
        """Send each payload as one frame, all with one transport write. Dropped unless the socket is open."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes written that the peer has not taken (an upper bound)."""

    def is_writable(self) -> bool:
        """False from the write that passed the high-water mark until the peer has taken everything, or is gone."""

    def on_writable(self, callback: Callable[[], None]) -> None:
        """Call this whenever the socket becomes writable again."""

    async def is_alive(self, timeout_ms: int) -> bool:
        """Ping; True as soon as anything comes. Safe to cancel."""

    def close(self, code: int, reason: str) -> None:
        """Send what was written, then the close frame. Safe to repeat."""


def socket_of(scope: Scope) -> Socket:
    """The socket of a connection. Raises KeyError when the server is not `broker.doors.http.daphne_server`."""
    return cast(Socket, scope["extensions"][EXTENSION])
