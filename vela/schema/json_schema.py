"""Encode records as JSON."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from vela.schema.base import Schema, SchemaType
from vela.schema.record import Record, RecordField, definition_of, filled

__all__ = ["JsonSchema"]

R = TypeVar("R", bound=Record)


class JsonSchema(Schema[R]):
    """A schema for records of one class as JSON objects. Missing fields get defaults; unknown fields are dropped."""

    def __init__(self, record_cls: type[R]) -> None:
        super().__init__(record_cls, SchemaType.JSON, definition_of(record_cls), "JSON")
        self._record_type = record_cls
        self._field = RecordField(record_cls)

    def encode(self, obj: R) -> bytes:
        """Encode a record. Raises TypeError for another class, and UnicodeDecodeError for bytes that are not UTF-8."""
        self._validate_object_type(obj)
        plain = self._field.to_plain(obj, avro=False)
        return json.dumps(plain, separators=(",", ":"), ensure_ascii=False).encode()

    def decode(self, data: bytes) -> R:
        """Decode a record. Raises ValueError if it is not a JSON object, and TypeError for wrong values of fields."""
        values: Any = json.loads(data)
        if not isinstance(values, dict):
            raise ValueError(f"the payload is JSON of the type {type(values).__name__}, not an object")
        return filled(self._record_type, values, avro=False)
