"""One binary connection's consumers against a broker in memory: deliveries, acks, seeks, the end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from broker.core.position import Position
from broker.doors import read_gate
from broker.doors.binary.wire.decoding import SLICE_IDS
from broker.subscription.requests import AckRequest, DurableCallback
from tests.unit.doors.binary.frames import NO_REQUEST, entry, send
from tests.unit.doors.fake_broker import FakeBroker, FakeConsumer
from tests.unit.doors.wire_client import TOPIC, WireClient, settle
from vela.wire.binary import commands
from vela.wire.binary.enums import InitialPosition, ServerError, SubType
from vela.wire.entry import OutgoingMessage, encode_batch
from vela.wire.message_id import MessageId
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand, CommandAck


@pytest.mark.row("S1.9", "S1.13")
async def test_consumer_stats_tell_the_consumers_figures(client: WireClient) -> None:
    await client.subscribe(type_=SubType.KEY_SHARED)
    client.tell(commands.flow(1, 3), commands.consumer_stats(1, request_id=5))
    (answer,) = client.heard()
    stats = answer.consumerStatsResponse
    assert not stats.HasField("error_code")
    assert (stats.request_id, stats.type, stats.availablePermits) == (5, "Key_Shared", 3)
    assert (stats.address, stats.connectedSince) == ("/test:1", "1970-01-01T00:00:01.5Z")
    assert (stats.msgRateOut, stats.msgThroughputOut) == (1.5, 2.5)
    assert (stats.msgRateRedeliver, stats.messageAckRate) == (3.5, 4.5)


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


async def test_acks_are_answered_only_on_request_with_the_error(client: WireClient) -> None:
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


async def test_the_broker_stops_reading_while_too_many_acks_wait_for_their_receipts(
    client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[DurableCallback] = []

    def hold(
        consumer: FakeConsumer, acks: Sequence[AckRequest], *, on_durable: DurableCallback, **rest: object
    ) -> None:
        held.append(on_durable)

    monkeypatch.setattr(read_gate, "MAX_PENDING_ACKS", 3)
    monkeypatch.setattr(FakeConsumer, "ack", hold)
    await client.subscribe()
    client.tell(*(commands.ack(1, [(1, 0, None)], request_id=number) for number in range(6)))
    assert (len(held), client.connection.gate.is_open) == (4, False)
    for answer in held[:4]:
        answer(None)
    await settle()
    assert (len(held), client.connection.gate.is_open) == (6, True)


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
    client.tell(commands.flow(77, 5))  # the broker ignores everything after the error


async def test_flow_ack_and_redeliver_of_an_unknown_consumer_are_ignored(client: WireClient) -> None:
    client.tell(commands.flow(7, 0), commands.ack(7, [(1, 1, None)]), commands.redeliver(7))
    assert client.heard() == []
    assert not client.is_closed()


async def test_a_list_of_messages_or_everything_is_redelivered_on_request(client: WireClient) -> None:
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


@pytest.mark.parametrize(("type_", "requests"), [(SubType.EXCLUSIVE, 1), (SubType.SHARED, 3)])
async def test_a_long_list_of_messages_takes_an_exclusive_consumers_messages_back_once(
    client: WireClient, monkeypatch: pytest.MonkeyPatch, type_: SubType, requests: int
) -> None:
    asked: list[Sequence[Position] | None] = []

    def redeliver(
        consumer: FakeConsumer, positions: Sequence[Position] | None, *, epoch: int | None = None
    ) -> None:
        asked.append(positions)

    monkeypatch.setattr(FakeConsumer, "redeliver", redeliver)
    await client.subscribe(type_=type_)
    client.tell(commands.redeliver(1, [(1, entry_id) for entry_id in range(3 * SLICE_IDS)]))
    await settle()
    assert len(asked) == requests


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


async def test_unsubscribe_and_close_are_answered(client: WireClient) -> None:
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


async def test_a_consumer_closed_while_it_opens_leaves_the_broker(client: WireClient) -> None:
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


async def test_a_lost_connection_returns_its_consumers_messages_to_the_subscription(
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


async def test_a_new_exclusive_consumer_gets_in_only_when_the_old_peer_is_silent(
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
