"""Pulsar's binary protocol inside binary WebSocket messages, at `/ws/binary`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.doors.asgi import certificate_of
from broker.doors.binary.connection import BinaryConnection
from broker.doors.websocket.json.errors import CloseCode, InvalidCommand
from broker.doors.websocket.socket import BrokerSocket

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.doors.ports import BrokerPort
    from broker.doors.websocket.transport import FrameTransport

__all__ = ["BinarySocket"]


class BinarySocket(BrokerSocket):
    """Passes the bytes of one WebSocket to a BinaryConnection."""

    def __init__(self, *, broker: BrokerPort, clock: Clock) -> None:
        super().__init__(broker=broker, clock=clock)
        self._whole_broker = broker  # Not a GuardedBroker, because BinaryConnection checks permissions itself
        self._connection: BinaryConnection | None = None
        self._may_read = asyncio.Event()
        self._may_read.set()

    async def connect(self) -> None:
        """Accept the handshake and begin the protocol. Raises HandshakeRefused if the broker is not ready."""
        await super().connect()
        link = _WebSocketLink(self.transport, self._may_read)
        self._connection = BinaryConnection(
            self._whole_broker,
            link,
            address=self.address,
            face="binary-websocket",
            share=self.transport.share,
            certificate=certificate_of(self.scope),
        )
        self.transport.on_writable(self._connection.writable_again)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Handle bytes of the protocol, then wait while reading is paused. Raises InvalidCommand for a text frame."""
        if bytes_data is None:
            raise InvalidCommand("text frames belong to the JSON endpoints; send binary frames here")
        assert self._connection is not None
        self._connection.receive(bytes_data)
        if not self._may_read.is_set():
            await self.transport.share.away(self._may_read.wait())

    def release(self) -> None:
        """Detach the client's producers and consumers. Safe to repeat."""
        if self._connection is not None:
            self._connection.lost()


class _WebSocketLink:
    """Sends the bytes of a BinaryConnection over one WebSocket."""

    def __init__(self, transport: FrameTransport, may_read: asyncio.Event) -> None:
        self._transport = transport
        self._may_read = may_read

    def write(self, buffers: Sequence[bytes]) -> None:
        self._transport.write_frames((b"".join(buffers),), binary=True)

    @property
    def unsent_bytes(self) -> int:
        return self._transport.unsent_bytes

    def is_writable(self) -> bool:
        return self._transport.is_writable()

    def pause_reading(self) -> None:
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    def close(self) -> None:
        self._may_read.set()
        self._transport.close(CloseCode.POLICY_VIOLATION, "the last frame says why")

    def abort(self) -> None:
        self.close()
