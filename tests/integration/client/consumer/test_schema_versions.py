"""Deliveries that wait until the client knows the schema version that they were written with."""

from __future__ import annotations

from broker.doors.binary.wire import events
from tests.integration.client.consumer.desk import Desk
from tests.support.scripted_peer import silent
from tests.support.waiting import until
from tests.unit.client.entries import single
from vela.schema import AvroSchema, Record, String

VERSION = bytes(8)


class Order(Record):
    article = String()


async def test_a_delivery_kept_back_is_forgotten_when_the_consumer_subscribes_again(desk: Desk) -> None:
    schema = AvroSchema(Order)
    entry = single(schema.encode(Order(article="lamp")), schema_version=VERSION)
    desk.peer.on(events.GetSchema, silent)
    consumer = await desk.subscribe(schema=schema, receiver_queue_size=10)
    await desk.settled(10)
    desk.deliver(entry)
    await until(lambda: desk.peer.count(events.GetSchema) == 1, "the question for the schema")
    desk.link.engine.send_close_consumer(desk.consumer_id)  # as after an operator's reset
    desk.link.flush()
    await desk.resubscribed(2)
    desk.deliver(entry, entry_id=0)
    await until(lambda: desk.peer.count(events.GetSchema) == 2, "the same question")
    wire = schema.schema_info().to_wire()
    assert wire is not None
    for question in desk.peer.of(events.GetSchema):
        desk.link.engine.send_schema(question.request_id, wire, VERSION)
    desk.link.flush()
    message = await consumer.receive(5_000)
    assert message.value() == Order(article="lamp")
    await desk.fence(consumer)
    assert consumer.counters.messages_delivered == 1
    assert desk.permits == 9
