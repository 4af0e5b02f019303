"""Enumerations that are numbers to programs and names to people."""

from __future__ import annotations

import enum
from typing import Final

__all__ = ["NamedNumber"]

_OF_NUMBERS: Final = tuple("bcdoxXneEfFgG%")  # what a format of numbers ends with


class NamedNumber(enum.IntEnum):
    """An IntEnum whose text is `Result.Timeout`, as Apache's client prints it, where Python's own is "3"."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __format__(self, spec: str) -> str:
        """The text, unless the format is one of numbers (`f"{result:d}"`)."""
        return int.__format__(self, spec) if spec.endswith(_OF_NUMBERS) else format(str(self), spec)
