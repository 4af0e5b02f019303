"""The time zones that a user can choose."""

from __future__ import annotations

from functools import cache
from typing import Final
from zoneinfo import available_timezones

__all__ = ["zone_names"]

_OLD_NAMES: Final = frozenset(("Etc", "SystemV", "US", "posix", "right"))


@cache
def zone_names() -> tuple[str, ...]:
    """Return UTC, then the other zones in alphabetical order."""
    places = (name for name in available_timezones() if "/" in name)
    return ("UTC", *sorted(name for name in places if name.partition("/")[0] not in _OLD_NAMES))
