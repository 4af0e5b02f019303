"""Pieces of the OpenAPI document."""

from __future__ import annotations

import types
from dataclasses import fields
from datetime import datetime
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

__all__ = ["answer", "array", "operation", "path", "query", "ref", "row_schema"]

_TYPES: Final[dict[Any, dict[str, str]]] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    datetime: {"type": "string", "format": "date-time"},
}


def operation(
    summary: str,
    responses: dict[str, Any],
    *,
    parameters: list[dict[str, Any]] | None = None,
    body: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """One method of an address; what goes wrong is always a problem document."""
    described: dict[str, Any] = {
        "summary": summary,
        "responses": {**responses, "default": {"$ref": "#/components/responses/Problem"}},
    }
    if parameters:
        described["parameters"] = parameters
    if body:
        described["requestBody"] = {"content": {"application/json": {"schema": body}}}
    return described


def answer(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A JSON response."""
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def path(name: str) -> dict[str, Any]:
    """A name in the address."""
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def query(name: str, description: str, type_: str) -> dict[str, Any]:
    """What may come after `?`."""
    return {"name": name, "in": "query", "description": description, "schema": {"type": type_}}


def ref(name: str) -> dict[str, Any]:
    """A schema of the document by name."""
    return {"$ref": f"#/components/schemas/{name}"}


def array(items: dict[str, Any]) -> dict[str, Any]:
    """A list of these."""
    return {"type": "array", "items": items}


def row_schema(row: type[Any], *, without: tuple[str, ...] = ("id",), **more: Any) -> dict[str, Any]:
    """What a query's row looks like to callers: its fields but for some, and `more`. All of them are always there."""
    hints = get_type_hints(row)
    properties = {each.name: _of(hints[each.name]) for each in fields(row) if each.name not in without} | more
    return {"type": "object", "properties": properties, "required": list(properties)}


def _of(hint: Any) -> dict[str, Any]:
    if get_origin(hint) in (Union, types.UnionType):
        (type_,) = (each for each in get_args(hint) if each is not type(None))
        schema = _of(type_)
        return {**schema, "type": [schema["type"], "null"]}
    return dict(_TYPES.get(hint, {"type": "object"}))
