"""What a connection needs of what carries its bytes, and the other way round."""

from __future__ import annotations

from typing import Final, Protocol

__all__ = ["HIGH_WATER_BYTES", "LOW_WATER_BYTES", "ByteReceiver", "ByteTransport"]

HIGH_WATER_BYTES: Final = 1024 * 1024
"""With so much unsent a connection is not writable."""
LOW_WATER_BYTES: Final = HIGH_WATER_BYTES // 4
"""Below it, it is again."""


class ByteReceiver(Protocol):
    """Called by the transport, on the event loop."""

    def on_reached(self) -> None:
        """Somebody took the connection; TLS, where there is any, is agreed on."""

    def on_answered(self) -> None:
        """Something came that is for the transport itself, of whatever protocol."""

    def on_bytes(self, data: bytes) -> None:
        """What came, in order, however cut."""

    def on_lost(self, error: Exception | None) -> None:
        """Once, when the transport is gone; None = closed in order."""

    def on_pause(self) -> None:
        """Too much is unsent."""

    def on_resume(self) -> None:
        """Enough has been sent."""


class ByteTransport(Protocol):
    """A way to the broker."""

    def write(self, data: bytes) -> None:
        """Sends, or keeps until it can be sent."""

    def close(self) -> None:
        """Sends what is unsent, then closes. May be called twice."""

    def abort(self) -> None:
        """Closes at once. May be called twice."""
