"""Read the schemas of topics, and decode values of primitive schemas."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

from django.utils.translation import gettext as _

from console.messages.decoders.failures import CannotDecode
from console.queries.database import fetch_one

__all__ = ["SchemaAt", "decode_primitive", "schema_of"]

_VERSION: Final = struct.Struct(">q")
_NAMES: Final = (
    "none", "string", "JSON", "Protobuf", "Avro", "boolean", "int8", "int16", "int32", "int64", "float", "double",
    "date", "time", "timestamp", "key and value", "instant", "local date", "local time", "local date and time",
    "Protobuf",
)  # fmt: skip
_FORMATS: Final = {"boolean": ">?", "int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q", "float": ">f",
                   "double": ">d", "date": ">q", "time": ">q", "timestamp": ">q"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaAt:
    """One version of a topic's schema."""

    version: int
    type: int
    name: str
    data: bytes

    @property
    def kind(self) -> str:
        """The name of the type."""
        return _NAMES[self.type] if 0 <= self.type < len(_NAMES) else f"type {self.type}"

    @property
    def words(self) -> str:
        """The type and version as a page shows them."""
        return _("{kind} schema, version {version}").format(kind=self.kind, version=self.version)

    @property
    def is_avro(self) -> bool:
        """Whether payloads are Avro."""
        return self.kind == "Avro"

    @property
    def is_json(self) -> bool:
        """Whether payloads are JSON."""
        return self.kind == "JSON"


def schema_of(topic: str, version: bytes) -> SchemaAt | None:
    """Return the given version of a topic's schema, or the newest version if `version` is empty.

    `topic` is a full name. For a partition, pass its partitioned topic.
    """
    number = _VERSION.unpack(version)[0] if len(version) == _VERSION.size else None
    return fetch_one(SchemaAt, "topic", "schema", {"topic": topic, "version": number})


def decode_primitive(data: bytes, schema: SchemaAt) -> Any:
    """Decode a value of a primitive schema. Raises CannotDecode for other schemas and for invalid values."""
    if schema.kind == "string":
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise CannotDecode(_("it is not UTF-8 at byte {at}").format(at=error.start)) from None
    form = _FORMATS.get(schema.kind)
    if form is None:
        raise CannotDecode(_("this page has no decoder for such schemas"))
    try:
        return struct.unpack(form, data)[0]
    except struct.error:
        raise CannotDecode(
            _("it has {bytes} bytes, but a value has {needed}").format(
                bytes=len(data), needed=struct.calcsize(form)
            )
        ) from None
