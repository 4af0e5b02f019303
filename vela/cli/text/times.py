"""Read and print times and lengths of time on the command line."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import click

from vela.cli.text.numerals import UNKNOWN
from vela.wire.quantities import read_length_ms

__all__ = ["LENGTH", "MOMENT", "exact_moment", "length_ms", "moment", "moment_ms", "moment_of"]

_LAST_MS = 253_402_300_799_999  # the end of the year 9999
_NUMBER = re.compile(r"[0-9]+")
# Times since March 1973 have 12 digits or more in ms. A shorter number may be seconds or a date.
_LEAST_DIGITS = 12
_SECONDS = re.compile(r"([0-9]{9,10})(?:\.[0-9]*)?")


def length_ms(text: str) -> int:
    """Read a length of time, such as `90s`, `15m`, `1h30m` or `7d`, into milliseconds. Raises ValueError."""
    total_ms = read_length_ms(text)
    if total_ms > _LAST_MS:
        raise ValueError(f"{text!r} is too long: write at most 2932896d")
    return total_ms


def moment_ms(text: str) -> int:
    """Read an ISO time into milliseconds since 1970. A time without a zone is in this computer's zone.

    The text may also be the milliseconds: 12 digits or more, or 0. Raises ValueError for any other text, and for times
    before 1970 or after the year 9999.
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
    """Return why the text is not a time, and what to write instead."""
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
    """Return a time for people: in this computer's zone, to the second; a dash if the time is 0 or unknown."""
    return _shown(time_ms, "seconds") if time_ms else UNKNOWN


def moment_of(text: str | None) -> str:
    """Do the same as `moment` for an ISO time, which the API writes."""
    return moment(int(datetime.fromisoformat(text).timestamp() * 1000)) if text else UNKNOWN


def exact_moment(time_ms: int) -> str:
    """Return a time as `moment` does, with its milliseconds if it has any. Here, 0 is a time and not a dash."""
    return _shown(time_ms, "milliseconds" if time_ms % 1000 else "seconds")


def _shown(time_ms: int, precision: str) -> str:
    """Return a time, or its number if Python has no such date: clients and acts may send any number."""
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
