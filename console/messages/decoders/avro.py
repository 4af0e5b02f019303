"""Avro payloads, which need the schema that they were written with."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from console.messages.decoders.failures import CannotDecode

__all__ = ["decode_avro"]

_Names = Mapping[str, object]  # the named types of a schema


def decode_avro(data: bytes, definition: bytes) -> Any:
    """Decode one value without a header, with the schema that it was encoded with.

    Raises CannotDecode if the bytes are not such a value, the schema cannot be used, or fastavro is not installed.
    """
    try:
        import fastavro

        # The compiled reader overflows the C stack on a record that contains itself, and crashes the process.
        from fastavro._read_py import schemaless_reader
    except ImportError:
        raise CannotDecode(_("fastavro is not installed in the console: install vela[avro]")) from None
    source = io.BytesIO(data)
    try:
        names: dict[str, Any] = {}
        schema = fastavro.parse_schema(json.loads(bytes(definition)), names)
        if any(_repeats_nothing(each, names) for each in (schema, *names.values())):
            # With such a schema, a few bytes can stand for billions of values.
            raise CannotDecode(_("the schema has an array or a record of values without content"))
        value = schemaless_reader(source, schema, None)
    except CannotDecode:
        raise
    except Exception as error:
        # fastavro passes on any exception of its reader: EOFError, IndexError, KeyError, struct.error and others.
        raise CannotDecode(f"{type(error).__name__}: {error}") from None
    if source.tell() != len(data):
        raise CannotDecode(_("{left} bytes are left after the record").format(left=len(data) - source.tell()))
    return value


def _repeats_nothing(schema: object, names: _Names) -> bool:
    """Return whether this part of the schema has array items or record fields that are encoded as no bytes.

    Does not follow names: the caller passes each named type too.
    """
    if isinstance(schema, list):
        return any(_repeats_nothing(each, names) for each in schema)
    if not isinstance(schema, dict):
        return False
    inside = [field["type"] for field in schema["fields"]] if _is_record(schema) else []
    if schema.get("type") == "array":
        inside.append(schema["items"])
    if any(_is_empty(each, names) for each in inside):
        return True
    return any(_repeats_nothing(each, names) for each in (*inside, schema.get("values")))


def _is_empty(schema: object, names: _Names) -> bool:
    """Return whether values of this schema are encoded as no bytes. False for a union: it writes a branch number."""
    if isinstance(schema, str):
        schema = names.get(schema, schema)
    if not isinstance(schema, dict):
        return schema == "null"
    if _is_record(schema):
        return not schema["fields"]  # `_repeats_nothing` finds the other empty records, by their fields
    return schema.get("type") == "null" or (schema.get("type") == "fixed" and not schema.get("size"))


def _is_record(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") in ("record", "error")
