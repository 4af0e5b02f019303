"""Pauses between flushes. A flush stores the changed cursors."""

from __future__ import annotations

from typing import Final

__all__ = ["REFUSED_PAUSE_MOST_S", "WINDOW_S", "flush_pause_s", "refused_pause_s"]

WINDOW_S: Final = 1.0
"""The longest time until an ack is stored, unless flushes are slow."""

REFUSED_PAUSE_MOST_S: Final = 60.0
"""The longest pause between two attempts to store a cursor that the database refuses."""

_LEAST_S: Final = 0.1
_PAUSES_PER_FLUSH: Final = 20
_REFUSED_PAUSE_FIRST_S: Final = 0.2


def flush_pause_s(last_flush_s: float) -> float:
    """Return the seconds to pause after a flush.

    An ack waits for at most two flushes and the pause between them.
    """
    return max(_LEAST_S, min(_PAUSES_PER_FLUSH * last_flush_s, WINDOW_S - 2 * last_flush_s))


def refused_pause_s(refusals: int) -> float:
    """Return the seconds to wait after this number of consecutive refusals."""
    return float(min(REFUSED_PAUSE_MOST_S, _REFUSED_PAUSE_FIRST_S * 2 ** min(refusals - 1, 20)))
