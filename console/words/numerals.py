"""Format numbers, sizes, rates and times as text. An unknown value becomes a dash."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING

from django.utils import timezone
from django.utils.functional import lazy
from django.utils.translation import gettext as _

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

__all__ = [
    "UNKNOWN",
    "ago",
    "clock",
    "count",
    "in_utc",
    "in_zone",
    "is_time",
    "latency",
    "rate",
    "read_time_ms",
    "size",
    "span",
    "time_text",
    "zone_name",
]

UNKNOWN = "–"
_GAP = "\u202f"  # Narrow no-break space
_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")
# The range of `datetime`, one day shorter at each end for the time zones.
_FIRST_MS = -62_135_596_800_000 + 86_400_000
_LAST_MS = 253_402_300_799_000 - 86_400_000


def count(number: int | None) -> str:
    """Format a number with narrow spaces, such as 12 408."""
    return UNKNOWN if number is None else f"{number:,}".replace(",", _GAP)


def size(size_bytes: int | None) -> str:
    """Format a size with a decimal unit, such as 12.5 kB."""
    if size_bytes is None:
        return UNKNOWN
    value, unit = float(size_bytes), 0
    while value >= 999.5 and unit < len(_SIZES) - 1:
        value, unit = value / 1000, unit + 1
    digits = 0 if unit == 0 or value >= 99.95 else 1
    return f"{value:.{digits}f}{_GAP}{_SIZES[unit]}"


def rate(per_second: float | None) -> str:
    """Format a rate, such as 12.5/s."""
    if per_second is None:
        return UNKNOWN
    if per_second >= 99.5:
        return f"{count(round(per_second))}/s"
    return f"{per_second:.1f}/s" if per_second >= 0.05 else "0/s"


def span(seconds: float) -> str:
    """Format a length of time in one or two units, such as 2 h 10 min."""
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


def latency(latency_ms: int | None) -> str:
    """Format a latency, such as 12 ms or 1.5 s."""
    if latency_ms is None:
        return UNKNOWN
    if latency_ms < 1000:
        return f"{latency_ms}{_GAP}ms"
    return f"{latency_ms / 1000:.1f}{_GAP}s" if latency_ms < 9950 else span(latency_ms / 1000)


def ago(then_ms: int, now_ms: int) -> str:
    """Format a time relative to now, such as "5 min ago"."""
    if then_ms > now_ms + 999:
        return _("in {span}").format(span=span((then_ms - now_ms) / 1000))
    if now_ms - then_ms < 950:
        return _("just now")
    return _("{span} ago").format(span=span((now_ms - then_ms) / 1000))


def is_time(then_ms: int) -> bool:
    """Return whether the number is a time that pages can show in every time zone."""
    return _FIRST_MS <= then_ms <= _LAST_MS


def clock(then_ms: int, now_ms: int) -> str:
    """Format a time with milliseconds in the user's zone. Omit today's date."""
    if not is_time(then_ms):
        return _("{number} (not a time)").format(number=then_ms)
    zone = timezone.get_current_timezone()
    then = datetime.fromtimestamp(then_ms / 1000, zone)
    text = then.strftime("%H:%M:%S.") + f"{then.microsecond // 1000:03d}"
    if then.date() == datetime.fromtimestamp(now_ms / 1000, zone).date():
        return text
    return f"{then.date().isoformat()} {text}"


def zone_name() -> str:
    """Return the name of the user's time zone."""
    return timezone.get_current_timezone_name()


def _in_zone(text: StrOrPromise) -> str:
    return f"{text}, {zone_name()}"


in_zone = lazy(_in_zone, str)
"""Return a lazy text that ends with the name of the user's time zone."""


def in_utc(time_ms: int) -> str:
    """Format a time in UTC, such as 2026-03-01T14:30:00.000Z."""
    then = datetime.fromtimestamp(time_ms / 1000, UTC)
    return then.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_text(time_ms: int) -> str:
    """Format a time in the user's zone. Add the UTC offset if a clock change repeats the time."""
    then = datetime.fromtimestamp(time_ms / 1000, timezone.get_current_timezone())
    if _is_unclear(then):
        return then.isoformat(" ", "milliseconds")
    return then.replace(tzinfo=None).isoformat(" ", "milliseconds")


def read_time_ms(text: str, zone: tzinfo | None = None) -> int:
    """Convert an ISO 8601 time to milliseconds since 1970.

    A text without a UTC offset is a time in `zone`, by default the user's zone. Raises ValueError if the text is not
    an ISO 8601 time, or if a clock change repeats or skips the time.
    """
    zone = zone or timezone.get_current_timezone()
    name = timezone.get_current_timezone_name() if zone is timezone.get_current_timezone() else str(zone)
    try:
        then = datetime.fromisoformat(text.strip())
        is_unclear = then.tzinfo is None and _is_unclear(then.replace(tzinfo=zone))
        time_ms = round((then if then.tzinfo else then.replace(tzinfo=zone)).timestamp() * 1000)
        if not is_time(time_ms):
            raise ValueError
    except (ValueError, OverflowError):
        raise ValueError(
            _("Write the time as 2026-03-01 14:30:00.000, in {name}.").format(name=name)
        ) from None
    if is_unclear:
        raise ValueError(
            _(
                "The clocks of {name} change at that time. Write it with its offset, as 2026-03-01 14:30:00+01:00."
            ).format(name=name)
        )
    return time_ms


def _is_unclear(then: datetime) -> bool:
    """Return whether a clock change repeats or skips the time."""
    return then.replace(fold=0).utcoffset() != then.replace(fold=1).utcoffset()
