"""Schemas for plain values."""

from __future__ import annotations

from vela.schema.base import Schema, SchemaType

__all__ = ["BytesSchema", "StringSchema"]


class BytesSchema(Schema[bytes]):
    """Bytes, which become the payload unchanged. The broker gets no schema."""

    def __init__(self) -> None:
        super().__init__(bytes, SchemaType.BYTES, None, "BYTES")

    def encode(self, obj: bytes) -> bytes:
        """Return `obj` itself. Raises TypeError if it is not bytes."""
        self._validate_object_type(obj)
        return obj

    def decode(self, data: bytes) -> bytes:
        return data


class StringSchema(Schema[str]):
    """Text, in UTF-8."""

    def __init__(self) -> None:
        super().__init__(str, SchemaType.STRING, None, "STRING")

    def encode(self, obj: str) -> bytes:
        """Encode `obj` in UTF-8. Raises TypeError if it is not a str."""
        self._validate_object_type(obj)
        return obj.encode("utf-8")

    def decode(self, data: bytes) -> str:
        """Decode UTF-8. Raises UnicodeDecodeError for other bytes."""
        return data.decode("utf-8")
