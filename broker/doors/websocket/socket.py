"""What every WebSocket handler has in common: one loop over the peer's frames, no task and no thread per message.

Stock Channels consumers make a task and a thread hop for each message, which costs nine times the rest (performance
0.1); a handler is a plain ASGI loop instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from broker.doors.handshake_errors import HandshakeRefused
from broker.doors.websocket.json.errors import CloseCode, SessionError, UnexpectedBinaryFrame

if TYPE_CHECKING:
    from broker.doors.asgi import Receive, Send
    from broker.doors.websocket.transport import Socket

__all__ = ["PROBE_TIMEOUT_MS", "BrokerSocket", "PingPongSocket"]

PROBE_TIMEOUT_MS: Final = 5_000


class BrokerSocket:
    """One connection. `open` may refuse it; then `run` serves it; `lost` is called once, whatever happened."""

    def __init__(self, socket: Socket) -> None:
        self.socket = socket

    @property
    def address(self) -> str:
        """Host and port of the peer."""
        return self.socket.address

    async def open(self) -> None:
        """Attach to the broker. Raises BrokerError or HandshakeRefused; may be cancelled, `lost` cleans up."""

    def refusal(self, status: int, reason: str) -> HandshakeRefused:
        """What to answer when `open` failed."""
        return HandshakeRefused(status, reason)

    @property
    def accept_headers(self) -> Sequence[tuple[bytes, bytes]]:
        """Headers of the answer that accepts the handshake."""
        return ()

    def opened(self) -> None:
        """The handshake is done; frames may be written."""

    async def on_text(self, text: str) -> None:
        """A text frame. Raises SessionError to close the socket; waiting here stops the socket's reading."""

    async def on_bytes(self, data: bytes) -> None:
        """A binary frame; refused unless overridden."""
        raise UnexpectedBinaryFrame("binary frames belong to /ws/binary; send text")

    def lost(self) -> None:
        """The connection is gone, or was never opened: let go of everything. Safe to repeat."""

    async def run(self, receive: Receive, send: Send) -> None:
        """Serve the connection until it is gone."""
        await send({"type": "websocket.accept", "headers": self.accept_headers})
        self.opened()
        while True:
            event = await receive()
            if event["type"] != "websocket.receive":
                return
            text = event.get("text")
            try:
                if text is not None:
                    await self.on_text(text)
                else:
                    await self.on_bytes(event["bytes"])
            except SessionError as error:
                self.socket.close(error.close_code, error.reason)
                self.lost()
                await _until_gone(receive)
                return
            except Exception:
                self.socket.close(CloseCode.INTERNAL_ERROR, "internal error; the broker's log says which")
                raise


async def _until_gone(receive: Receive) -> None:
    """What a peer still sends before it sees the close frame is dropped."""
    while (await receive())["type"] == "websocket.receive":
        pass


class PingPongSocket(BrokerSocket):
    """`/ws/pingpong`: WebSocket pings are answered by the server itself."""
