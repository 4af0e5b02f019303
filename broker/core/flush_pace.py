"""How long cursors wait for their next flush (design 6, T5)."""

from __future__ import annotations

from typing import Final

__all__ = ["WINDOW_S", "flush_pause_s"]

WINDOW_S: Final = 1.0
"""The longest that an acknowledgement stays unstored, as long as a flush takes less than 0.45 s."""

_LEAST_S: Final = 0.1
_PAUSES_PER_FLUSH: Final = 20  # flushing may take a twentieth of the time


def flush_pause_s(last_flush_s: float) -> float:
    """Seconds from the end of one flush to the start of the next, where flushes take as long as the last one did.

    An ack that comes just after a flush has taken its cursors waits for the rest of that flush, the pause and the
    whole of the next flush: all three have to fit into the window.
    """
    return max(_LEAST_S, min(_PAUSES_PER_FLUSH * last_flush_s, WINDOW_S - 2 * last_flush_s))
