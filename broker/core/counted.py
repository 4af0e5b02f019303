"""Numbers and durations as parts of sentences."""

from __future__ import annotations

__all__ = ["counted", "lasting"]


def counted(number: int, one: str, many: str) -> str:
    """Return the number with `one` or `many` after it: "1 message is", "2 messages are"."""
    return f"{number} {one if number == 1 else many}"


def lasting(length_ms: int) -> str:
    """Return a duration, rounded, in the largest unit that fits: "3 s", "12 min", "5 h", "20,779 d"."""
    for unit_ms, word in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min")):
        if length_ms >= unit_ms:
            return f"{length_ms / unit_ms:,.0f} {word}"
    return f"{length_ms / 1000:.0f} s"
