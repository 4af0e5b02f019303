"""One binary connection against a broker in memory: order of answers, refusals, back-pressure, the end."""

from __future__ import annotations

import logging

import pytest

from broker.core.errors import PersistenceFailed
from broker.core.position import Position
from broker.doors.read_gate import MAX_PENDING_REQUESTS, MAX_PENDING_SENDS
from tests.unit.doors.fake_broker import FakeBroker
from tests.unit.doors.wire_client import TOPIC, WireClient, settle
from vela.wire.binary import commands
from vela.wire.binary.commands.connection import frame_of
from vela.wire.binary.enums import InitialPosition, ServerError, SubType
from vela.wire.entry import OutgoingMessage, encode_batch, encode_single
from vela.wire.message_id import MessageId
from vela.wire.pb import vela_pulsar_pb2 as pb
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand, CommandAck

NO_REQUEST = 2**64 - 1


def entry(sequence_id: int, payload: bytes = b"x", *, key: str | None = None) -> bytes:
    return encode_single(
        producer_name="p", sequence_id=sequence_id, publish_time_ms=1, payload=payload, key=key
    )


def send(sequence_id: int, data: bytes | None = None, *, producer_id: int = 1) -> bytes:
    return b"".join(commands.send(producer_id, sequence_id, entry(sequence_id) if data is None else data))


