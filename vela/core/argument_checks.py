"""Checks of the arguments' types, made before the client asks the broker anything."""

from __future__ import annotations

import enum
import inspect
import math
from collections.abc import Mapping

from vela.errors import InvalidConfiguration

__all__ = [
    "is_coroutine_function",
    "milliseconds",
    "require_callable",
    "require_choice",
    "require_kind",
    "require_methods",
    "require_number",
    "require_numbers",
    "require_plain_function",
    "require_strings",
    "require_text",
    "require_whole",
]


def require_choice(name: str, value: object, choices: type[enum.Enum]) -> None:
    """Raise InvalidConfiguration unless the value is a member of the enum. The name of a member is not enough."""
    if not isinstance(value, choices):
        members = ", ".join(f"{choices.__name__}.{member.name}" for member in choices)
        raise InvalidConfiguration(f"{name} must be one of {members}, not {value!r}")


def require_callable(name: str, value: object) -> None:
    """Raise InvalidConfiguration unless the value is None or can be called."""
    if value is not None and not callable(value):
        raise InvalidConfiguration(f"{name} must be a function, not {value!r}")


def is_coroutine_function(function: object) -> bool:
    """Return whether calling this function, or this object with a `__call__`, returns a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def require_plain_function(name: str, value: object) -> None:
    """Do the same as `require_callable`, and also refuse a coroutine function: no event loop would run it."""
    require_callable(name, value)
    if is_coroutine_function(value):
        raise InvalidConfiguration(f"{name} is a coroutine function: that needs vela.aio")


def require_kind(name: str, value: object, *kinds: type) -> None:
    """Raise InvalidConfiguration unless the value is None or an instance of one of these classes."""
    if value is not None and not isinstance(value, kinds):
        wanted = " or ".join(f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in kinds)
        raise InvalidConfiguration(f"{name} must be a {wanted.replace('builtins.', '')}, not {value!r}")


def require_methods(name: str, value: object, *methods: str) -> None:
    """Raise InvalidConfiguration unless the value is None or has these methods."""
    if value is not None and not all(callable(getattr(value, method, None)) for method in methods):
        raise InvalidConfiguration(f"{name} must be an object with {' and '.join(methods)}, not {value!r}")


def require_text(name: str, value: object) -> None:
    """Raise InvalidConfiguration unless the value is None or a string that can be encoded in UTF-8."""
    if value is None:
        return
    if not isinstance(value, str):
        raise InvalidConfiguration(f"{name} must be a string, not {value!r}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidConfiguration(f"{name} cannot be written in UTF-8: {error}") from None


def require_strings(name: str, value: object) -> None:
    """Raise InvalidConfiguration unless the value is a mapping of strings to strings."""
    if not isinstance(value, Mapping):
        raise InvalidConfiguration(f"{name} must be a dictionary of strings, not {value!r}")
    for key, each in value.items():
        if not isinstance(key, str) or not isinstance(each, str):
            raise InvalidConfiguration(f"{name} must map strings to strings, not {key!r}: {each!r}")
        require_text(name, key)
        require_text(name, each)


def require_numbers(name: str, value: object) -> None:
    """Raise InvalidConfiguration unless the value maps strings to whole numbers from 0 to 2^64 - 1."""
    if not isinstance(value, Mapping):
        raise InvalidConfiguration(f"{name} must be a dictionary of names and whole numbers, not {value!r}")
    for key, each in value.items():
        if not isinstance(key, str) or not isinstance(each, int) or not 0 <= each < 1 << 64:
            raise InvalidConfiguration(
                f"{name} must map names to whole numbers, 0 or more, not {key!r}: {each!r}"
            )


def require_whole(name: str, value: object, *, least: int = 0) -> None:
    """Raise InvalidConfiguration unless the value is a whole number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidConfiguration(f"{name} must be a whole number, at least {least}, not {value!r}")


def require_number(name: str, value: object, *, least: float | None = 0) -> None:
    """Raise InvalidConfiguration unless the value is a number that is large enough. `least` None means above 0."""
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    if not (number > 0 if least is None else number >= least):
        wanted = "above 0" if least is None else f"at least {least:g}"
        raise InvalidConfiguration(f"{name} must be a number, {wanted}, not {value!r}")


def milliseconds(name: str, value: object) -> float:
    """Return a duration in milliseconds. Raises InvalidConfiguration if it is not a number, or is too long."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidConfiguration(f"{name} must be a number of milliseconds, not {value!r}")
    try:
        time_ms = float(value)
    except OverflowError:
        raise InvalidConfiguration(f"{name} is too long a time: leave it out") from None
    if math.isnan(time_ms):
        raise InvalidConfiguration(f"{name} must be a number of milliseconds, not {value!r}")
    return time_ms
