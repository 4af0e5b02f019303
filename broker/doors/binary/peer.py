"""The client at the other end of a binary connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.core.client_identity import ClientIdentity
from broker.doors.binary.keep_alive import KeepAlive
from vela.wire.binary.handshake import ConnectionState

if TYPE_CHECKING:
    from broker.clock import Timer
    from broker.doors.binary.link import ByteLink
    from broker.doors.binary.wire.engine import ServerEngine
    from broker.doors.read_gate import ReadGate
    from vela.wire.binary.enums import ServerError

__all__ = ["MAX_UNREAD_ANSWER_BYTES", "Peer"]

logger = logging.getLogger(__name__)

MAX_UNREAD_ANSWER_BYTES: Final = 4 * 1024 * 1024  # Above this limit, the broker stops reading from the peer.
# While `is_joining` is True, `written` joins output into writes of at least this size.
JOIN_BYTES: Final = 256 * 1024


class Peer:
    """The client of one connection. Add commands to `engine`, then call `written` to send the commands."""

    def __init__(
        self,
        engine: ServerEngine,
        link: ByteLink,
        gate: ReadGate,
        *,
        address: str,
        face: str,
        certificate_name: str,
        handshake_timeout_s: float,
        on_slow_handshake: Callable[[], None],
        call_later: Timer,
    ) -> None:
        self.engine = engine
        self.gate = gate
        self.address = address
        self.face = face
        self.identity = ClientIdentity(
            address=address, client_version="", face=face, certificate_name=certificate_name
        )
        self.is_closing = False
        self.is_lost = False
        self.is_joining = False
        self._link = link
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._keep_alive = KeepAlive(
            call_later=call_later,
            ping=self._ping,
            give_up=self.close,
            is_established=lambda: engine.state is ConnectionState.CONNECTED,
            is_heard=lambda: gate.is_open,
            handshake_timeout_s=handshake_timeout_s,
            on_slow_handshake=on_slow_handshake,
        )

    def __str__(self) -> str:
        return f"{self.address} ({self.face}, client {self.identity.client_version[:80]!r})"

    def heard(self) -> None:
        """Record that bytes arrived, or that the broker reads again."""
        self._keep_alive.heard()

    def written(self) -> None:
        """Send the engine's output, except while `is_joining` is True and the output is small."""
        engine = self.engine
        if self.is_joining and engine.pending_bytes < JOIN_BYTES:
            return
        if engine.pending_bytes:
            buffers = engine.data_to_send()
            if not self.is_lost:
                self._link.write(buffers)
                if self._link.unsent_bytes > MAX_UNREAD_ANSWER_BYTES:
                    self._has_room.clear()
                    self.gate.output_stuck(stuck=True)

    def drained(self) -> None:
        """Record that most of the written bytes have left this process."""
        self._has_room.set()
        self.gate.output_stuck(stuck=False)

    async def room(self) -> None:
        """Wait while too many answers are unsent. Also returns when the connection is lost.

        Await this before you send a large answer.
        """
        while not self._has_room.is_set():
            await self._has_room.wait()

    def is_writable(self) -> bool:
        """Return whether entries may be written to this peer."""
        return not self.is_closing and self._link.is_writable()

    def _ping(self) -> None:
        self.engine.send_ping()
        self.written()

    async def is_alive(self) -> bool:
        """Ping the peer and return whether bytes arrive within 5 s. If no bytes arrive, close the connection."""
        return not self.is_closing and await self._keep_alive.probe()

    def fail(self, code: ServerError, message: str) -> None:
        """Send an ERROR, then close the connection."""
        if not self.is_closing:
            self.engine.refuse_connection(code, message)
            self.close(message)

    def close(self, reason: str) -> None:
        """Log `reason`, send the bytes that are ready, and close. Safe to repeat."""
        if self.is_closing:
            return
        fields = {"client": self.address}
        logger.info("%s (%s): closing the connection: %s", self.address, self.face, reason, extra=fields)
        self.is_closing = True
        self.is_joining = False
        self.written()
        self._link.close()

    def lost(self) -> None:
        """Stop writing and pinging after the connection is lost."""
        self.is_lost = self.is_closing = True
        self._has_room.set()
        self._keep_alive.stop()
