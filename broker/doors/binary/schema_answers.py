"""Answer GET_SCHEMA and GET_OR_CREATE_SCHEMA on a binary connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.topic_name import TopicName
from broker.doors.binary.requests import definition_of
from broker.doors.server_errors import server_error
from vela.wire.binary.schema import Schema

if TYPE_CHECKING:
    from broker.core.errors import BrokerError
    from broker.doors.binary.request_runner import RequestRunner
    from broker.doors.binary.wire import events
    from broker.doors.binary.wire.engine import ServerEngine
    from broker.doors.ports import SchemasPort

__all__ = ["SchemaAnswers"]


class SchemaAnswers:
    """Answers the schema requests of one connection."""

    def __init__(self, broker: SchemasPort, engine: ServerEngine, requests: RequestRunner) -> None:
        self._broker = broker
        self._engine = engine
        self._requests = requests

    def on_get_schema(self, event: events.GetSchema) -> None:
        """Answer with the schema version that the client names, or with the latest version."""
        self._requests.run(
            event,
            self._get_schema(event),
            lambda error: self._refuse(event.request_id, error, creating=False),
        )

    async def _get_schema(self, event: events.GetSchema) -> None:
        topic = TopicName.parse(event.topic)
        schema, version = await self._broker.get_schema(topic, event.version)
        await self._requests.room()
        answer = Schema(
            name=schema.name, type=int(schema.type), data=schema.data, properties=schema.properties
        )
        self._engine.send_schema(event.request_id, answer, version)

    def on_get_or_create_schema(self, event: events.GetOrCreateSchema) -> None:
        """Store the schema if it is new. Answer with its version."""
        self._requests.run(
            event,
            self._get_or_create_schema(event),
            lambda error: self._refuse(event.request_id, error, creating=True),
        )

    async def _get_or_create_schema(self, event: events.GetOrCreateSchema) -> None:
        topic = TopicName.parse(event.topic)
        version = await self._broker.get_or_create_schema(topic, definition_of(event.schema))
        self._engine.send_schema_version(event.request_id, version)

    def _refuse(self, request_id: int, error: BrokerError, *, creating: bool) -> None:
        self._engine.send_schema_refused(request_id, server_error(error), str(error), creating=creating)
