"""One binary connection and its producers against a broker in memory: order of answers, back-pressure."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.core.errors import NotAllowed, PersistenceFailed
from broker.core.schemas.schema import SchemaDefinition, SchemaType
from broker.doors.read_gate import MAX_PENDING_REQUESTS, MAX_PENDING_SENDS
from broker.log.sends import SendRequest
from tests.support.raw_pulsar import watch_topic_list
from tests.unit.doors.binary.frames import NO_REQUEST, entry, send
from tests.unit.doors.fake_broker import FakeBroker
from tests.unit.doors.wire_client import TOPIC, WireClient, settle
from vela.wire.binary import commands
from vela.wire.binary.commands.connection import frame_of
from vela.wire.binary.enums import ServerError, SubType
from vela.wire.entry import OutgoingMessage, encode_batch, encode_single
from vela.wire.pb import vela_pulsar_pb2 as pb
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand


def corrupted(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


async def test_a_broker_that_is_not_ready_says_so_and_closes(broker: FakeBroker) -> None:
    broker.ready = (False, "waiting for the lock")
    client = WireClient(broker, connect=False)
    client.tell(commands.connect(client_version="test", protocol_version=21))
    (answer,) = client.heard()
    assert ServerError(answer.error.error) == ServerError.SERVICE_NOT_READY
    assert answer.error.request_id == NO_REQUEST
    assert client.is_closed()


async def test_lookup_connects_to_the_advertised_address_through_the_service_url(client: WireClient) -> None:
    client.tell(commands.lookup("orders", request_id=3), commands.lookup("a/b", request_id=4))
    first, second = client.heard()
    assert first.lookupTopicResponse.brokerServiceUrl == client.broker.settings.advertised_url
    assert first.lookupTopicResponse.proxy_through_service_url
    assert first.lookupTopicResponse.authoritative
    assert ServerError(second.lookupTopicResponse.error) == ServerError.INVALID_TOPIC_NAME


async def test_partition_metadata_of_known_and_absent_topics_is_answered(client: WireClient) -> None:
    client.broker.partitions["persistent://public/default/parts"] = 3
    client.tell(commands.partition_metadata("parts", request_id=1))
    client.tell(commands.partition_metadata("absent", request_id=2))
    await settle()
    first, second = client.heard()
    assert first.partitionMetadataResponse.partitions == 3
    assert ServerError(second.partitionMetadataResponse.error) == ServerError.TOPIC_NOT_FOUND


async def test_receipts_echo_both_sequence_ids_in_the_order_of_the_sends(client: WireClient) -> None:
    await client.open_producer()
    batch = encode_batch(
        [OutgoingMessage(payload=b"a"), OutgoingMessage(payload=b"b")],
        producer_name="p",
        sequence_id=5,
        publish_time_ms=1,
    )
    client.tell(send(4), b"".join(commands.send(1, 5, batch, messages=2, highest_sequence_id=6)))
    await settle()
    receipts = [command.send_receipt for command in client.heard()]
    assert [(r.sequence_id, r.highest_sequence_id, r.message_id.entryId) for r in receipts] == [
        (4, 0, 0),
        (5, 6, 1),
    ]
    assert [e.messages for e in client.broker.topic("orders").entries] == [1, 2]
    assert len(client.link.writes) == 3  # CONNECTED, PRODUCER_SUCCESS, and both receipts in one write


async def test_a_refused_send_waits_for_the_receipts_before_it(client: WireClient) -> None:
    client.broker.commits = False
    await client.open_producer()
    client.tell(send(0), send(1, corrupted(entry(1))), send(2))
    assert client.heard() == []
    client.broker.topic("orders").producers["p"].commit()
    answers = client.heard()
    assert [BaseCommand.Type.Name(a.type) for a in answers] == ["SEND_RECEIPT", "SEND_ERROR", "SEND_RECEIPT"]
    assert ServerError(answers[1].send_error.error) == ServerError.CHECKSUM_ERROR
    assert answers[1].send_error.sequence_id == 1
    assert len(client.broker.topic("orders").entries) == 2


async def test_a_send_that_the_topic_refuses_at_once_waits_for_the_receipts_before_it(
    client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.broker.commits = False
    await client.open_producer()
    producer = client.broker.topic("orders").producers["p"]
    accept = producer.send

    def refuse_or_accept(request: SendRequest) -> None:
        if request.sequence_id == 1:
            producer.sink.on_send_failed(request, NotAllowed("the delay is too long"))
        else:
            accept(request)

    monkeypatch.setattr(producer, "send", refuse_or_accept)
    client.tell(send(0), send(1), send(2), send(3, corrupted(entry(3))))
    assert client.heard() == []
    producer.commit()
    assert client.names() == ["SEND_RECEIPT", "SEND_ERROR", "SEND_RECEIPT", "SEND_ERROR"]
    client.tell(send(1))
    await settle()
    assert client.names() == ["SEND_ERROR"]


async def test_metadata_that_is_not_protobuf_fails_that_message_only(client: WireClient) -> None:
    from vela.wire.checksum import with_checksum

    await client.open_producer()
    client.tell(send(0, with_checksum(b"\x00\x00\x00\x02\xff\xffpayload")), send(1))
    await settle()
    first, second = client.heard()
    assert ServerError(first.send_error.error) == ServerError.CHECKSUM_ERROR
    assert second.send_receipt.sequence_id == 1


async def test_a_payload_above_the_limit_is_refused_and_one_at_the_limit_is_not() -> None:
    client = WireClient(FakeBroker(max_message_bytes=2000))
    await client.open_producer()
    client.tell(send(0, entry(0, b"x" * 2000)), send(1, entry(1, b"x" * 2001)))
    await settle()
    second, first = sorted(client.heard(), key=lambda command: command.type)[::-1]
    assert {first.type, second.type} == {BaseCommand.SEND_RECEIPT, BaseCommand.SEND_ERROR}
    refused = first if first.type == BaseCommand.SEND_ERROR else second
    assert refused.send_error.sequence_id == 1
    assert ServerError(refused.send_error.error) == ServerError.NOT_ALLOWED_ERROR
    assert "VELA_MAX_MESSAGE_BYTES" in refused.send_error.message


async def test_an_entry_that_no_frame_of_a_delivery_has_room_for_is_refused() -> None:
    client = WireClient(FakeBroker(max_message_bytes=2000))
    await client.open_producer()
    for sequence_id, size_bytes in ((0, 12_000), (1, 12_150)):
        data = encode_single(
            producer_name="p",
            sequence_id=sequence_id,
            publish_time_ms=1,
            payload=b"x",
            properties={"x": "y" * size_bytes},
        )
        client.tell(send(sequence_id, data))
        await settle()
    stored, refused = client.heard()
    assert stored.send_receipt.sequence_id == 0
    assert ServerError(refused.send_error.error) == ServerError.NOT_ALLOWED_ERROR
    assert "the limit is 12112" in refused.send_error.message


async def test_a_send_that_cannot_be_stored_is_refused_and_taken_off_the_account(client: WireClient) -> None:
    client.broker.refuse_sends = PersistenceFailed("disk full")
    await client.open_producer()
    client.tell(send(0))
    await settle()
    (answer,) = client.heard()
    assert ServerError(answer.send_error.error) == ServerError.PERSISTENCE_ERROR
    assert client.connection.gate.is_open


async def test_sends_to_a_producer_that_was_just_closed_are_dropped_and_to_an_unknown_one_not(
    client: WireClient,
) -> None:
    await client.open_producer()
    producer = client.broker.topic("orders").producers["p"]
    producer.sink.on_producer_closed(None)
    (closed,) = client.heard()
    assert closed.close_producer.request_id == NO_REQUEST
    client.tell(send(0))
    assert not client.is_closed()
    client.tell(send(0, producer_id=9))
    assert client.is_closed()
    assert client.names() == ["ERROR"]


async def test_reading_stops_above_a_thousand_sends_without_receipt_and_goes_on_at_half(
    client: WireClient,
) -> None:
    client.broker.commits = False
    await client.open_producer()
    producer = client.broker.topic("orders").producers["p"]
    client.tell(*[send(i) for i in range(MAX_PENDING_SENDS + 50)])
    assert not client.is_read_from()
    assert len(producer.waiting) == MAX_PENDING_SENDS + 1
    client.tell(commands.ping())  # commands that were read already wait as well
    assert client.heard() == []
    producer.commit()
    await settle()
    assert client.is_read_from()
    assert len(producer.waiting) == 49
    assert client.names()[-1] == "PONG"


async def test_reading_stops_above_four_mebibytes_without_receipt() -> None:
    client = WireClient(FakeBroker(max_message_bytes=5 * 1024 * 1024))
    client.broker.commits = False
    await client.open_producer()
    for sequence_id in range(5):
        client.tell(send(sequence_id, entry(sequence_id, bytes(1024 * 1024))))
    assert not client.is_read_from()
    assert len(client.broker.topic("orders").producers["p"].waiting) == 4


async def test_reading_stops_while_too_many_requests_are_under_way(client: WireClient) -> None:
    client.broker.opening.clear()
    frames = [
        commands.producer("orders", producer_id=i, request_id=i, name=f"p{i}")
        for i in range(MAX_PENDING_REQUESTS + 10)
    ]
    client.tell(*frames)
    await settle(passes=1000)  # each turn of the loop starts only a few requests of a connection
    assert not client.connection.gate.is_open
    client.broker.opening.set()
    await settle(passes=1000)
    assert client.is_read_from()
    assert client.names().count("PRODUCER_SUCCESS") == MAX_PENDING_REQUESTS + 10


async def test_a_peer_that_asks_without_reading_the_answers_is_not_read_from(client: WireClient) -> None:
    client.link.unsent_bytes = 5 * 1024 * 1024
    client.tell(commands.ping())
    assert not client.is_read_from()
    client.link.unsent_bytes = 0
    client.connection.writable_again()
    await settle()
    assert client.is_read_from()


@pytest.mark.parametrize(
    "ask",
    [
        lambda number: commands.get_schema(TOPIC, request_id=number),
        lambda number: commands.get_topics_of_namespace("public/default", request_id=number),
        lambda number: watch_topic_list("public/default", ".*", request_id=number, watcher_id=number),
    ],
    ids=["schema", "list", "watch"],
)
async def test_large_answers_wait_until_the_peer_has_read_earlier_ones(
    client: WireClient, ask: Callable[[int], bytes]
) -> None:
    client.broker.schemas[TOPIC] = [SchemaDefinition(type=SchemaType.STRING, data=b"")]
    client.link.unsent_bytes = 5 * 1024 * 1024
    client.tell(*map(ask, range(3)))  # all requests are under way before the first answer
    await settle()
    assert len(client.names()) == 1
    client.link.unsent_bytes = 0
    client.connection.writable_again()
    await settle()
    assert len(client.names()) == 2


async def test_a_second_producer_of_the_same_id_answers_by_the_state_of_the_first(client: WireClient) -> None:
    client.broker.opening.clear()
    twice = commands.producer("orders", producer_id=1, request_id=1, name="p")
    client.tell(twice, twice)
    (busy,) = client.heard()
    assert ServerError(busy.error.error) == ServerError.SERVICE_NOT_READY
    client.broker.opening.set()
    await settle()
    assert client.names() == ["PRODUCER_SUCCESS"]
    client.tell(twice)
    assert client.names() == ["PRODUCER_SUCCESS"]


async def test_an_impossible_name_fails_that_request_only(client: WireClient) -> None:
    client.tell(commands.subscribe("a/b", "s", type=SubType.SHARED, consumer_id=1, request_id=5))
    client.tell(commands.producer("a/b", producer_id=1, request_id=6))
    await settle()
    answers = {command.error.request_id: ServerError(command.error.error) for command in client.heard()}
    assert answers == dict.fromkeys((5, 6), ServerError.INVALID_TOPIC_NAME)
    assert not client.is_closed()
    await client.subscribe()


async def test_an_unavailable_feature_is_refused_by_name(client: WireClient) -> None:
    body = pb.CommandProducer(topic="orders", producer_id=1, request_id=1, txn_enabled=True)
    client.tell(frame_of(pb.BaseCommand(type=pb.BaseCommand.PRODUCER, producer=body)))
    await settle()
    (answer,) = client.heard()
    assert ServerError(answer.error.error) == ServerError.NOT_ALLOWED_ERROR
    assert "transactions" in answer.error.message
