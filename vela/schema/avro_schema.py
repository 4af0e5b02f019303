"""Encode records as Avro, and decode them with the schema version of the writer.

Needs the extra `vela[avro]`.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from vela.errors import InvalidConfiguration
from vela.schema.base import Schema, SchemaInfo, SchemaType
from vela.schema.record import Record, RecordField, definition_of

if TYPE_CHECKING:
    from vela.message import Message

__all__ = ["AvroSchema", "named_like"]

R = TypeVar("R")

_logger = logging.getLogger(__name__)


class AvroSchema(Schema[R]):
    """A schema for records of one class, or dictionaries, in Avro's binary form without a header.

    A reader needs the definition with which a payload was written. Consumers fetch it (`add_version`) once for each
    version and connection.
    """

    reads_versions = True

    def __init__(
        self, record_cls: type[R] | None, schema_definition: Mapping[str, Any] | None = None
    ) -> None:
        """Pass a subclass of Record as `record_cls`, or None and a `schema_definition` if values are dictionaries.

        Raises InvalidConfiguration if neither describes the values, or if fastavro is not installed.
        """
        try:
            import fastavro
        except ImportError:
            raise InvalidConfiguration("AvroSchema needs fastavro: install vela[avro]") from None
        self._field: RecordField | None = None
        if record_cls is not None and issubclass(record_cls, Record):
            self._field = RecordField(record_cls)
            definition: Mapping[str, Any] = definition_of(record_cls)
        elif schema_definition is not None:
            definition = schema_definition
        else:
            raise InvalidConfiguration("AvroSchema needs a subclass of Record, or a schema_definition")
        super().__init__(record_cls, SchemaType.AVRO, definition, "AVRO")
        self._avro = fastavro
        self._definition = definition
        self._reader = fastavro.parse_schema(json.loads(json.dumps(definition)))
        self._writers: dict[tuple[str, bytes], Any] = {}
        self._written_with: dict[tuple[str, bytes], SchemaInfo] = {}

    def encode(self, obj: R) -> bytes:
        """Encode a value. Raises TypeError for a value of another class.

        If the definition does not allow the value, raises what fastavro does: ValueError, TypeError or OverflowError.
        """
        self._validate_object_type(obj)
        plain = obj if self._field is None else self._field.to_plain(obj, avro=True)
        if not isinstance(plain, Mapping):
            raise TypeError(
                f"with a definition of your own, values are dictionaries, not {type(obj).__name__}"
            )
        buffer = io.BytesIO()
        self._avro.schemaless_writer(buffer, self._reader, plain)
        return buffer.getvalue()

    def decode(self, data: bytes) -> R:
        """Decode a payload that was written with this definition."""
        return self._decode(data, None)

    def decode_message(self, msg: Message) -> R:
        """Decode with the definition of the message's version.

        If the broker has no such version, decode with this schema's definition.
        """
        return self._decode(
            msg.data(), self._writers.get((_base_topic(msg.topic_name()), msg.schema_version()))
        )

    def add_version(self, topic: str, version: bytes, info: SchemaInfo | None) -> None:
        """Set the broker's definition of a version.

        If the broker has no Avro definition, or fastavro refuses it, this schema's definition is used instead.
        """
        writer = None
        self._written_with.pop((_base_topic(topic), version), None)
        if info is None or info.schema_type is not SchemaType.AVRO:
            _logger.warning(
                "%s has no Avro schema of version %s: decoding with the consumer's schema",
                topic,
                version.hex(),
            )
        else:
            self._written_with[_base_topic(topic), version] = info
            try:
                writer = self._avro.parse_schema(named_like(json.loads(info.definition), self._definition))
            except Exception as error:  # fastavro's errors have no common class
                _logger.warning(
                    "%s: fastavro refuses the schema of version %s, decoding with the consumer's schema: %s",
                    topic,
                    version.hex(),
                    error,
                )
        self._writers[(_base_topic(topic), version)] = writer

    def written_with(self, topic: str, version: bytes) -> SchemaInfo:
        """Return the broker's definition of a version, or this schema's if the broker has none."""
        return self._written_with.get((_base_topic(topic), version), self._schema_info)

    def _decode(self, data: bytes, writer: Any) -> R:
        plain: Any = self._avro.schemaless_reader(io.BytesIO(data), writer or self._reader, self._reader)
        value: R = plain if self._field is None else self._field.from_plain(plain, avro=True)
        return value


def named_like(writer: Any, reader: Mapping[str, Any]) -> Any:
    """Return a writer's definition, with the name from the reader's definition.

    Avro resolves only records of the same name, but the producer's class may have another name.
    """
    if not isinstance(writer, dict) or writer.get("type") != "record":
        return writer
    names = {key: reader[key] for key in ("name", "namespace") if key in reader}
    return {key: value for key, value in writer.items() if key != "namespace"} | names


def _base_topic(topic: str) -> str:
    """Return the topic of a partition, because all partitions share the topic's versions."""
    base, marker, number = topic.rpartition("-partition-")
    return base if marker and number.isdecimal() else topic
