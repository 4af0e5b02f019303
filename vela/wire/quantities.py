"""Lengths of time and sizes as people write them: `90s`, `1h30m`, `7 days`, `10GB`, `512 MiB`.

A text that this module writes is read back as the same number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Final

from vela.wire.errors import InvalidQuantity

__all__ = ["read_length_ms", "read_size_bytes", "write_length", "write_size"]

_LENGTH_EXAMPLES: Final = "500ms, 90s, 15m, 1h30m or 7d"
_SIZE_EXAMPLES: Final = "500kB, 512MiB, 10GB or 1TB"

# Largest first.
_LENGTHS: Final = (
    (86_400_000, "d", "day"),
    (3_600_000, "h", "hour"),
    (60_000, "m", "minute"),
    (1000, "s", "second"),
    (1, "ms", "millisecond"),
)
_LENGTH_UNITS: Final = {
    name: unit_ms for unit_ms, short, word in _LENGTHS for name in (short, word, f"{word}s")
} | {"min": 60_000}
_SIZES: Final = {
    "B": 1,
    "kB": 1000,
    "KiB": 1024,
    "MB": 1000**2,
    "MiB": 1024**2,
    "GB": 1000**3,
    "GiB": 1024**3,
    "TB": 1000**4,
    "TiB": 1024**4,
    "PB": 1000**5,
    "PiB": 1024**5,
}
_SIZE_UNITS: Final = {unit.lower(): size for unit, size in _SIZES.items()} | {"byte": 1, "bytes": 1}
_PART: Final = re.compile(r" ?([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]+)")
_MOST_DIGITS: Final = 30


def read_length_ms(text: str) -> int:
    """Read one or more parts such as `1h30m` into milliseconds. Raises InvalidQuantity, a ValueError."""
    return _sum(text, _LENGTH_UNITS, "a length of time", _LENGTH_EXAMPLES, "millisecond")


def read_size_bytes(text: str) -> int:
    """Read a size such as `10GB` (powers of 1000) or `10GiB` (powers of 1024). Raises InvalidQuantity."""
    return _sum(text.lower(), _SIZE_UNITS, "a size", _SIZE_EXAMPLES, "byte", shown=text)


def write_length(length_ms: int) -> str:
    """Write a length in one or two units, exactly: "7 days", "1 hour 30 minutes", "1500 milliseconds"."""
    for (unit_ms, _, word), (next_ms, _, next_word) in pairwise(_LENGTHS[:-1]):
        whole, rest_ms = divmod(length_ms, unit_ms)
        if whole and rest_ms and rest_ms % next_ms == 0:
            return f"{_counted(whole, word)} {_counted(rest_ms // next_ms, next_word)}"
        if whole:
            break
    for unit_ms, _, word in _LENGTHS:
        if length_ms and length_ms % unit_ms == 0:
            return _counted(length_ms // unit_ms, word)
    return _counted(0, "second")


def write_size(size_bytes: int) -> str:
    """Write a size in the largest unit that divides it: "20 GB", "1 GiB", "1234567 bytes"."""
    for unit, factor in sorted(_SIZES.items(), key=lambda each: -each[1]):
        if factor > 1 and size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor} {unit}"
    return _counted(size_bytes, "byte")


def _sum(
    text: str, units: Mapping[str, int], what: str, examples: str, least: str, *, shown: str = ""
) -> int:
    """Add up the parts of `text`. Each unit may occur once."""
    rest, named = text.strip(), shown or text
    total, at = Fraction(0), 0
    seen: set[int] = set()
    while at < len(rest):
        part = _PART.match(rest, at)
        unit = units.get(part[2]) if part else None
        if part is None or unit is None or unit in seen:
            break
        if len(part[1]) > _MOST_DIGITS:
            raise InvalidQuantity(f"{part[1][:_MOST_DIGITS]}… is too long a number")
        seen.add(unit)
        total += Fraction(part[1]) * unit
        at = part.end()
    if not seen or at < len(rest):
        raise InvalidQuantity(f"{named!r} is not {what}: write {examples}")
    if total.denominator != 1:
        raise InvalidQuantity(f"{named!r} is not a whole number of {least}s")
    return int(total)


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")
