"""Schemas convert values to payloads and describe them to the broker. Names are those of Apache's Python client."""

from __future__ import annotations

from vela.schema.avro_schema import AvroSchema
from vela.schema.base import Schema, SchemaInfo, SchemaType
from vela.schema.fields import (
    Array,
    Boolean,
    Bytes,
    CustomEnum,
    Double,
    Field,
    Float,
    Integer,
    Long,
    Map,
    Null,
    String,
)
from vela.schema.json_schema import JsonSchema
from vela.schema.primitive import BytesSchema, StringSchema
from vela.schema.record import Record

__all__ = [
    "Array",
    "AvroSchema",
    "Boolean",
    "Bytes",
    "BytesSchema",
    "CustomEnum",
    "Double",
    "Field",
    "Float",
    "Integer",
    "JsonSchema",
    "Long",
    "Map",
    "Null",
    "Record",
    "Schema",
    "SchemaInfo",
    "SchemaType",
    "String",
    "StringSchema",
]
