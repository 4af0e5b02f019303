"""Deliveries wait for the schema version that they were written with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.waiting import until
from tests.unit.client.entries import single
from vela.aio.deliveries import schema_gate
from vela.aio.deliveries.schema_gate import SchemaGate
from vela.errors import AuthenticationError, ErrorGettingAuthenticationData, VelaError
from vela.schema.avro_schema import AvroSchema
from vela.schema.base import SchemaType
from vela.wire.binary import replies
from vela.wire.binary.schema import Schema

TOPIC = "persistent://public/default/t"
VERSION = b"\0" * 8
CONNECTION: Any = None


def record(default: object) -> dict[str, object]:
    return {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": default}]}


class Client:
    """A client that answers every request for a schema with this definition."""

    def __init__(self, definition: dict[str, object]) -> None:
        self.definition = definition
        self.failures: list[VelaError] = []

    async def get_schema(self, _topic: str, version: bytes) -> replies.SchemaFound:
        if self.failures:
            raise self.failures.pop()
        schema = Schema(
            name="R", type=SchemaType.AVRO, data=json.dumps(self.definition).encode(), properties={}
        )
        return replies.SchemaFound(request_id=1, schema=schema, version=version)


@pytest.mark.parametrize("default", [3, "not a number"])
async def test_deliveries_come_in_order_even_if_the_definition_cannot_be_used(default: object) -> None:
    delivered: list[int] = []
    client: Any = Client(record(default))

    def deliver(connection: Any, reply: Any) -> None:
        if not gate.keeps_back(connection, reply):
            delivered.append(reply.entry_id)

    gate = SchemaGate(client, TOPIC, AvroSchema(None, record(3)), deliver)
    for entry_id in range(3):
        deliver(CONNECTION, _delivery(entry_id))
    assert delivered == []
    await until(lambda: delivered, "the deliveries")
    assert delivered == [0, 1, 2]


@pytest.mark.parametrize(
    "failure", [AuthenticationError("expired"), ErrorGettingAuthenticationData("no answer")]
)
async def test_a_version_is_asked_for_again_with_another_token(
    failure: VelaError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_gate, "_PAUSE_AFTER_ERROR_S", 0)
    client: Any = Client(record(3))
    client.failures = [failure]
    schema: AvroSchema[Any] = AvroSchema(None, record(4))
    delivered: list[int] = []

    def deliver(connection: Any, reply: Any) -> None:
        if not gate.keeps_back(connection, reply):
            delivered.append(reply.entry_id)

    gate = SchemaGate(client, TOPIC, schema, deliver)
    deliver(CONNECTION, _delivery(0))
    await until(lambda: delivered, "the delivery")
    assert json.loads(schema.written_with(TOPIC, VERSION).definition) == record(3)


async def test_a_new_connection_asks_for_the_same_version_again() -> None:
    client: Any = Client(record(3))
    schema: AvroSchema[Any] = AvroSchema(None, record(3))
    delivered: list[int] = []

    def deliver(connection: Any, reply: Any) -> None:
        if not gate.keeps_back(connection, reply):
            delivered.append(reply.entry_id)

    gate = SchemaGate(client, TOPIC, schema, deliver)
    for entry_id, default in enumerate((3, 4)):  # the topic is deleted, and created again with another schema
        client.definition = record(default)
        deliver(CONNECTION, _delivery(entry_id))
        await until(lambda: len(delivered) == entry_id + 1, "the delivery")  # noqa: B023
        assert json.loads(schema.written_with(TOPIC, VERSION).definition) == record(default)
        gate.close()


def _delivery(entry_id: int) -> Any:
    return replies.Message(1, 1, entry_id, -1, -1, 0, None, None, single(b"\0", schema_version=VERSION))
