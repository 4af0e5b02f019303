"""The base of schemas, which convert values to payloads and back and describe them to the broker."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from vela.named_numbers import NamedNumber
from vela.wire.binary.schema import Schema as WireSchema

if TYPE_CHECKING:
    from vela.message import Message

__all__ = ["Schema", "SchemaInfo", "SchemaType"]

T = TypeVar("T")


class SchemaType(NamedNumber):
    """The kinds of schemas, with the protocol's numbers. Numbers below 0 are never sent."""

    BYTES = -1
    NONE = 0
    STRING = 1
    JSON = 2
    PROTOBUF = 3
    AVRO = 4
    INT8 = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    FLOAT = 10
    DOUBLE = 11
    KEY_VALUE = 15
    PROTOBUF_NATIVE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaInfo:
    """A schema as the broker stores it."""

    name: str
    schema_type: SchemaType
    definition: bytes = b""  # for JSON and Avro, the Avro definition as JSON text
    properties: Mapping[str, str] = field(default_factory=dict)

    def to_wire(self) -> WireSchema | None:
        """Return the schema as PRODUCER and SUBSCRIBE carry it; None for BytesSchema, which is not sent."""
        if self.schema_type < 0:
            return None
        return WireSchema(
            name=self.name, type=int(self.schema_type), data=self.definition, properties=self.properties
        )

    @classmethod
    def from_wire(cls, schema: WireSchema) -> SchemaInfo:
        """Read a schema from the answer to GET_SCHEMA. Raises ValueError for an unknown kind of schema."""
        return cls(
            name=schema.name,
            schema_type=SchemaType(schema.type),
            definition=schema.data,
            properties=schema.properties,
        )


class Schema(ABC, Generic[T]):
    """Converts the values of a topic to payloads and back. For your own schema, subclass it with `encode` and `decode`.

    A schema keeps no values, so several producers, consumers and threads may share it.
    """

    reads_versions: ClassVar[bool] = False
    """Whether messages are decoded with the writer's definition, which `add_version` sets beforehand."""

    def __init__(
        self,
        record_cls: type[T] | None,
        schema_type: SchemaType,
        schema_definition: Mapping[str, Any] | None,
        schema_name: str,
    ) -> None:
        """`record_cls`: the class that `encode` takes. `schema_definition`: for JSON and Avro, the Avro definition."""
        self._record_cls = record_cls
        self._schema_info = SchemaInfo(
            name=schema_name,
            schema_type=SchemaType(int(schema_type)),
            # Write spaces and "null" as Apache's Python client does: the broker finds a version by its exact bytes.
            definition=json.dumps(schema_definition, indent=1).encode(),
        )

    @abstractmethod
    def encode(self, obj: T) -> bytes:
        """Return the payload of a value. Raises TypeError for a value of another type."""

    @abstractmethod
    def decode(self, data: bytes) -> T:
        """Return the value of a payload that was written with this schema."""

    def decode_message(self, msg: Message) -> T:
        """Return the value of a message, which may have been written with another version of the schema."""
        return self.decode(msg.data())

    def add_version(self, topic: str, version: bytes, info: SchemaInfo | None) -> None:
        """Set the broker's definition of a version; None = the broker has none."""

    def written_with(self, topic: str, version: bytes) -> SchemaInfo:
        """Return the schema that messages of this version were written with, or this schema if that is not known."""
        return self._schema_info

    def schema_info(self) -> SchemaInfo:
        """Return the description for the broker."""
        return self._schema_info

    def _validate_object_type(self, obj: object) -> None:
        if self._record_cls is not None and not isinstance(obj, self._record_cls):
            raise TypeError(f"the schema takes {self._record_cls.__name__}, not {type(obj).__name__}")

    def __str__(self) -> str:
        return type(self).__name__
