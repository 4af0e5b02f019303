"""What carries the bytes of a binary connection: a TCP transport, or the binary messages of a WebSocket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

__all__ = ["ByteLink"]


class ByteLink(Protocol):
    """One peer's byte stream. Nothing here blocks, and nothing raises after the connection is lost."""

    def write(self, buffers: Sequence[bytes]) -> None:
        """Send these, joined, with one write."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes written that the peer has not taken (an upper bound)."""

    def is_writable(self) -> bool:
        """False from the write that passed the high-water mark until the peer has taken most of it."""

    def pause_reading(self) -> None:
        """Take nothing more from the peer until `resume_reading`."""

    def resume_reading(self) -> None:
        """Take bytes again."""

    def close(self) -> None:
        """Send what was written, then close; abort when the peer does not take it within a few seconds."""

    def abort(self) -> None:
        """Close at once; what was written may be lost."""
