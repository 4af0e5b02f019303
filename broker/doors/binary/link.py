"""The interface to a binary connection's transport: TCP or a WebSocket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

__all__ = ["ByteLink"]


class ByteLink(Protocol):
    """The byte stream of one client. No method blocks. No method raises after the connection is lost."""

    def write(self, buffers: Sequence[bytes]) -> None:
        """Send these buffers in order with one write."""

    @property
    def unsent_bytes(self) -> int:
        """Return roughly how many written bytes still wait in this process."""

    def is_writable(self) -> bool:
        """Return False while too many bytes are unsent."""

    def pause_reading(self) -> None:
        """Stop reading from the peer until `resume_reading`."""

    def resume_reading(self) -> None:
        """Read from the peer again."""

    def close(self) -> None:
        """Send the written bytes, then close. Abort if the peer does not receive them within a few seconds."""

    def abort(self) -> None:
        """Close as soon as possible. Written bytes may be lost."""
