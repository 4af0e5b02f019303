"""The exception that all decoders raise."""

from __future__ import annotations

__all__ = ["CannotDecode"]


class CannotDecode(ValueError):
    """The decoder cannot read the bytes. The message says why."""
