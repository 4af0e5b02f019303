"""Arguments of a wrong type, refused before anything is asked of the broker."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping

from vela.errors import InvalidConfiguration

__all__ = [
    "milliseconds",
    "require_callable",
    "require_choice",
    "require_kind",
    "require_methods",
    "require_strings",
]


def require_choice(name: str, value: object, choices: type[enum.Enum]) -> None:
    """Raises InvalidConfiguration for what is no member, such as a member's name as a string."""
    if not isinstance(value, choices):
        members = ", ".join(f"{choices.__name__}.{member.name}" for member in choices)
        raise InvalidConfiguration(f"{name} is one of {members}, not {value!r}")


def require_callable(name: str, value: object) -> None:
    """Raises InvalidConfiguration for what is neither None nor can be called."""
    if value is not None and not callable(value):
        raise InvalidConfiguration(f"{name} is a function, not {value!r}")


def require_kind(name: str, value: object, *kinds: type) -> None:
    """Raises InvalidConfiguration for what is neither None nor an instance of one of these."""
    if value is not None and not isinstance(value, kinds):
        wanted = " or ".join(f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in kinds)
        raise InvalidConfiguration(f"{name} is a {wanted}, not {value!r}")


def require_methods(name: str, value: object, *methods: str) -> None:
    """Raises InvalidConfiguration for what is neither None nor has these methods."""
    if value is not None and not all(callable(getattr(value, method, None)) for method in methods):
        raise InvalidConfiguration(f"{name} is an object with {' and '.join(methods)}, not {value!r}")


def require_strings(name: str, value: object) -> None:
    """Raises InvalidConfiguration for what is no mapping of strings to strings."""
    if not isinstance(value, Mapping):
        raise InvalidConfiguration(f"{name} is a dictionary of strings, not {value!r}")
    for key, each in value.items():
        if not isinstance(key, str) or not isinstance(each, str):
            raise InvalidConfiguration(f"{name} are strings, not {key!r}: {each!r}")


def milliseconds(name: str, value: object) -> float:
    """A time that may be waited for, however long. Raises InvalidConfiguration for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidConfiguration(f"{name} is a number of milliseconds, not {value!r}")
    try:
        time_ms = float(value)
    except OverflowError:
        raise InvalidConfiguration(f"{name} is more than can be waited for: leave it out") from None
    if math.isnan(time_ms):
        raise InvalidConfiguration(f"{name} is a number of milliseconds, not {value!r}")
    return time_ms
