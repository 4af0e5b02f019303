"""Producers of a binary connection: access modes, epochs, throttling, limits, schemas."""

from __future__ import annotations

import asyncio

import pytest

from broker.core.client_identity import ClientIdentity
from broker.core.errors import ProducerBusy, ProducerFenced, TopicTerminated
from broker.core.producers.access import AccessMode
from broker.doors.read_gate import MAX_PENDING_SENDS
from broker.producers.requests import ProducerRequest, ProducerSink
from tests.support import entries
from tests.unit.client.entries import compose, metadata
from tests.unit.doors.fake_broker import FakeBroker, FakeProducer
from tests.unit.doors.wire_client import TOPIC, WireClient, settle
from vela.wire.binary import commands
from vela.wire.binary import enums as wire
from vela.wire.binary.enums import ServerError
from vela.wire.binary.schema import Schema


@pytest.fixture
async def broker() -> FakeBroker:
    return FakeBroker()


@pytest.fixture
async def client(broker: FakeBroker) -> WireClient:
    return WireClient(broker)


def send(sequence_id: int, data: bytes | None = None) -> bytes:
    return b"".join(commands.send(1, sequence_id, entries.single("p", sequence_id) if data is None else data))


async def test_a_waiting_producer_is_answered_twice_and_delays_no_other(
    broker: FakeBroker, client: WireClient
) -> None:
    broker.waiting_modes = {AccessMode.WAIT_FOR_EXCLUSIVE}
    client.tell(
        commands.producer(
            "orders", producer_id=1, request_id=5, name="p", access_mode=wire.AccessMode.WAIT_FOR_EXCLUSIVE
        )
    )
    await settle()
    (queued,) = client.heard()
    assert (queued.producer_success.request_id, queued.producer_success.producer_ready) == (5, False)
    await client.open_producer(2, name="other")
    (producer,) = [each for each in broker.topic("orders").producers.values() if each.name == "p"]
    producer.make_ready(topic_epoch=7)
    (ready,) = client.heard()
    assert (ready.producer_success.request_id, ready.producer_success.producer_ready) == (5, True)
    assert ready.producer_success.topic_epoch == 7


async def test_a_waiting_producer_that_is_fenced_is_refused(broker: FakeBroker, client: WireClient) -> None:
    broker.waiting_modes = {AccessMode.WAIT_FOR_EXCLUSIVE}
    client.tell(
        commands.producer(
            "orders", producer_id=1, request_id=5, name="p", access_mode=wire.AccessMode.WAIT_FOR_EXCLUSIVE
        )
    )
    await settle()
    client.heard()
    (producer,) = broker.topic("orders").producers.values()
    producer.sink.on_producer_closed(ProducerFenced("another took it"))
    (answer,) = client.heard()
    assert (answer.error.request_id, ServerError(answer.error.error)) == (5, ServerError.PRODUCER_FENCED)


async def test_a_higher_epoch_replaces_the_producer_of_the_same_id(
    broker: FakeBroker, client: WireClient
) -> None:
    await client.open_producer()
    (old,) = broker.topic(TOPIC).producers.values()
    client.tell(commands.producer(TOPIC, producer_id=1, request_id=9, name="p", epoch=1))
    await settle()
    assert client.names() == ["PRODUCER_SUCCESS"]
    (new,) = broker.topic(TOPIC).producers.values()
    assert new is not old
    assert not old.is_open
    client.tell(send(0))
    await settle()
    assert client.names() == ["SEND_RECEIPT"]


