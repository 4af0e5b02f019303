"""Schemas on a binary connection: GET_SCHEMA and GET_OR_CREATE_SCHEMA, and both shapes of a schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.errors import IncompatibleSchema
from broker.core.schemas.schema import SchemaDefinition, SchemaType
from broker.core.topic_name import TopicName
from broker.doors.server_errors import server_error
from vela.wire.binary import events

if TYPE_CHECKING:
    from broker.core.errors import BrokerError
    from broker.doors.binary.connection import BinaryConnection

__all__ = ["SchemaAnswers", "definition_of"]


def definition_of(schema: events.Schema) -> SchemaDefinition:
    """A client's schema in the broker's terms. Raises IncompatibleSchema for a type that the protocol does not have."""
    try:
        type_ = SchemaType(schema.type)
    except ValueError:
        raise IncompatibleSchema(f"{schema.type} is no type of schema") from None
    return SchemaDefinition(type=type_, data=schema.data, name=schema.name, properties=schema.properties)


class SchemaAnswers:
    """Answers for one connection."""

    def __init__(self, connection: BinaryConnection) -> None:
        self._connection = connection

    def on_get_schema(self, event: events.GetSchema) -> None:
        """A version, or the latest one."""
        self._connection.run(
            event,
            self._get_schema(event),
            lambda error: self._refuse(event.request_id, error, creating=False),
        )

    async def _get_schema(self, event: events.GetSchema) -> None:
        topic = TopicName.parse(event.topic)
        schema, version = await self._connection.broker.get_schema(topic, event.version)
        answer = events.Schema(
            name=schema.name, type=int(schema.type), data=schema.data, properties=schema.properties
        )
        self._connection.engine.send_schema(event.request_id, answer, version)

    def on_get_or_create_schema(self, event: events.GetOrCreateSchema) -> None:
        """Answer with the version of a schema, which is empty for "no schema"."""
        self._connection.run(
            event,
            self._get_or_create_schema(event),
            lambda error: self._refuse(event.request_id, error, creating=True),
        )

    async def _get_or_create_schema(self, event: events.GetOrCreateSchema) -> None:
        topic = TopicName.parse(event.topic)
        version = await self._connection.broker.get_or_create_schema(topic, definition_of(event.schema))
        self._connection.engine.send_schema_version(event.request_id, version)

    def _refuse(self, request_id: int, error: BrokerError, *, creating: bool) -> None:
        self._connection.engine.send_schema_refused(
            request_id, server_error(error), str(error), creating=creating
        )
