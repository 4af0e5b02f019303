"""How pages write numbers, sizes, rates and times. An unknown value is "–", never 0."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["UNKNOWN", "ago", "clock", "count", "is_time", "rate", "read_time_ms", "size", "span"]

UNKNOWN = "–"
_GAP = "\u202f"  # narrow space that does not break
_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")
_FIRST_MS = -62_135_596_800_000  # the year 1, where datetime begins
_LAST_MS = 253_402_300_799_000  # the last second of the year 9999, where it ends


def count(number: int | None) -> str:
    """Write a number with narrow spaces: 12 408."""
    return UNKNOWN if number is None else f"{number:,}".replace(",", _GAP)


def size(size_bytes: int | None) -> str:
    """Write a size in powers of 1000 with at most three significant digits."""
    if size_bytes is None:
        return UNKNOWN
    value, unit = float(size_bytes), 0
    while value >= 999.5 and unit < len(_SIZES) - 1:
        value, unit = value / 1000, unit + 1
    digits = 0 if unit == 0 or value >= 99.95 else 1
    return f"{value:.{digits}f}{_GAP}{_SIZES[unit]}"


def rate(per_second: float | None) -> str:
    """Write a rate, with one decimal below 100 per second."""
    if per_second is None:
        return UNKNOWN
    if per_second >= 99.5:
        return f"{count(round(per_second))}/s"
    return f"{per_second:.1f}/s" if per_second >= 0.05 else "0/s"


def span(seconds: float) -> str:
    """Write a length of time in one or two units: 40 s, 6 min, 2 h 10 min, 3 d."""
    if seconds < 0.95:
        return f"{max(seconds, 0):.1f}{_GAP}s"
    if seconds < 99.5:
        return f"{seconds:.0f}{_GAP}s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes}{_GAP}min"
    hours, rest = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}{_GAP}h {rest}{_GAP}min" if rest else f"{hours}{_GAP}h"
    return f"{round(hours / 24)}{_GAP}d"


def ago(then_ms: int, now_ms: int) -> str:
    """Write how long ago a time was, or how far in the future it is."""
    if then_ms > now_ms + 999:
        return f"in {span((then_ms - now_ms) / 1000)}"
    if now_ms - then_ms < 950:
        return "just now"
    return f"{span((now_ms - then_ms) / 1000)} ago"


def is_time(then_ms: int) -> bool:
    """Whether a number of milliseconds since 1970 is in the years 1 to 9999. Clients may send any number."""
    return _FIRST_MS <= then_ms <= _LAST_MS


def clock(then_ms: int, now_ms: int) -> str:
    """Write a time in UTC with milliseconds, and its date if that is not today."""
    if not is_time(then_ms):
        return f"{then_ms} (not a time)"
    then = datetime.fromtimestamp(then_ms / 1000, UTC)
    text = then.strftime("%H:%M:%S.") + f"{then.microsecond // 1000:03d}"
    if then.date() == datetime.fromtimestamp(now_ms / 1000, UTC).date():
        return text
    return f"{then.date().isoformat()} {text}"


def read_time_ms(text: str) -> int:
    """Read a time as ISO 8601, in UTC unless it has an offset, into milliseconds since 1970. Raises ValueError."""
    try:
        then = datetime.fromisoformat(text.strip())
        return round((then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValueError("Write the time as 2026-03-01 14:30:00.000, in UTC.") from None
