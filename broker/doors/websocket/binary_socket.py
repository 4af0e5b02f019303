"""Pulsar's binary protocol inside binary WebSocket messages (`/ws/binary`): frames may be cut across messages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.doors.binary.connection import BinaryConnection
from broker.doors.websocket.json.errors import CloseCode, InvalidCommand
from broker.doors.websocket.socket import BrokerSocket

if TYPE_CHECKING:
    from broker.doors.ports import BrokerPort
    from broker.doors.websocket.transport import Socket

__all__ = ["BinarySocket"]


class BinarySocket(BrokerSocket):
    """Drives a BinaryConnection; it is also its `ByteLink`."""

    def __init__(self, broker: BrokerPort, socket: Socket) -> None:
        super().__init__(socket)
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._connection = BinaryConnection(broker, self, address=socket.address, face="binary-websocket")
        socket.on_writable(self._connection.writable_again)

    async def on_bytes(self, data: bytes) -> None:
        """Bytes of the protocol. Waits while the broker owes this peer too much."""
        self._connection.receive(data)
        await self._may_read.wait()

    async def on_text(self, text: str) -> None:
        """Refused: the protocol is binary."""
        raise InvalidCommand("text frames belong to the JSON endpoints; send binary frames here")

    def lost(self) -> None:
        """The consumers' messages go to others."""
        self._connection.lost()

    def write(self, buffers: Sequence[bytes]) -> None:
        """One message for all of it."""
        self.socket.write_frames((b"".join(buffers),), binary=True)

    @property
    def unsent_bytes(self) -> int:
        """See `ByteLink`."""
        return self.socket.unsent_bytes

    def is_writable(self) -> bool:
        """See `ByteLink`."""
        return self.socket.is_writable()

    def pause_reading(self) -> None:
        """See `ByteLink`."""
        self._may_read.clear()

    def resume_reading(self) -> None:
        """See `ByteLink`."""
        self._may_read.set()

    def close(self) -> None:
        """See `ByteLink`."""
        self._may_read.set()
        self.socket.close(CloseCode.POLICY_VIOLATION, "the last frame says why")

    def abort(self) -> None:
        """See `ByteLink`."""
        self.close()
