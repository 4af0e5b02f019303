"""Decode Avro payloads."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from console.messages.decoders.failures import CannotDecode

__all__ = ["decode_avro"]

_Names = Mapping[str, object]


def decode_avro(data: bytes, definition: bytes) -> Any:
    """Decode one value with its schema.

    Raises CannotDecode if the bytes or the schema are wrong, or if fastavro is not installed.
    """
    try:
        import fastavro

        # The compiled reader crashes the process on a record that contains itself.
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
        # fastavro can raise any exception here, such as IndexError or struct.error.
        raise CannotDecode(f"{type(error).__name__}: {error}") from None
    if source.tell() != len(data):
        raise CannotDecode(_("{left} bytes are left after the record").format(left=len(data) - source.tell()))
    return value


def _repeats_nothing(schema: object, names: _Names) -> bool:
    """Return whether the schema has array items or record fields that take no bytes.

    For a type name, the function returns False. Therefore the caller must also check each named type.
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
    if isinstance(schema, str):
        schema = names.get(schema, schema)
    # A list stands for a union, whose values always begin with a branch number.
    if not isinstance(schema, dict):
        return schema == "null"
    if _is_record(schema):
        return not schema["fields"]  # If the record has fields, `_repeats_nothing` checks them
    return schema.get("type") == "null" or (schema.get("type") == "fixed" and not schema.get("size"))


def _is_record(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") in ("record", "error")
