"""The interfaces between a connection and the transport of its bytes."""

from __future__ import annotations

from typing import Protocol

__all__ = ["ByteReceiver", "ByteTransport"]


class ByteReceiver(Protocol):
    """The connection. The transport calls its methods on the event loop."""

    def on_reached(self) -> None:
        """A server has accepted the connection, and the TLS handshake, if any, is done."""

    def on_answered(self) -> None:
        """The server's first data has arrived, in the transport's own handshake. It may be in another protocol."""

    def on_bytes(self, data: bytes) -> None:
        """Data arrived. Chunks are in order and of any size."""

    def on_lost(self, error: Exception | None) -> None:
        """The transport is closed. Called once; `None` = closed normally."""


class ByteTransport(Protocol):
    """A way to send bytes to the broker."""

    def write(self, data: bytes) -> None:
        """Send data, or keep it until it can be sent."""

    def limit_frames(self, max_frame_bytes: int) -> None:
        """Note the size of the largest frame of Pulsar's protocol that the broker accepts."""

    def close(self) -> None:
        """Send unsent data, then close. Safe to repeat."""

    def abort(self) -> None:
        """Close at once. Safe to repeat."""
