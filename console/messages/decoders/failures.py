"""The one exception of all decoders."""

from __future__ import annotations

__all__ = ["CannotDecode"]


class CannotDecode(ValueError):
    """The bytes are not what the decoder reads. The message says why."""
