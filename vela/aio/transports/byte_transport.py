"""The interfaces between a connection and the transport of its bytes."""

from __future__ import annotations

from typing import Final, Protocol

__all__ = ["HIGH_WATER_BYTES", "LOW_WATER_BYTES", "ByteReceiver", "ByteTransport"]

HIGH_WATER_BYTES: Final = 1024 * 1024
"""Unsent bytes above which a connection is not writable."""
LOW_WATER_BYTES: Final = HIGH_WATER_BYTES // 4
"""Unsent bytes below which a connection is writable again."""


class ByteReceiver(Protocol):
    """The connection. The transport calls its methods on the event loop."""

    def on_reached(self) -> None:
        """A server has accepted the connection, and the TLS handshake, if any, is done."""

    def on_answered(self) -> None:
        """The server has sent data for the transport itself, in any protocol."""

    def on_bytes(self, data: bytes) -> None:
        """Data arrived. Chunks are in order and of any size."""

    def on_lost(self, error: Exception | None) -> None:
        """The transport is closed. Called once; `None` = closed normally."""

    def on_pause(self) -> None:
        """Too much data is unsent."""

    def on_resume(self) -> None:
        """Enough data has been sent."""


class ByteTransport(Protocol):
    """A way to send bytes to the broker."""

    def write(self, data: bytes) -> None:
        """Send data, or keep it until it can be sent."""

    def close(self) -> None:
        """Send unsent data, then close. Safe to repeat."""

    def abort(self) -> None:
        """Close at once. Safe to repeat."""
