"""Pauses after failed compactions of a topic."""

from __future__ import annotations

from typing import Final

__all__ = ["retry_pause_ms"]

_FIRST_MS: Final = 2 * 60_000
_MOST_MS: Final = 6 * 3_600_000


def retry_pause_ms(failures: int) -> int:
    """Return the pause after this many failures in a row."""
    return min(_MOST_MS, _FIRST_MS << min(failures - 1, 16))
