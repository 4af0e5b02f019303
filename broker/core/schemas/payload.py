"""Check that the bytes of a message fit its schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from broker.core.errors import IncompatibleSchema
from broker.core.schemas.schema import SchemaDefinition, SchemaType

__all__ = ["check_payload", "is_readable"]

_SIZES: Final = {
    SchemaType.BOOL: 1,
    SchemaType.INT8: 1,
    SchemaType.INT16: 2,
    SchemaType.INT32: 4,
    SchemaType.INT64: 8,
    SchemaType.FLOAT: 4,
    SchemaType.DOUBLE: 8,
    SchemaType.DATE: 8,
    SchemaType.TIME: 8,
    SchemaType.TIMESTAMP: 8,
}
_MOST_DEPTH: Final = 100
_MOST_COMPARISONS: Final = 30_000  # This many comparisons take at most 0.25 s
_SYMBOLS_OF_A_COMPARISON: Final = 100  # This many enum symbols count as one comparison
_MOST_NAME: Final = 100
_INT_BITS: Final = {"int": 31, "long": 63}


def is_readable(schema: SchemaDefinition) -> bool:
    """Return whether `check_payload` can check messages with this schema."""
    return schema.type in _SIZES or schema.type in (SchemaType.STRING, SchemaType.JSON)


def check_payload(schema: SchemaDefinition, data: bytes) -> None:
    """Check the bytes of a message.

    Raises IncompatibleSchema if the bytes do not fit. Accepts any bytes if `is_readable` returns False.
    A complex message is checked only in part, because a long check would block the broker.
    """
    if schema.type is SchemaType.STRING:
        try:
            data.decode()
        except UnicodeDecodeError as error:
            raise IncompatibleSchema(f"it is not UTF-8 at byte {error.start}") from None
    elif (size := _SIZES.get(schema.type)) is not None:
        if len(data) != size:
            raise IncompatibleSchema(f"it has {len(data)} bytes, but a value of the schema has {size}")
    elif schema.type is SchemaType.JSON:
        _check_json(schema.data, data)


def _check_json(definition: bytes, data: bytes) -> None:
    try:
        value = json.loads(data)
    except UnicodeDecodeError as error:  # str(error) may show a byte of the payload
        raise IncompatibleSchema(
            f"it is not JSON: it is not {error.encoding.upper()} at byte {error.start}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise IncompatibleSchema(f"it is not JSON: {error}") from None
    try:
        schema = json.loads(definition)
    except ValueError:
        return  # Without an Avro definition, any JSON fits
    if isinstance(schema, dict | list | str):
        run = _Run()
        _collect(schema, run.names, 0)
        _check(schema, value, run, "", 0)


class _Run:
    __slots__ = ("left", "names")

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self.left = _MOST_COMPARISONS


def _collect(schema: Any, names: dict[str, Any], depth: int) -> None:
    if depth > _MOST_DEPTH:
        return
    if isinstance(schema, list):
        for each in schema:
            _collect(each, names, depth + 1)
    elif isinstance(schema, dict):
        name = schema.get("name")
        if isinstance(name, str):
            names[name] = schema
            if isinstance(schema.get("namespace"), str):
                names[f"{schema['namespace']}.{name}"] = schema
        for field in _fields(schema):
            _collect(field.get("type"), names, depth + 1)
        for part in ("items", "values", "type"):
            if isinstance(schema.get(part), dict | list):
                _collect(schema[part], names, depth + 1)


def _check(schema: Any, value: Any, run: _Run, where: str, depth: int) -> None:
    run.left -= 1
    if depth > _MOST_DEPTH or run.left < 0:
        return
    while isinstance(schema, dict) and isinstance(schema.get("type"), dict | list):
        schema = schema["type"]
        run.left -= 1
    if isinstance(schema, list):
        if not any(_fits(each, value, run, depth) for each in schema):
            raise _wrong(where, value, " or ".join(_kind_of(each) for each in schema))
        return
    if isinstance(schema, str) and schema in run.names:
        schema = run.names[schema]
    kind = _kind_of(schema)
    match kind:
        case "record":
            _check_record(schema, value, run, where, depth)
        case "array":
            if not isinstance(value, list):
                raise _wrong(where, value, "an array")
            for number, item in enumerate(islice(value, max(0, run.left))):
                _check(schema.get("items"), item, run, f"{where}[{number}]", depth + 1)
        case "map":
            if not isinstance(value, dict):
                raise _wrong(where, value, "an object")
            for item in islice(value.values(), max(0, run.left)):
                _check(schema.get("values"), item, run, f"{where}[*]", depth + 1)
        case "enum":
            symbols = schema.get("symbols") or []
            run.left -= len(symbols) // _SYMBOLS_OF_A_COMPARISON
            if value not in symbols:
                raise _wrong(where, value, " or ".join(str(each) for each in symbols))
        case _ if not _is_primitive(kind, value):
            raise _wrong(where, value, kind)


def _check_record(schema: Mapping[str, Any], value: Any, run: _Run, where: str, depth: int) -> None:
    if not isinstance(value, dict):
        raise _wrong(where, value, "an object")
    for field in _fields(schema):
        name, type_ = field.get("name"), field.get("type")
        if name in value:
            _check(type_, value[name], run, _inside(where, name), depth + 1)
        elif "default" in field:
            run.left -= 1
        elif not _fits(type_, None, run, depth):
            raise IncompatibleSchema(f"{_inside(where, name)} is missing")
        if run.left < 0:
            return


def _fields(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    fields = schema.get("fields")
    return [each for each in fields if isinstance(each, dict)] if isinstance(fields, list) else []


def _fits(schema: Any, value: Any, run: _Run, depth: int) -> bool:
    try:
        _check(schema, value, run, "", depth + 1)
    except IncompatibleSchema:
        return False
    return True


def _kind_of(schema: Any) -> str:
    if isinstance(schema, dict):
        inside = schema.get("type")
        return inside if isinstance(inside, str) else _kind_of(inside)
    return schema if isinstance(schema, str) else "a value of the schema"


def _is_primitive(kind: str, value: Any) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            return is_whole and -(1 << _INT_BITS[kind]) <= value < 1 << _INT_BITS[kind]
        case "float" | "double":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "string" | "bytes" | "fixed":
            return isinstance(value, str)
    return True


def _inside(where: str, name: object) -> str:
    shown = str(name)[:_MOST_NAME]
    return f"{where}.{shown}" if where else shown


def _wrong(where: str, value: Any, wanted: str) -> IncompatibleSchema:
    return IncompatibleSchema(f"{where or 'the value'} is {_described(value)}, and the schema takes {wanted}")


def _described(value: Any) -> str:
    """Describe only the type, because more people may read the logs than the messages."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            bits = value.bit_length()
            return "a whole number" if bits <= _INT_BITS["int"] else f"a whole number of {bits + 1} bits"
        case float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
    return "an object"
