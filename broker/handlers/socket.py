"""The worker's WebSocket: autobahn's client, which Daphne brings along."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from autobahn.asyncio.websocket import WebSocketClientFactory, WebSocketClientProtocol

__all__ = ["ConsumerSocket", "SocketLost"]

OPEN_TIMEOUT_S: Final = 15.0
PING_S: Final = 10.0
CLOSE_S: Final = 3.0


class SocketLost(Exception):
    """The connection ended, or was never opened; the text says what the broker said."""


class ConsumerSocket(WebSocketClientProtocol):
    """One consumer. `on_push` gets each text frame; `lost` ends with SocketLost."""

    on_push: Callable[[bytes], None]

    def __init__(self) -> None:
        super().__init__()
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = loop.create_future()
        self.lost: asyncio.Future[None] = loop.create_future()
        self.refusal = ""

    @classmethod
    async def connect(cls, url: str, path: str, on_push: Callable[[bytes], None]) -> ConsumerSocket:
        """Open it. Raises SocketLost, OSError."""
        parts = urlsplit(url)
        secure = parts.scheme in ("https", "wss")
        host, port = parts.hostname or "127.0.0.1", parts.port or (443 if secure else 80)
        factory = WebSocketClientFactory(f"{'wss' if secure else 'ws'}://{host}:{port}{path}")
        factory.protocol = cls
        factory.setProtocolOptions(
            openHandshakeTimeout=OPEN_TIMEOUT_S,
            autoPingInterval=PING_S,
            autoPingTimeout=PING_S,
            closeHandshakeTimeout=CLOSE_S,
        )
        loop = asyncio.get_running_loop()
        _, socket = await loop.create_connection(factory, host, port, ssl=secure or None)
        socket.on_push = on_push
        await asyncio.wait((socket.opened, socket.lost), return_when=asyncio.FIRST_COMPLETED)
        if socket.lost.done():
            raise SocketLost(socket.refusal)
        return socket  # type: ignore[no-any-return]

    def write(self, frame: bytes) -> None:
        """Send a text frame; dropped when the connection is lost."""
        if not self.lost.done():
            self.sendMessage(frame)

    async def close(self) -> None:
        """Leave in order."""
        if not self.lost.done():
            self.sendClose(1000)
            await asyncio.wait((self.lost,), timeout=2 * CLOSE_S)

    def onOpen(self) -> None:  # noqa: N802 - autobahn's name
        """The handshake is done."""
        if not self.opened.done():
            self.opened.set_result(None)

    def onMessage(self, payload: bytes, isBinary: bool) -> None:  # noqa: N802, N803
        """A frame."""
        if not isBinary:
            self.on_push(payload)

    def onClose(self, wasClean: bool, code: Any, reason: Any) -> None:  # noqa: N802, N803
        """The end; also of a handshake that was refused."""
        self.refusal = f"{reason or 'the connection was lost'} ({code})"
        if not self.lost.done():
            self.lost.set_result(None)