def corrupted(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.fixture
async def broker() -> FakeBroker:
    return FakeBroker()


@pytest.fixture
async def client(broker: FakeBroker) -> WireClient:
    return WireClient(broker)


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


async def test_partition_metadata_of_known_and_absent_topics(client: WireClient) -> None:
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
    assert len(client.link.writes) == 3  # CONNECTED, PRODUCER_SUCCESS, and both receipts in one


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
    client.tell(commands.ping())  # what had been read already waits as well
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
    await settle()
    assert not client.is_read_from()
    client.broker.opening.set()
    await settle()
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


async def test_what_is_not_available_is_refused_by_name(client: WireClient) -> None:
    body = pb.CommandProducer(topic="orders", producer_id=1, request_id=1, txn_enabled=True)
    client.tell(frame_of(pb.BaseCommand(type=pb.BaseCommand.PRODUCER, producer=body)))
    await settle()
    (answer,) = client.heard()
    assert ServerError(answer.error.error) == ServerError.NOT_ALLOWED_ERROR
    assert "transactions" in answer.error.message


@pytest.mark.row("S1.9", "S1.13")
async def test_entries_go_out_untouched_with_their_ack_set_in_one_write(
    client: WireClient,
) -> None:
    await client.open_producer()
    await client.subscribe()
    batch = encode_batch(
        [OutgoingMessage(payload=b"%d" % i) for i in range(3)],
        producer_name="p",
        sequence_id=0,
        publish_time_ms=1,
    )
    client.tell(send(0, batch), send(3))
    await settle()
    client.heard()
    client.tell(commands.ack(1, [(1, 0, 0b101)]), commands.flow(1, 10))
    writes = len(client.link.writes)
    first, second = client.heard()
    assert writes == len(client.link.writes)
    assert list(first.message.ack_set) == [0b101]
    assert first.message.redelivery_count == 0
    assert second.message.message_id.entryId == 1
    assert client.link.writes[-1].endswith(entry(3))
    assert batch in client.link.writes[-1]


async def test_a_consumer_whose_peer_does_not_read_gets_nothing_more_until_it_does(
    client: WireClient,
) -> None:
    await client.open_producer()
    await client.subscribe()
    client.link.writable = False
    client.tell(send(0), commands.flow(1, 10))
    await settle()
    assert client.names() == ["SEND_RECEIPT"]
    client.link.writable = True
    client.connection.writable_again()
    assert client.names() == ["MESSAGE"]


async def test_acks_are_answered_only_when_asked_with_what_was_wrong(client: WireClient) -> None:
    await client.open_producer()
    await client.subscribe()
    client.tell(send(0), commands.flow(1, 1))
    await settle()
    client.heard()
    client.tell(commands.ack(1, [(1, 0, None)]))
    assert client.heard() == []
    client.tell(commands.ack(1, [(1, 0, None)], request_id=5), commands.ack(1, [(1, 99, None)], request_id=6))
    good, bad = client.heard()
    assert not good.ackResponse.HasField("error")
    assert good.ackResponse.request_id == 5
    assert ServerError(bad.ackResponse.error) == ServerError.METADATA_ERROR
    client.tell(commands.ack(77, [(1, 0, None)], request_id=7))
    assert client.heard() == []


async def test_a_discarded_message_is_acked_with_its_reason(client: WireClient) -> None:
    await client.open_producer()
    await client.subscribe()
    client.tell(send(0))
    await settle()
    command = BaseCommand(type=BaseCommand.ACK)
    command.ack.consumer_id = 1
    command.ack.ack_type = CommandAck.Individual
    command.ack.validation_error = CommandAck.ChecksumMismatch
    command.ack.message_id.add(ledgerId=1, entryId=0)
    body = command.SerializeToString()
    size = len(body)
    client.tell((size + 4).to_bytes(4, "big") + size.to_bytes(4, "big") + body)
    consumer = client.broker.topic("orders").subscriptions["s"].consumers[0]
    assert consumer.validation_errors == ["CHECKSUM_MISMATCH"]


async def test_permits_of_zero_close_the_connection_with_the_reason(client: WireClient) -> None:
    await client.subscribe()
    client.tell(commands.flow(1, 0))
    (answer,) = client.heard()
    assert ServerError(answer.error.error) == ServerError.METADATA_ERROR
    assert "permits" in answer.error.message
    assert client.is_closed()
    client.tell(commands.flow(77, 5))  # after that nothing is looked at


async def test_flow_ack_and_redeliver_of_an_unknown_consumer_are_ignored(client: WireClient) -> None:
    client.tell(commands.flow(7, 0), commands.ack(7, [(1, 1, None)]), commands.redeliver(7))
    assert client.heard() == []
    assert not client.is_closed()


async def test_redelivery_of_a_list_and_of_everything(client: WireClient) -> None:
    await client.open_producer()
    await client.subscribe(type_=SubType.SHARED)
    client.tell(send(0), send(1), commands.flow(1, 100))
    await settle()
    client.heard()
    client.tell(commands.redeliver(1, [(1, 1)]))
    (again,) = client.heard()
    assert (again.message.message_id.entryId, again.message.redelivery_count) == (1, 1)
    client.tell(commands.redeliver(1))
    assert [(c.message.message_id.entryId, c.message.redelivery_count) for c in client.heard()] == [
        (0, 1),
        (1, 2),
    ]


async def test_seek_closes_the_consumer_before_it_answers(client: WireClient) -> None:
    await client.open_producer()
    client.tell(send(0), send(1))
    await settle()
    await_subscribed = client.subscribe()
    client.heard()
    await await_subscribed
    client.tell(commands.seek(1, request_id=9, message_id=MessageId(1, 1)))
    await settle()
    closed, success = client.heard()
    assert closed.close_consumer.request_id == NO_REQUEST
    assert success.success.request_id == 9
    await client.subscribe()
    client.tell(commands.flow(1, 5))
    assert [c.message.message_id.entryId for c in client.heard()] == [1]


async def test_a_seek_without_target_and_requests_of_unknown_consumers_are_refused(
    client: WireClient,
) -> None:
    await client.subscribe()
    client.tell(commands.seek(1, request_id=1), commands.get_last_message_id(5, request_id=2))
    client.tell(commands.unsubscribe(5, request_id=3), commands.seek(5, request_id=4, publish_time_ms=1))
    await settle()
    answers = {command.error.request_id: ServerError(command.error.error) for command in client.heard()}
    assert answers == dict.fromkeys((1, 2, 3, 4), ServerError.METADATA_ERROR)


async def test_last_message_id_names_the_last_member_of_a_batch(client: WireClient) -> None:
    await client.open_producer()
    await client.subscribe()
    client.tell(commands.get_last_message_id(1, request_id=1))
    await settle()
    (empty,) = client.heard()
    assert empty.getLastMessageIdResponse.last_message_id.ledgerId == 2**64 - 1
    batch = encode_batch(
        [OutgoingMessage(payload=b"a")] * 4, producer_name="p", sequence_id=0, publish_time_ms=1
    )
    client.tell(send(0, batch), commands.get_last_message_id(1, request_id=2))
    await settle()
    last = client.heard()[-1].getLastMessageIdResponse
    assert (last.last_message_id.entryId, last.last_message_id.batch_index) == (0, 3)
    assert last.consumer_mark_delete_position.ledgerId == 1


async def test_unsubscribe_and_close(client: WireClient) -> None:
    await client.open_producer()
    await client.subscribe()
    client.tell(commands.unsubscribe(1, request_id=1))
    await settle()
    assert client.names() == ["SUCCESS"]
    assert client.broker.topic("orders").subscriptions == {}
    client.tell(send(0), commands.close_producer(1, request_id=2), commands.close_consumer(1, request_id=3))
    await settle()
    assert sorted(client.names()) == ["SEND_RECEIPT", "SUCCESS", "SUCCESS"]
    assert client.broker.topic("orders").producers == {}


async def test_a_consumer_closed_while_it_is_opened_is_let_go(client: WireClient) -> None:
    client.broker.opening.clear()
    client.tell(
        commands.subscribe(TOPIC, "s", type=SubType.EXCLUSIVE, consumer_id=1, request_id=1),
        commands.producer(TOPIC, producer_id=1, request_id=2, name="p"),
        commands.close_consumer(1, request_id=3),
        commands.close_producer(1, request_id=4),
    )
    assert client.names() == ["SUCCESS", "SUCCESS"]
    client.broker.opening.set()
    await settle()
    topic = client.broker.topic("orders")
    assert topic.subscriptions["s"].consumers == []
    assert topic.producers == {}
    assert client.heard() == []


async def test_a_lost_connection_gives_back_what_its_consumers_held(
    client: WireClient, broker: FakeBroker
) -> None:
    await client.open_producer()
    await client.subscribe(type_=SubType.SHARED)
    client.tell(send(0), commands.flow(1, 10))
    await settle()
    client.connection.lost()
    client.connection.lost()
    other = WireClient(broker)
    await other.subscribe(type_=SubType.SHARED)
    other.tell(commands.flow(1, 10))
    assert other.names() == ["MESSAGE"]
    assert broker.topic("orders").producers == {}


async def test_a_contested_place_goes_to_the_newcomer_only_when_the_old_peer_is_silent(
    client: WireClient, broker: FakeBroker
) -> None:
    await client.subscribe()
    newcomer = WireClient(broker)
    ask = commands.subscribe(
        TOPIC,
        "s",
        type=SubType.EXCLUSIVE,
        consumer_id=1,
        request_id=1,
        initial_position=InitialPosition.EARLIEST,
    )
    newcomer.tell(ask)
    await settle()
    assert client.names() == ["PING"]
    client.tell(commands.pong())
    await settle()
    (busy,) = newcomer.heard()
    assert ServerError(busy.error.error) == ServerError.CONSUMER_BUSY
    newcomer.tell(ask)
    await settle()
    client.timers.advance(5_100)
    await settle()
    assert newcomer.names() == ["SUCCESS"]
    assert client.is_closed()


async def test_garbage_closes_after_what_came_before_it_was_answered(client: WireClient) -> None:
    client.tell(commands.ping() + b"\x00\x00\x00\x06\x00\x00\x00\x02\xff\xff" + commands.ping())
    assert client.names() == ["PONG", "ERROR"]
    assert client.is_closed()


@pytest.mark.row("S0.10")
async def test_a_frame_that_announces_too_much_closes_before_it_is_buffered(client: WireClient) -> None:
    client.tell(b"\x7f\xff\xff\xff\x00\x00\x00\x02")
    assert client.names() == ["ERROR"]
    assert client.is_closed()


async def test_unsupported_commands_are_answered(client: WireClient) -> None:
    command = BaseCommand(type=BaseCommand.TC_CLIENT_CONNECT_REQUEST)
    command.tcClientConnectRequest.request_id = 4
    body = command.SerializeToString()
    size = len(body)
    client.tell((size + 4).to_bytes(4, "big") + size.to_bytes(4, "big") + body)
    (answer,) = client.heard()
    assert ServerError(answer.error.error) == ServerError.NOT_ALLOWED_ERROR
    assert not client.is_closed()


async def test_consumer_statistics_are_refused_by_name(client: WireClient) -> None:
    client.tell(commands.consumer_stats(3, request_id=1))
    (answer,) = client.heard()
    assert ServerError(answer.consumerStatsResponse.error_code) == ServerError.CONSUMER_NOT_FOUND


async def test_topics_of_a_namespace(client: WireClient) -> None:
    client.broker.topic("orders")
    client.tell(commands.get_topics_of_namespace("public/default", request_id=1))
    client.tell(commands.get_topics_of_namespace("none/such", request_id=2))
    await settle()
    first, second = client.heard()
    assert list(first.getTopicsOfNamespaceResponse.topics) == [TOPIC]
    assert list(second.getTopicsOfNamespaceResponse.topics) == []


@pytest.mark.row("S1.9")
async def test_delivery_names_the_partition(client: WireClient) -> None:
    name = "persistent://public/default/parts-partition-2"
    client.tell(commands.producer(name, producer_id=1, request_id=1, name="p"))
    client.tell(
        commands.subscribe(
            name,
            "s",
            type=SubType.EXCLUSIVE,
            consumer_id=1,
            request_id=2,
            initial_position=InitialPosition.EARLIEST,
        )
    )
    await settle()
    client.heard()
    client.tell(send(0), commands.flow(1, 1))
    await settle()
    assert client.heard()[-1].message.message_id.partition == 2
    assert client.broker.topic(name).entries[0].entry_id == Position(1, 0).entry_id


@pytest.mark.parametrize("cut", [0, 1, 3, 4, 5, 20])
async def test_commands_sent_behind_connect_without_waiting_are_served(broker: FakeBroker, cut: int) -> None:
    client = WireClient(broker, connect=False)
    pieces = commands.connect(client_version="test", protocol_version=21) + commands.ping()
    client.tell(pieces[:cut])
    client.tell(pieces[cut:])
    assert client.names() == ["CONNECTED", "PONG"]
    assert not client.is_closed()


async def test_the_log_names_a_client_that_repeats_a_refused_request_once(
    client: WireClient, broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    absent = "persistent://public/default/absent"
    with caplog.at_level(logging.WARNING):
        for request_id in range(9):
            client.tell(commands.get_schema(absent, request_id=request_id))
            client.tell(commands.producer(TOPIC, producer_id=request_id, request_id=100 + request_id))
            await settle()
        assert not caplog.records
        for request_id in range(20, 70):
            client.tell(commands.get_schema(absent, request_id=request_id))
            await settle()
        (said,) = [each.getMessage() for each in caplog.records]
        assert said.startswith("test:1 (binary, client 'test') repeats a refused request: ")
        assert f"GetSchema for {absent}, 10 times" in said
        assert "has no schema" in said
        client.connection.lost()
        assert "GetSchema was refused 59 times" in caplog.records[-1].getMessage()
        assert len(caplog.records) == 2
    assert broker.refused_requests == {"GetSchema": 59}


async def test_what_a_client_wrote_stays_on_one_short_line_of_the_log(
    client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for request_id in range(10):
            client.tell(commands.lookup("a\nb" + "x" * 5000, request_id=request_id))
    (said,) = [each.getMessage() for each in caplog.records]
    assert "Lookup for a\\nbxxx" in said
    assert "\n" not in said
    assert len(said) < 1200


@pytest.mark.parametrize("pieces", [(b"\x16\x03\x01\x02\x00\x01",), (b"\x16", b"\x03\x03\x00\x9a\x01")])
async def test_a_client_that_begins_with_tls_is_told_that_the_port_is_without(
    broker: FakeBroker, pieces: tuple[bytes, ...], caplog: pytest.LogCaptureFixture
) -> None:
    client = WireClient(broker, connect=False)
    with caplog.at_level(logging.INFO):
        client.tell(*pieces[:1])
        for piece in pieces[1:]:
            client.tell(piece)
    assert client.is_closed()
    (refused,) = client.heard()
    assert "TLS" in refused.error.message
    assert "pulsar://" in refused.error.message
    assert "TLS" in caplog.text
