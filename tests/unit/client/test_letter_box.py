"""The producers of a subscription's letters."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from vela.aio.letters import letter_box
from vela.aio.letters.letter_box import LetterBox
from vela.core.producing.options import ProducerOptions
from vela.core.producing.outgoing import Outgoing
from vela.errors import IncompatibleSchema, TopicTerminated, VelaError
from vela.schema import AvroSchema, Schema, SchemaInfo, SchemaType
from vela.schema.primitive import BytesSchema
from vela.wire.letters import DeadLetterPolicy

LETTER = Outgoing(b"x")
TOPIC = "persistent://public/default/t"
REFUSED = b'{"type": "record", "name": "R", "fields": []}'


class FakeProducer:
    """A producer. If there is an `error`, it refuses every letter with that error."""

    def __init__(self, definition: bytes) -> None:
        self.definition = definition
        self.error: VelaError | None = None
        self.letters = 0
        self.is_closed = False

    def send_outgoing(self, _letter: Outgoing, stored: asyncio.Future[Any]) -> None:
        if self.error is None:
            self.letters += 1
            stored.set_result(None)
        else:  # with a real broker, the answer also comes later
            asyncio.get_running_loop().call_soon(stored.set_exception, self.error)

    async def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[FakeProducer]:
    """The producers that were opened."""
    made: list[FakeProducer] = []

    async def open_producer(_client: object, _topic: str, options: ProducerOptions) -> FakeProducer:
        definition = options.schema.schema_info().definition
        if definition == REFUSED:
            raise IncompatibleSchema("an earlier schema")
        made.append(FakeProducer(definition))
        return made[-1]

    monkeypatch.setattr(letter_box, "open_producer", open_producer)
    return made


def box_of(schema: Schema[Any]) -> LetterBox:
    client: Any = None
    policy = DeadLetterPolicy(max_redeliver_count=1, topic="persistent://public/default/dead")
    box = LetterBox(client, policy, subscription="s", on_ack_timeout=False, schema=schema)
    box.open()
    return box


async def test_a_producer_that_has_failed_for_ever_is_replaced(opened: list[FakeProducer]) -> None:
    box = box_of(BytesSchema())

    async def send() -> None:
        await box.send_dead(LETTER, topic=TOPIC, version=b"", consumer_name="c")

    await send()
    opened[0].error = TopicTerminated("terminated")
    failed = await asyncio.gather(send(), send(), return_exceptions=True)
    assert [type(each) for each in failed] == [TopicTerminated, TopicTerminated]
    await asyncio.gather(send(), send())
    await box.close(1)
    assert [each.letters for each in opened] == [1, 2]
    assert all(each.is_closed for each in opened)


def described(definition: bytes) -> SchemaInfo:
    return SchemaInfo(name="AVRO", schema_type=SchemaType.AVRO, definition=definition)


async def test_a_letter_has_the_schema_that_wrote_its_message(opened: list[FakeProducer]) -> None:
    fields = [{"name": "number", "type": "long"}, {"name": "note", "type": "string", "default": ""}]
    schema: AvroSchema[Any] = AvroSchema(None, {"type": "record", "name": "R", "fields": fields})
    earlier = json.dumps({"type": "record", "name": "R", "fields": fields[:1]}).encode()
    schema.add_version(TOPIC, b"\1", described(earlier))
    schema.add_version(TOPIC, b"\2", schema.schema_info())
    box = box_of(schema)
    for version in (b"\1", b"\2", b"\1", b""):
        await box.send_dead(LETTER, topic=f"{TOPIC}-partition-0", version=version, consumer_name="c")
    await box.close(1)
    assert {each.definition: each.letters for each in opened} == {
        earlier: 2,
        schema.schema_info().definition: 2,
    }
    assert all(each.is_closed for each in opened)


async def test_a_letter_whose_schema_is_refused_gets_that_of_the_consumer(
    opened: list[FakeProducer], caplog: pytest.LogCaptureFixture
) -> None:
    schema: AvroSchema[Any] = AvroSchema(None, {"type": "record", "name": "S", "fields": []})
    schema.add_version(TOPIC, b"\1", described(REFUSED))
    box = box_of(schema)
    for _ in range(2):
        await box.send_dead(LETTER, topic=TOPIC, version=b"\1", consumer_name="c")
    assert [(each.definition, each.letters) for each in opened] == [(schema.schema_info().definition, 2)]
    assert caplog.text.count("an earlier schema") == 1
