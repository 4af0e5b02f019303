"""Paths into JSON documents, such as `order.items[0].sku`, and tests of the values at a path."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

__all__ = ["OPERATORS", "JsonPathInvalid", "JsonTest", "Operator", "Step", "parse_path", "values_at"]

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "contains", "exists"]
OPERATORS: Final[tuple[Operator, ...]] = get_args(Operator)

Step = str | int | None  # Name in an object, or index in an array; None means every item

_MOST_STEPS: Final = 50
_MOST_FOUND: Final = 10_000
_STEP: Final = re.compile(
    r"""\.?(?P<name>[^\s.\[\]"']+) | \[(?P<item>\d{1,9})\] | \[(?P<every>\*)\] | \["(?P<quoted>(?:[^"\\]|\\.)*)"\]""",
    re.VERBOSE,
)


class JsonPathInvalid(ValueError):
    """The text is not a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonTest:
    """A test of a JSON document. A document passes if at least one value at the path matches."""

    path: tuple[Step, ...]
    operator: Operator
    text: str  # The operand as the user typed it

    def holds(self, document: object) -> bool:
        """Return whether a document passes."""
        found = values_at(document, self.path)
        if self.operator == "exists":
            return next(found, _NOTHING) is not _NOTHING
        given = _typed(self.text)
        return any(_compare(self.operator, value, given, self.text) for value in found)


def parse_path(text: str) -> tuple[Step, ...]:
    """Parse a path such as `order.items[0].sku`.

    Raises JsonPathInvalid if the text is not a path.
    """
    rest = text.strip().removeprefix("$")
    steps: list[Step] = []
    at = 0
    while at < len(rest):
        found = _STEP.match(rest, at)
        if found is None or (steps and found["name"] and not found[0].startswith(".")):
            raise JsonPathInvalid(
                _("cannot read {text!r}: {how}").format(text=rest[at : at + 20], how=_(_HOW))
            )
        steps.append(_step(found))
        at = found.end()
    if not steps:
        raise JsonPathInvalid(_(_HOW))
    if len(steps) > _MOST_STEPS:
        raise JsonPathInvalid(_("a path has at most {most} steps").format(most=_MOST_STEPS))
    return tuple(steps)


_HOW: Final = gettext_noop(
    'write a path as order.items[0].sku, with [*] for any item and ["a.b"] for a name with special characters'
)
_NOTHING: Final = object()


def _step(found: re.Match[str]) -> Step:
    if found["name"]:
        return found["name"]
    if found["item"]:
        return int(found["item"])
    if found["every"]:
        return None
    try:
        return str(json.loads(f'"{found["quoted"]}"'))
    except ValueError:
        raise JsonPathInvalid(
            _("{text!r} is not a quoted name: write it as in JSON").format(text=found[0])
        ) from None


def values_at(document: object, path: tuple[Step, ...]) -> Iterator[object]:
    """Yield the values at a path, at most 10,000."""
    here = [document]
    for step in path:
        here = [inner for value in here for inner in _inside(value, step)][:_MOST_FOUND]
    yield from here


def _inside(value: object, step: Step) -> list[object]:
    if step is None:
        return value if isinstance(value, list) else []
    if isinstance(step, int):
        return value[step : step + 1] if isinstance(value, list) else []
    return [value[step]] if isinstance(value, dict) and step in value else []


def _typed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _compare(operator: Operator, value: object, given: object, text: str) -> bool:
    if operator == "=":
        return _is_equal(value, given, text)
    if operator == "!=":
        return not _is_equal(value, given, text)
    if operator == "contains":
        if isinstance(value, str):
            return (given if isinstance(given, str) else text) in value
        return isinstance(value, list) and any(_is_equal(item, given, text) for item in value)
    if _is_number(value) and _is_number(given):
        return _is_ordered(operator, value, given)
    if isinstance(value, str):
        return _is_ordered(operator, value, given if isinstance(given, str) else text)
    return False


def _is_equal(value: object, given: object, text: str) -> bool:
    """Compare a value with the operand. The operand `42` matches the number 42 and the string "42"."""
    if isinstance(value, str):
        return value in (given, text) if isinstance(given, str) else value == text
    if isinstance(value, bool) or isinstance(given, bool):
        return value is given
    return value == given


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_ordered(operator: Operator, value: Any, given: Any) -> bool:
    match operator:
        case "<":
            return bool(value < given)
        case "<=":
            return bool(value <= given)
        case ">":
            return bool(value > given)
        case _:
            return bool(value >= given)
