"""Arguments of a wrong type, refused before anything is asked of the broker."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from vela.errors import InvalidConfiguration

__all__ = ["require_callable", "require_choice", "require_strings"]


def require_choice(name: str, value: object, choices: type[enum.Enum]) -> None:
    """Raises InvalidConfiguration for what is no member, such as a member's name as a string."""
    if not isinstance(value, choices):
        members = ", ".join(f"{choices.__name__}.{member.name}" for member in choices)
        raise InvalidConfiguration(f"{name} is one of {members}, not {value!r}")


def require_callable(name: str, value: object) -> None:
    """Raises InvalidConfiguration for what is neither None nor can be called."""
    if value is not None and not callable(value):
        raise InvalidConfiguration(f"{name} is a function, not {value!r}")


def require_strings(name: str, value: object) -> None:
    """Raises InvalidConfiguration for what is no mapping of strings to strings."""
    if not isinstance(value, Mapping):
        raise InvalidConfiguration(f"{name} is a dictionary of strings, not {value!r}")
    for key, each in value.items():
        if not isinstance(key, str) or not isinstance(each, str):
            raise InvalidConfiguration(f"{name} are strings, not {key!r}: {each!r}")
