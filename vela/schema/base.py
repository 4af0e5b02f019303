"""What a schema is: values to payloads and back, and the description of them that the broker keeps for the topic."""

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
    """The kinds of schemas, with the protocol's numbers. Below zero: never sent."""

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
    """A schema as the broker keeps it."""

    name: str
    schema_type: SchemaType
    definition: bytes = b""  # of JSON and Avro: the Avro definition as JSON text
    properties: Mapping[str, str] = field(default_factory=dict)

    def to_wire(self) -> WireSchema | None:
        """As PRODUCER and SUBSCRIBE carry it; None for bytes, of which the broker is not told."""
        if self.schema_type < 0:
            return None
        return WireSchema(
            name=self.name, type=int(self.schema_type), data=self.definition, properties=self.properties
        )

    @classmethod
    def from_wire(cls, schema: WireSchema) -> SchemaInfo:
        """As GET_SCHEMA's answer brings it. Raises ValueError for a kind of schema that is not known here."""
        return cls(
            name=schema.name,
            schema_type=SchemaType(schema.type),
            definition=schema.data,
            properties=schema.properties,
        )


class Schema(ABC, Generic[T]):
    """How the values of a topic become payloads. Subclass it, with `encode` and `decode`, for one of your own.

    A schema keeps nothing of the values it handled: it may serve any number of producers and consumers, and be used
    from any thread.
    """

    reads_versions: ClassVar[bool] = False
    """Whether a message is read by the definition it was written with: `wants_version` and `add_version` count then."""

    def __init__(
        self,
        record_cls: type[T] | None,
        schema_type: SchemaType,
        schema_definition: Mapping[str, Any] | None,
        schema_name: str,
    ) -> None:
        """`record_cls`: what `encode` takes. `schema_definition`: of JSON and Avro schemas, the Avro definition."""
        self._record_cls = record_cls
        self._schema_info = SchemaInfo(
            name=schema_name,
            schema_type=SchemaType(int(schema_type)),
            # Spaced as Apache's Python client spaces it, "null" for no definition: the same bytes are the same version.
            definition=json.dumps(schema_definition, indent=1).encode(),
        )

    @abstractmethod
    def encode(self, obj: T) -> bytes:
        """The payload. Raises TypeError for a value of another type."""

    @abstractmethod
    def decode(self, data: bytes) -> T:
        """The value of a payload that was written with this same schema."""

    def decode_message(self, msg: Message) -> T:
        """The value of a message, which may have been written with an older version of the schema."""
        return self.decode(msg.data())

    def wants_version(self, topic: str, version: bytes) -> bool:
        """Whether messages of this version cannot be read before `add_version`."""
        return False

    def add_version(self, topic: str, version: bytes, info: SchemaInfo | None) -> None:
        """The definition of a version of the topic's schema, as the broker has it; None: it has none."""

    def schema_info(self) -> SchemaInfo:
        """What is sent to the broker."""
        return self._schema_info

    def _validate_object_type(self, obj: object) -> None:
        if self._record_cls is not None and not isinstance(obj, self._record_cls):
            raise TypeError(f"the schema takes {self._record_cls.__name__}, this is {type(obj).__name__}")

    def __str__(self) -> str:
        return type(self).__name__
