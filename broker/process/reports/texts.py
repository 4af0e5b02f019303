"""Prepare free text for the console's tables."""

from __future__ import annotations

from typing import Final

__all__ = ["storable"]

_LONGEST: Final = 200


def storable(text: str, most: int = _LONGEST) -> str:
    """Return the text in a form that PostgreSQL can store, shortened if it is too long."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")[:most]
