"""Avro payloads, which need the schema that they were written with."""

from __future__ import annotations

import io
import json
from typing import Any

from console.messages.decoders.failures import CannotDecode

__all__ = ["decode_avro"]


def decode_avro(data: bytes, definition: bytes) -> Any:
    """Decode one record without a header. Raises CannotDecode."""
    try:
        import fastavro
    except ImportError:
        raise CannotDecode("fastavro is not installed in the console: install vela[avro]") from None
    source = io.BytesIO(data)
    try:
        schema = json.loads(bytes(definition))
        if _has_empty_items(schema):
            # The payload may then claim any number of items without a byte for them.
            raise CannotDecode("the schema has an array of values without content")
        value = fastavro.schemaless_reader(source, fastavro.parse_schema(schema), None)
    except CannotDecode:
        raise
    except Exception as error:
        # fastavro raises what its reader happens to meet: EOFError, IndexError, KeyError, struct.error and others.
        raise CannotDecode(f"{type(error).__name__}: {error}") from None
    if source.tell() != len(data):
        raise CannotDecode(f"{len(data) - source.tell()} bytes are left after the record")
    return value


def _has_empty_items(schema: object) -> bool:
    """Whether a part of the schema is an array of null, or of records and fixed values of no size."""
    if isinstance(schema, list):
        return any(_has_empty_items(each) for each in schema)
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "array" and _is_empty(schema.get("items")):
        return True
    return any(_has_empty_items(each) for each in schema.values())


def _is_empty(schema: object) -> bool:
    if not isinstance(schema, dict):
        return schema == "null"
    kind = schema.get("type")
    if kind == "record":
        fields = schema.get("fields")
        return isinstance(fields, list) and all(
            isinstance(each, dict) and _is_empty(each.get("type")) for each in fields
        )
    return (kind == "fixed" and not schema.get("size")) or (kind != schema and _is_empty(kind))
