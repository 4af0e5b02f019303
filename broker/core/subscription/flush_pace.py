"""How long cursors wait for their next flush."""

from __future__ import annotations

from typing import Final

__all__ = ["REFUSED_PAUSE_MOST_S", "WINDOW_S", "flush_pause_s", "refused_pause_s"]

WINDOW_S: Final = 1.0
"""The longest that an acknowledgement stays unstored, as long as a flush takes less than 0.45 s."""

REFUSED_PAUSE_MOST_S: Final = 60.0
"""The longest pause between two attempts to store a cursor that the database refuses."""

_LEAST_S: Final = 0.1
_PAUSES_PER_FLUSH: Final = 20  # flushing may take a twentieth of the time
_REFUSED_PAUSE_FIRST_S: Final = 0.2


def flush_pause_s(last_flush_s: float) -> float:
    """Seconds from the end of one flush to the start of the next, where flushes take as long as the last one did.

    An ack that comes just after a flush has taken its cursors waits for the rest of that flush, the pause and the
    whole of the next flush: all three have to fit into the window.
    """
    return max(_LEAST_S, min(_PAUSES_PER_FLUSH * last_flush_s, WINDOW_S - 2 * last_flush_s))


def refused_pause_s(refusals: int) -> float:
    """Seconds to wait after the n-th refusal in a row: twice as long each time, up to `REFUSED_PAUSE_MOST_S`."""
    return float(min(REFUSED_PAUSE_MOST_S, _REFUSED_PAUSE_FIRST_S * 2 ** min(refusals - 1, 20)))
