"""Schemas: how values become payloads, and what the broker is told about them. Names are Apache's Python client's."""

from __future__ import annotations

from vela.schema.base import Schema, SchemaInfo, SchemaType
from vela.schema.primitive import BytesSchema, StringSchema

__all__ = ["BytesSchema", "Schema", "SchemaInfo", "SchemaType", "StringSchema"]
