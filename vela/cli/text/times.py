"""Moments and lengths of time on the command line."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import click

from vela.cli.text.numerals import UNKNOWN

__all__ = ["LENGTH", "MOMENT", "exact_moment", "length_ms", "moment", "moment_ms", "moment_of"]

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LAST_MS = 253_402_300_799_999  # the end of the year 9999
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_NUMBER = re.compile(r"[0-9]+")
_LEAST_DIGITS = 12  # of milliseconds: those of 2001 have 13, and what is shorter may be seconds, or a date
_SECONDS = re.compile(r"([0-9]{9,10})(?:\.[0-9]*)?")


def length_ms(text: str) -> int:
    """`90s`, `15m`, `1h30m`, `7d` in milliseconds. Raises ValueError."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a length of time: write 500ms, 90s, 15m, 1h30m or 7d")
    total_ms = sum(float(number) * _UNITS_MS[unit] for number, unit in parts)
    if total_ms > _LAST_MS:
        raise ValueError(f"{text!r} is too long: nothing is older than 1970")
    return round(total_ms)


def moment_ms(text: str) -> int:
    """An ISO time, in this computer's zone where it names none, or milliseconds since 1970.

    These have 12 digits or more, or are 0. Raises ValueError, also for a time before 1970 or after the year 9999.
    """
    is_number = _NUMBER.fullmatch(text) is not None
    try:
        if is_number and (len(text) >= _LEAST_DIGITS or not int(text)):
            time_ms = int(text)
        else:
            time_ms = int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(_what_to_write(text)) from error
    if not 0 <= time_ms <= _LAST_MS:
        counted = ", in milliseconds if it is a number" if is_number else ""
        raise ValueError(f"{text!r} is out of range: write a time from 1970 to the end of 9999{counted}")
    return time_ms


def _what_to_write(text: str) -> str:
    """Why it is no time, by what it looks like."""
    if (seconds := _SECONDS.fullmatch(text)) is not None:
        time_ms = int(seconds[1]) * 1000
        return f"{text!r} looks like seconds since 1970: write milliseconds, {time_ms}, or {_iso(time_ms)}"
    if _NUMBER.fullmatch(text) and len(text) < _LEAST_DIGITS:
        return (
            f"{text!r} is too short a number for a time: milliseconds since 1970 have {_LEAST_DIGITS} digits or more."
            " Write 2026-11-20T09:00, or 0 for 1970 itself"
        )
    return f"{text!r} is not a time: write 2026-11-20T09:00, 2026-11-20T09:00:00+00:00 or milliseconds since 1970"


def _iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000).astimezone().isoformat(timespec="seconds")


def moment(time_ms: int | None) -> str:
    """As people read it: in this computer's zone, to the second; a dash for never and unknown."""
    return _shown(time_ms, "seconds") if time_ms else UNKNOWN


def moment_of(text: str | None) -> str:
    """The same of a time as the API gives it, an ISO text."""
    return moment(int(datetime.fromisoformat(text).timestamp() * 1000)) if text else UNKNOWN


def exact_moment(time_ms: int) -> str:
    """The same of a time that somebody asked for: with the milliseconds that it has, and 1970 is no dash."""
    return _shown(time_ms, "milliseconds" if time_ms % 1000 else "seconds")


def _shown(time_ms: int, precision: str) -> str:
    """One that no calendar has as its number: clients write any into their messages, and any act can be shown."""
    try:
        return datetime.fromtimestamp(time_ms / 1000).astimezone().isoformat(" ", precision)
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms after 1970"


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
