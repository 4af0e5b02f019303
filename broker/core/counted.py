"""Numbers and durations as text."""

from __future__ import annotations

__all__ = ["counted", "lasting"]


def counted(number: int, one: str, many: str) -> str:
    """Return the number with the matching word, such as "1 message" or "2 messages"."""
    return f"{number} {one if number == 1 else many}"


def lasting(length_ms: int) -> str:
    """Return a rounded duration in the largest unit that fits, such as "12 min"."""
    for unit_ms, word in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min")):
        if length_ms >= unit_ms:
            return f"{length_ms / unit_ms:,.0f} {word}"
    return f"{length_ms / 1000:.0f} s"
