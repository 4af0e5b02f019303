"""Read and write ISO-8601 times in the format of Pulsar's APIs."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

__all__ = ["format_time", "parse_time"]

# The pattern for Java's ISO_OFFSET_DATE_TIME.
_PATTERN = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d)(?:(:\d\d)(?:\.(\d{1,9}))?)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_MAX_OFFSET = timedelta(hours=18)
_CYCLE_S = 146_097 * 86_400  # 400 years, after which the Gregorian calendar repeats


def format_time(time_ms: int) -> str:
    """Format milliseconds since 1970 as `2024-05-01T10:00:00.12Z`, without trailing zeros in the fraction.

    A producer may send any 64-bit number, so `datetime` cannot represent every time.
    """
    second, millisecond = divmod(time_ms, 1000)
    if not millisecond:
        return _second_text(second) + "Z"
    return f"{_second_text(second)}.{millisecond:03d}".rstrip("0") + "Z"


@lru_cache(maxsize=256)
def _second_text(second: int) -> str:
    cycles, within = divmod(second, _CYCLE_S)
    moment = _EPOCH + timedelta(seconds=within)
    year = moment.year + 400 * cycles
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}{moment:-%m-%dT%H:%M:%S}"


def parse_time(text: str) -> int:
    """Convert an ISO-8601 time to milliseconds since 1970. Digits after the milliseconds are dropped.

    Raises ValueError for another format and for times before 1970.
    """
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise ValueError("write the time as 2024-05-01T10:00:00.000Z or with an offset such as +02:00")
    date, minutes, seconds, fraction, offset = match.groups()
    local = datetime.fromisoformat(f"{date}T{minutes}{seconds or ':00'}+00:00")
    since_epoch = local - _EPOCH - _offset(offset)
    time_ms = since_epoch // _MILLISECOND + int((fraction or "0")[:3].ljust(3, "0"))
    if time_ms < 0:
        raise ValueError("the time is before 1970")
    return time_ms


def _offset(text: str) -> timedelta:
    if text in "Zz":
        return timedelta(0)
    hours, minutes = int(text[1:3]), int(text[4:6])
    offset = timedelta(hours=hours, minutes=minutes)
    if minutes > 59 or offset > _MAX_OFFSET:
        raise ValueError("the offset of the time must be from -18:00 to +18:00, with fewer than 60 minutes")
    return -offset if text[0] == "-" else offset
