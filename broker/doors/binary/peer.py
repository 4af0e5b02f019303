"""The client at the other end of a binary connection: what the broker writes to it, and whether it is still there."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from broker.core.client_identity import ClientIdentity
from broker.doors.binary.keep_alive import KeepAlive, Timer
from vela.wire.binary.handshake import ConnectionState

if TYPE_CHECKING:
    from broker.doors.binary.link import ByteLink
    from broker.doors.binary.wire.engine import ServerEngine
    from broker.doors.read_gate import ReadGate
    from vela.wire.binary.enums import ServerError

__all__ = ["MAX_UNREAD_ANSWER_BYTES", "Peer"]

logger = logging.getLogger(__name__)

MAX_UNREAD_ANSWER_BYTES: Final = 4 * 1024 * 1024
JOIN_BYTES: Final = 256 * 1024  # written at once even while more commands of the same piece are being handled


class Peer:
    """Commands go into `engine`; `written` sends them. Consumers, producers and answers of a connection share it."""

    def __init__(
        self,
        engine: ServerEngine,
        link: ByteLink,
        gate: ReadGate,
        *,
        address: str,
        face: str,
        call_later: Timer,
    ) -> None:
        self.engine = engine
        self.gate = gate
        self.address = address
        self.face = face
        self.identity = ClientIdentity(address=address, client_version="", face=face)
        self.is_closing = False  # nothing of the peer is handled any more
        self.is_lost = False
        self.is_joining = False  # commands are being handled: their answers go out in one write
        self._link = link
        self._keep_alive = KeepAlive(
            call_later=call_later,
            ping=self._ping,
            give_up=self.close,
            is_established=lambda: engine.state is ConnectionState.CONNECTED,
            is_heard=lambda: gate.is_open,
        )

    def __str__(self) -> str:
        return f"{self.address} ({self.face}, client {self.identity.client_version[:80]!r})"

    def heard(self) -> None:
        """Note that bytes came."""
        self._keep_alive.heard()

    def written(self) -> None:
        """Send what was given to the engine: now, or with the rest of what is being handled."""
        engine = self.engine
        if self.is_joining and engine.pending_bytes < JOIN_BYTES:
            return
        if engine.pending_bytes:
            buffers = engine.data_to_send()
            if not self.is_lost:
                self._link.write(buffers)
                if self._link.unsent_bytes > MAX_UNREAD_ANSWER_BYTES:
                    self.gate.output_stuck(stuck=True)

    def is_writable(self) -> bool:
        """Return whether entries may be written to this peer."""
        return not self.is_closing and self._link.is_writable()

    def _ping(self) -> None:
        self.engine.send_ping()
        self.written()

    async def is_alive(self) -> bool:
        """Ask the peer and wait 5 s at most. A silent peer loses its connection."""
        return not self.is_closing and await self._keep_alive.probe()

    def fail(self, code: ServerError, message: str) -> None:
        """Close the connection of a peer that broke the protocol, after telling it why."""
        if not self.is_closing:
            self.engine.refuse_connection(code, message)
            self.close(message)

    def close(self, reason: str) -> None:
        """Send what is ready and close. Logged in one line."""
        if self.is_closing:
            return
        logger.info("%s (%s): closing the connection: %s", self.address, self.face, reason)
        self.is_closing = True
        self.is_joining = False
        self.written()
        self._link.close()

    def lost(self) -> None:
        """Stop writing and pinging: the connection is gone."""
        self.is_lost = self.is_closing = True
        self._keep_alive.stop()
