"""Enumerations whose members are numbers for programs and print as names."""

from __future__ import annotations

import enum
from typing import Final

__all__ = ["NamedNumber"]

_OF_NUMBERS: Final = tuple("bcdoxXneEfFgG%")  # the last character of a format for numbers


class NamedNumber(enum.IntEnum):
    """An IntEnum that prints as `Result.Timeout`, as in Apache's client, and not as "3", as in Python's IntEnum."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __format__(self, spec: str) -> str:
        """Format the name, unless the format is for numbers (`f"{result:d}"`)."""
        return int.__format__(self, spec) if spec.endswith(_OF_NUMBERS) else format(str(self), spec)
