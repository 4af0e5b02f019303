"""Format numbers for people. None means that a number is unknown, and becomes a dash."""

from __future__ import annotations

import time

__all__ = ["UNKNOWN", "ago", "count", "messages", "plural", "rate", "size"]

UNKNOWN = "–"


def count(number: int | None) -> str:
    """Return a number with commas: 1,234."""
    return UNKNOWN if number is None else f"{number:,}"


def plural(number: int, word: str, words: str = "") -> str:
    """Return a number with its noun: 1 consumer, 2 consumers. `words` is the plural, if it is not `word` with an s."""
    return f"{number:,} {word if number == 1 else words or f'{word}s'}"


def messages(number: int) -> str:
    """Return a number of messages: 1 message, 2 messages."""
    return plural(number, "message")


def rate(per_second: float | None) -> str:
    """Return a rate such as 1,234/s. A rate below ten has one decimal."""
    if per_second is None:
        return UNKNOWN
    return f"{per_second:,.1f}/s" if 0 < per_second < 10 else f"{per_second:,.0f}/s"


def size(size_bytes: float | None) -> str:
    """Return a size in powers of 1000, like the sizes of disks."""
    if size_bytes is None:
        return UNKNOWN
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size_bytes < 1000 or unit == "TB":
            return f"{size_bytes:,.0f} {unit}" if unit == "B" else f"{size_bytes:,.1f} {unit}"
        size_bytes /= 1000
    raise AssertionError


def ago(time_ms: int | None) -> str:
    """Return how long ago a time was; a dash if the time is 0 or unknown."""
    if not time_ms:
        return UNKNOWN
    return length(max(time.time() - time_ms / 1000, 0))


def length(seconds: float) -> str:
    """Return a length of time in the largest unit that fits."""
    for unit, word in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:,.0f} {word}"
    return f"{seconds:.0f} s"
