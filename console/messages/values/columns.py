"""Columns of a message list: the key, a property, or the value at a path in JSON payloads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.utils.translation import gettext as _

from console.messages.values.json_path import JsonPathInvalid, Step, parse_path, values_at
from vela.wire.entry import Message

__all__ = ["MOST_COLUMNS", "Column", "ColumnInvalid", "cells_of", "parse_columns", "paths_in", "values_of"]

MOST_COLUMNS: Final = 8
_MOST_TEXT: Final = 200
_MOST_PATHS: Final = 30
_MOST_DEPTH: Final = 3
_KEY: Final = "key"
_PROPERTY: Final = "property:"
_PLAIN: Final = re.compile(r"[^\s.\[\]\"']{1,60}")


class ColumnInvalid(ValueError):
    """The text does not name a column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column. The key column has neither a property name nor a path."""

    name: str
    property_name: str = ""
    path: tuple[Step, ...] = ()


def parse_columns(names: Iterable[str]) -> tuple[Column, ...]:
    """Return the columns with these names. Ignore empty and repeated names.

    Raises ColumnInvalid for a name that cannot be read, and for more than 8 names.
    """
    given = dict.fromkeys(name.strip() for name in names if name.strip())
    if len(given) > MOST_COLUMNS:
        raise ColumnInvalid(_("Choose at most {most} columns.").format(most=MOST_COLUMNS))
    return tuple(_column(name) for name in given)


def values_of(columns: Iterable[Column], message: Message, *, has_payload: bool = True) -> dict[str, Any]:
    """Return a message's values by column name.

    A column without a value is left out.
    """
    document: Any = None
    if has_payload and any(column.path for column in columns):
        document = _document(message.payload)
    found: dict[str, Any] = {}
    for column in columns:
        if column.path:
            values = list(values_at(document, column.path))
            if None in column.path:  # In a path, None stands for [*]
                found[column.name] = values
            elif values:
                found[column.name] = values[0]
        elif column.property_name:
            if column.property_name in message.properties:
                found[column.name] = message.properties[column.property_name]
        elif message.key is not None:
            found[column.name] = message.key
    return found


def cells_of(
    columns: Iterable[Column], message: Message, *, has_payload: bool = True
) -> tuple[str | None, ...]:
    """Return each column's value as text, cut after 200 characters. A missing value is None."""
    columns = tuple(columns)
    values = values_of(columns, message, has_payload=has_payload)
    return tuple(_text(values[column.name]) if column.name in values else None for column in columns)


def paths_in(payload: bytes) -> tuple[str, ...]:
    """Return at most 30 paths in a JSON payload."""
    found = _paths(_document(payload), "$", 1)
    return tuple(path for path, _number in zip(found, range(_MOST_PATHS), strict=False))


def _column(name: str) -> Column:
    if name == _KEY:
        return Column(name=name)
    if name.startswith(_PROPERTY) and name != _PROPERTY:
        return Column(name=name, property_name=name.removeprefix(_PROPERTY))
    if not name.startswith("$"):
        raise ColumnInvalid(
            _(
                "{name!r} is not a column. Write $.order.id for a JSON value, property:region for a property, or key."
            ).format(name=name)
        )
    try:
        return Column(name=name, path=parse_path(name))
    except JsonPathInvalid as error:
        raise ColumnInvalid(str(error)) from None


def _document(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None


def _text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"


def _paths(value: object, before: str, depth: int) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    for name, inner in value.items():
        if _PLAIN.fullmatch(name):
            path = f"{before}.{name}"
            if isinstance(inner, dict) and depth < _MOST_DEPTH:
                yield from _paths(inner, path, depth + 1)
            else:
                yield path