async def test_a_producer_that_was_closed_before_it_was_open_does_not_keep_its_name(
    broker: FakeBroker, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sinks: list[ProducerSink] = []
    open_producer = broker.open_producer

    async def opened(request: ProducerRequest, identity: ClientIdentity, sink: ProducerSink) -> FakeProducer:
        sinks.append(sink)
        return await open_producer(request, identity, sink)

    monkeypatch.setattr(broker, "open_producer", opened)
    broker.opening.clear()
    client.tell(commands.producer(TOPIC, producer_id=1, request_id=5, name="p"))
    await settle()
    client.tell(commands.close_producer(1, request_id=6))
    (sink,) = sinks
    asked = asyncio.create_task(sink.is_alive())
    await settle()
    assert client.names() == ["SUCCESS"]  # the broker sends no PING
    assert asked.done()
    assert not asked.result()


async def test_reading_stops_while_a_producer_is_throttled(broker: FakeBroker, client: WireClient) -> None:
    await client.open_producer()
    (producer,) = broker.topic(TOPIC).producers.values()
    assert producer.on_throttled is not None
    producer.on_throttled(True)
    assert not client.is_read_from()
    client.tell(send(0))
    await settle()
    assert client.names() == []
    producer.on_throttled(False)
    await settle()
    assert client.is_read_from()
    assert client.names() == ["SEND_RECEIPT"]


async def test_the_topics_own_message_limit_spares_chunks(broker: FakeBroker, client: WireClient) -> None:
    await client.open_producer()
    (producer,) = broker.topic(TOPIC).producers.values()
    producer.max_message_bytes = 3
    client.tell(
        send(0, entries.single("p", 0, b"123")),
        send(1, entries.single("p", 1, b"1234")),
        send(2, entries.chunk("p", 2, 1000, 2000)),
    )
    await settle()
    answers = client.heard()
    assert [each.send_receipt.sequence_id for each in answers if each.HasField("send_receipt")] == [0, 2]
    (refused,) = (each.send_error for each in answers if each.HasField("send_error"))
    assert (refused.sequence_id, ServerError(refused.error)) == (1, ServerError.NOT_ALLOWED_ERROR)
    assert "max_message_bytes" in refused.message


@pytest.mark.parametrize(("highest", "named"), [(None, 5), (0, 5), (7, 7)])
async def test_a_refused_batch_is_named_by_its_highest_sequence_id(
    broker: FakeBroker, client: WireClient, highest: int | None, named: int
) -> None:
    await client.open_producer()
    batch = b"".join(
        commands.send(
            1, 5, entries.batch_without_highest("p", (5, 6, 7)), messages=3, highest_sequence_id=highest
        )
    )
    damaged = b"".join(commands.send(1, 5, b"\x0e\x01damaged", messages=3, highest_sequence_id=highest))
    broker.refuse_sends = ProducerBusy("not now")
    client.tell(batch, damaged)
    await settle()
    at_the_broker, at_the_door = client.heard()
    assert at_the_broker.send_error.sequence_id == named
    assert ServerError(at_the_broker.send_error.error) == ServerError.PRODUCER_BUSY
    assert at_the_door.send_error.sequence_id == named
    assert ServerError(at_the_door.send_error.error) == ServerError.CHECKSUM_ERROR


@pytest.mark.parametrize("is_closed", [False, True])
async def test_a_client_whose_refusals_wait_is_not_read_from(
    client: WireClient, broker: FakeBroker, is_closed: bool
) -> None:
    await client.open_producer()
    broker.commits = False
    client.tell(send(0), send(1, b"\x0e\x01damaged") * MAX_PENDING_SENDS)
    for _ in range(1000):  # the connection has only a part of each turn of the event loop
        await settle()
    assert not client.connection.gate.is_open
    producer = broker.topic("orders").producers["p"]
    if is_closed:
        producer.detach()
        producer.sink.on_producer_closed(None)
        assert client.names() == ["CLOSE_PRODUCER"]
    else:
        producer.commit()
        assert client.names() == ["SEND_RECEIPT", *["SEND_ERROR"] * MAX_PENDING_SENDS]
    assert client.connection.gate.is_open


async def test_an_entry_that_no_client_would_decompress_is_refused(client: WireClient) -> None:
    await client.open_producer()
    limit = 2 * 1024 * 1024
    client.tell(
        send(0, compose(metadata(compression=1, uncompressed_size=limit), b"small")),
        send(1, compose(metadata(compression=1, uncompressed_size=limit + 1), b"small")),
    )
    await settle()
    taken, refused = client.heard()
    assert taken.send_receipt.sequence_id == 0
    assert (refused.send_error.sequence_id, ServerError(refused.send_error.error)) == (
        1,
        ServerError.NOT_ALLOWED_ERROR,
    )
    assert "VELA_MAX_UNCOMPRESSED_BYTES" in refused.send_error.message


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (entries.chunk("p", 1, 0, 2, num_messages_in_batch=1, payload=b"x" * 50), "never a batch"),
        (entries.chunk("p", 1, 0, 2, uuid=None), "uuid"),
        (entries.chunk("p", 1, 2, 2), "numbered from 0"),
        (entries.chunk("p", 1, -1, 2), "numbered from 0"),
    ],
)
async def test_chunks_that_no_client_could_join_are_refused(
    client: WireClient, broker: FakeBroker, data: bytes, why: str
) -> None:
    await client.open_producer()
    client.tell(send(0), send(1, data), send(2, entries.chunk("p", 2, 0, 2)))
    await settle()
    first, refused, third = client.heard()
    assert (first.send_receipt.sequence_id, third.send_receipt.sequence_id) == (0, 2)
    assert (refused.send_error.sequence_id, ServerError(refused.send_error.error)) == (
        1,
        ServerError.NOT_ALLOWED_ERROR,
    )
    assert why in refused.send_error.message
    assert why in str(broker.topic("orders").producers["p"].refusals[0]), "the console shows it"


async def test_schemas_are_stored_and_found(client: WireClient) -> None:
    schema = Schema(name="s", type=2, data=b"{}", properties={})
    client.tell(
        commands.get_schema("orders", request_id=1),
        commands.get_or_create_schema("orders", request_id=2, schema=schema),
    )
    await settle()
    client.tell(commands.get_schema("orders", request_id=3))
    await settle()
    refused, created, found = client.heard()
    assert ServerError(refused.getSchemaResponse.error_code) == ServerError.TOPIC_NOT_FOUND
    version = created.getOrCreateSchemaResponse.schema_version
    assert found.getSchemaResponse.schema_version == version == bytes(8)
    assert (found.getSchemaResponse.schema.name, found.getSchemaResponse.schema.schema_data) == ("s", b"{}")
    client.tell(commands.get_schema("absent", request_id=4), commands.get_schema("a b", request_id=5))
    await settle()
    assert [each.getSchemaResponse.HasField("error_code") for each in client.heard()] == [True, True]


async def test_a_terminated_topic_closes_its_producers_and_refuses_no_send(
    client: WireClient, broker: FakeBroker
) -> None:
    await client.open_producer()
    broker.commits = False
    client.tell(send(0), send(1), send(2))
    producer = broker.topic("orders").producers["p"]
    broker.refuse_sends = TopicTerminated("orders is terminated")
    producer.commit()
    producer.detach()
    producer.sink.on_producer_closed(broker.refuse_sends)
    assert client.names() == ["CLOSE_PRODUCER"]  # Go's client forgets a producer at its first SEND_ERROR
    await client.open_producer()
    assert client.connection.gate.is_open
