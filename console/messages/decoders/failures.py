"""The exception for bytes that a decoder cannot read."""

from __future__ import annotations

__all__ = ["CannotDecode"]


class CannotDecode(ValueError):
    """The decoder cannot read the bytes."""
