"""Read an act's parameters from untrusted JSON into a frozen dataclass."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from broker.core.errors import BrokerError

__all__ = [
    "STORABLE_TEXT",
    "ActInvalid",
    "AlreadySo",
    "NoParameters",
    "NoSubscription",
    "NothingToActOn",
    "Rule",
    "is_storable_text",
    "json_schema",
    "read_parameters",
]

P = TypeVar("P")

_MOST_TEXT = 4096  # Characters
STORABLE_TEXT = f"text of at most {_MOST_TEXT} characters, without NUL and in UTF-8"


class ActInvalid(BrokerError):
    """The act cannot be planned or applied."""

    code = "MetadataError"


class NothingToActOn(ActInvalid):
    """The request names something that does not exist."""

    code = "NothingToActOn"


class NoSubscription(NothingToActOn):
    """The topic has no durable subscription of this name."""


class AlreadySo(ActInvalid):
    """The act's change is already made. For example, the subscription to pause is already paused."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The description and the limits of one parameter."""

    doc: str
    least: int | None = None
    most: int | None = None
    most_characters: int = _MOST_TEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class NoParameters:
    """For acts that take no parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    name: str
    type_: Any  # int, str, bool, a tuple of choices, or Mapping
    rule: Rule
    is_required: bool
    default: Any


def read_parameters(shape: type[P], raw: Mapping[str, Any]) -> P:
    """Return the parameters as an instance of the dataclass `shape`.

    Raises ActInvalid if a parameter is missing, unknown or wrong.
    """
    known = _fields(shape)
    unknown = raw.keys() - {field.name for field in known}
    if unknown:
        takes = ", ".join(field.name for field in known) or "no parameters"
        raise ActInvalid(f"unknown parameter {min(unknown)!r}; this act takes {takes}")
    values = {}
    for field in known:
        value = raw.get(field.name)
        if value is None:
            if field.is_required:
                raise ActInvalid(f"the parameter {field.name} is missing: {field.rule.doc}")
            continue
        values[field.name] = _checked(field, value)
    return shape(**values)


def json_schema(shape: type[Any]) -> dict[str, Any]:
    """Return the JSON Schema of a parameter class."""
    known = _fields(shape)
    schema: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {field.name: _property(field) for field in known},
    }
    required = [field.name for field in known if field.is_required]
    return {**schema, "required": required} if required else schema


def _fields(shape: Any) -> tuple[_Field, ...]:
    hints = get_type_hints(shape, include_extras=True)
    return tuple(
        _field(
            each.name,
            hints[each.name],
            each.default if each.default_factory is MISSING else each.default_factory(),
        )
        for each in fields(shape)
    )


def _field(name: str, hint: Any, default: Any) -> _Field:
    if get_origin(hint) is not Annotated:
        raise TypeError(f"{name}: annotate it with Annotated[…, Rule(…)]")
    type_, rule = get_args(hint)
    if get_origin(type_) in (Union, types.UnionType):
        (type_,) = (each for each in get_args(type_) if each is not type(None))
    if get_origin(type_) is Literal:
        type_ = get_args(type_)
    elif get_origin(type_) is not None:
        type_ = Mapping
    return _Field(
        name=name,
        type_=type_,
        rule=rule,
        is_required=default is MISSING,
        default=None if default is MISSING else default,
    )


def _checked(field: _Field, value: Any) -> Any:
    about, rule = f"the parameter {field.name}", field.rule
    if isinstance(field.type_, tuple):
        if value not in field.type_:
            raise ActInvalid(f"{about} is {value!r}: use {' or '.join(field.type_)}")
    elif field.type_ is int:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if (
            not is_number
            or (rule.least is not None and value < rule.least)
            or (rule.most is not None and value > rule.most)
        ):
            raise ActInvalid(f"{about} is {value!r}: it takes a whole number{_range(rule)}")
    elif field.type_ is bool:
        if not isinstance(value, bool):
            raise ActInvalid(f"{about} is {value!r}: it takes true or false")
    elif field.type_ is str:
        if not is_storable_text(value, rule.most_characters):
            raise ActInvalid(f"{about} is {_short(value)}: it takes {_text_of(rule)}")
    elif not isinstance(value, Mapping) or not all(
        is_storable_text(text, rule.most_characters) for pair in value.items() for text in pair
    ):
        raise ActInvalid(f"{about} is {_short(value)}: it takes an object whose values are {_text_of(rule)}")
    return value


def _text_of(rule: Rule) -> str:
    return STORABLE_TEXT.replace(str(_MOST_TEXT), str(rule.most_characters))


def is_storable_text(value: object, most_characters: int = _MOST_TEXT) -> bool:
    """Return whether a value is a string of allowed length that PostgreSQL can store.

    PostgreSQL cannot store NUL or lone surrogates.
    """
    if not isinstance(value, str) or "\0" in value or len(value) > most_characters:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _range(rule: Rule) -> str:
    if rule.least is not None and rule.most is not None:
        return f" from {rule.least} to {rule.most}"
    if rule.least is not None:
        return f" of at least {rule.least}"
    return f" of at most {rule.most}" if rule.most is not None else ""


def _short(value: Any) -> str:
    text = repr(value[:80] if isinstance(value, str) else value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _property(field: _Field) -> dict[str, Any]:
    schema: dict[str, Any] = {"description": field.rule.doc}
    if isinstance(field.type_, tuple):
        schema |= {"type": "string", "enum": list(field.type_)}
    elif field.type_ is Mapping:
        schema |= {"type": "object", "additionalProperties": {"type": "string"}}
    else:
        schema["type"] = {int: "integer", bool: "boolean", str: "string"}[field.type_]
    if field.rule.least is not None:
        schema["minimum"] = field.rule.least
    if field.rule.most is not None:
        schema["maximum"] = field.rule.most
    if field.default is not None:
        schema["default"] = dict(field.default) if field.type_ is Mapping else field.default
    return schema
