"""Moments and lengths of time on the command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import click

__all__ = ["LENGTH", "MOMENT", "iso", "length_ms", "moment_ms"]

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LAST_MS = 253_402_300_799_999  # the end of the year 9999
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")


def length_ms(text: str) -> int:
    """`90s`, `15m`, `1h30m`, `7d` in milliseconds. Raises ValueError."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no length of time: write 500ms, 90s, 15m, 1h30m or 7d")
    total_ms = sum(float(number) * _UNITS_MS[unit] for number, unit in parts)
    if total_ms > _LAST_MS:
        raise ValueError(f"{text!r} is too long: nothing is older than 1970")
    return round(total_ms)


def moment_ms(text: str) -> int:
    """An ISO time, in this computer's zone where it names none, or milliseconds since 1970.

    Raises ValueError, also for a time before 1970 or after the year 9999.
    """
    try:
        if text.isascii() and text.isdecimal() and len(text) >= 12:
            time_ms = int(text)
        else:
            time_ms = int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(
            f"{text!r} is no time: write 2026-11-20T09:00, 2026-11-20T09:00:00+00:00 or milliseconds since 1970"
        ) from error
    if not 0 <= time_ms <= _LAST_MS:
        raise ValueError(f"{text!r} is out of range: write a time from 1970 to the end of 9999")
    return time_ms


def iso(time_ms: int) -> str:
    """In UTC, to the millisecond; a time that no calendar has as its number, so that any act can be shown."""
    try:
        moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms after 1970"
    return moment.isoformat(" ", "milliseconds").replace("+00:00", " UTC")


class _Length(click.ParamType[int]):
    name = "length"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return length_ms(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _Moment(click.ParamType[int]):
    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return moment_ms(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


LENGTH = _Length()
MOMENT = _Moment()
