"""Schemas of plain values."""

from __future__ import annotations

from vela.schema.base import Schema, SchemaType

__all__ = ["BytesSchema", "StringSchema"]


class BytesSchema(Schema[bytes]):
    """Payloads as they are. The broker is told of no schema."""

    def __init__(self) -> None:
        super().__init__(bytes, SchemaType.BYTES, None, "BYTES")

    def encode(self, obj: bytes) -> bytes:
        """`obj` itself. Raises TypeError when it is not bytes."""
        self._validate_object_type(obj)
        return obj

    def decode(self, data: bytes) -> bytes:
        """`data` itself."""
        return data


class StringSchema(Schema[str]):
    """Text, in UTF-8."""

    def __init__(self) -> None:
        super().__init__(str, SchemaType.STRING, None, "STRING")

    def encode(self, obj: str) -> bytes:
        """UTF-8. Raises TypeError when it is not a str."""
        self._validate_object_type(obj)
        return obj.encode("utf-8")

    def decode(self, data: bytes) -> str:
        """Raises UnicodeDecodeError for bytes that are not UTF-8."""
        return data.decode("utf-8")
