"""The schema of a topic, and its versions."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from broker.core.errors import IncompatibleSchema

__all__ = [
    "DELETED",
    "SchemaDefinition",
    "SchemaType",
    "StoredSchema",
    "key_and_value",
    "since_deletion",
    "version_bytes",
    "version_number",
]

_VERSION: Final = struct.Struct(">q")
_SIZE: Final = struct.Struct(">i")


class SchemaType(IntEnum):
    """Pulsar's schema types and their numbers."""

    NONE = 0
    STRING = 1
    JSON = 2
    PROTOBUF = 3
    AVRO = 4
    BOOL = 5
    INT8 = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    FLOAT = 10
    DOUBLE = 11
    DATE = 12
    TIME = 13
    TIMESTAMP = 14
    KEY_VALUE = 15
    INSTANT = 16
    LOCAL_DATE = 17
    LOCAL_TIME = 18
    LOCAL_DATE_TIME = 19
    PROTOBUF_NATIVE = 20
    AUTO_CONSUME = 21
    EXTERNAL = 22


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDefinition:
    """The definition of a schema."""

    type: SchemaType
    data: bytes  # Empty for a primitive type
    name: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)

    def is_same(self, other: SchemaDefinition) -> bool:
        """Return whether both schemas are equivalent, whatever their names."""
        if self.type is not other.type or self.data != other.data:
            return False
        return self.type is not SchemaType.KEY_VALUE or _parts_named(self) == _parts_named(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSchema:
    """One version of a topic's schema."""

    version: int
    schema: SchemaDefinition

    @property
    def is_deletion(self) -> bool:
        """Whether this version marks a deletion."""
        return self.schema.type is SchemaType.NONE


# A deletion is stored as a new version. The older versions stay, because stored messages refer to them.
DELETED: Final = SchemaDefinition(type=SchemaType.NONE, data=b"", name="deleted")


def since_deletion(stored: Sequence[StoredSchema]) -> list[StoredSchema]:
    """Return the versions after the last deletion."""
    last = max((at for at, each in enumerate(stored) if each.is_deletion), default=-1)
    return list(stored[last + 1 :])


def version_bytes(version: int) -> bytes:
    """Encode a version number for clients."""
    return _VERSION.pack(version)


def version_number(data: bytes) -> int:
    """Decode a client's version number. Raises IncompatibleSchema if `data` has the wrong length."""
    if len(data) != _VERSION.size:
        raise IncompatibleSchema(f"a schema version has {_VERSION.size} bytes, not {len(data)}")
    return int(_VERSION.unpack(data)[0])


def key_and_value(schema: SchemaDefinition) -> tuple[SchemaDefinition, SchemaDefinition]:
    """Split a KeyValue schema into its two parts. Raises IncompatibleSchema if a part is not valid."""
    parts: list[SchemaDefinition] = []
    offset = 0
    for part in ("key", "value"):
        if offset + _SIZE.size > len(schema.data):
            raise IncompatibleSchema(f"a KeyValue schema ends before its {part}'s schema")
        # Some clients write the size of an empty schema as -1.
        size = max(0, _SIZE.unpack_from(schema.data, offset)[0])
        offset += _SIZE.size
        if offset + size > len(schema.data):
            raise IncompatibleSchema(f"the {part}'s schema goes beyond its KeyValue schema")
        named = schema.properties.get(f"{part}.schema.type", "NONE").upper()
        type_ = SchemaType.NONE if named == "BYTES" else SchemaType.__members__.get(named)
        if type_ is None:
            raise IncompatibleSchema(f"{part}.schema.type {named} is not a schema type")
        parts.append(SchemaDefinition(type=type_, data=schema.data[offset : offset + size]))
        offset += size
    return parts[0], parts[1]


def _parts_named(schema: SchemaDefinition) -> tuple[str | None, ...]:
    names = ("key.schema.type", "value.schema.type", "kv.encoding.type")
    return tuple(schema.properties.get(name) for name in names)
