"""The JSON consumer and reader against a broker in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from broker.core.client_identity import ClientIdentity
from broker.core.entry import FLAG_BATCH
from broker.core.position import Position
from broker.doors.websocket.application import websocket_application
from broker.log.sends import SendRequest
from broker.subscription.requests import ConsumerSink, SubscribeRequest
from tests.unit.doors.fake_broker import FakeBroker, FakeConsumer, FakeTopic
from tests.unit.doors.socket_peer import Peer
from tests.unit.doors.wire_client import settle
from vela.wire.entry import OutgoingMessage, encode_batch, encode_single
from vela.wire.message_id import EARLIEST, MessageId

TARGET = "/ws/v2/consumer/persistent/public/default/orders/s"
READER = "/ws/v2/reader/persistent/public/default/orders"
EARLY = "?subscriptionInitialPosition=Earliest"


@pytest.fixture
async def broker() -> FakeBroker:
    return FakeBroker()


def connect(broker: FakeBroker, query: str = "", target: str = TARGET) -> Peer:
    return Peer(websocket_application(broker), target + EARLY + query.replace("?", "&"))


def store(broker: FakeBroker, *payloads: bytes, topic: str = "orders") -> FakeTopic:
    found = broker.topic(topic)
    for number, payload in enumerate(payloads):
        data = encode_single(
            producer_name="p", sequence_id=number, publish_time_ms=1000, payload=payload, key="k"
        )
        found.append(SendRequest(number, 0, 1, 0, 0, None, data))
    pump(found)
    return found


def store_batch(broker: FakeBroker, payloads: Sequence[bytes]) -> FakeTopic:
    topic = broker.topic("orders")
    data = encode_batch(
        [OutgoingMessage(payload=payload) for payload in payloads],
        producer_name="p",
        sequence_id=0,
        publish_time_ms=1000,
    )
    topic.append(SendRequest(0, 0, len(payloads), FLAG_BATCH, 0, None, data))
    pump(topic)
    return topic


def pump(topic: FakeTopic) -> None:
    for subscription in topic.subscriptions.values():
        subscription.pump()


def consumer_of(broker: FakeBroker, topic: str = "orders") -> FakeConsumer:
    return broker.topic(topic).subscriptions["s"].consumers[0]


def ack(push: dict[str, Any]) -> dict[str, str]:
    return {"messageId": push["messageId"]}


async def test_pushes_are_joined_and_acks_return_their_place(broker: FakeBroker) -> None:
    topic = store(broker, b"a", b"b", b"c")
    peer = await connect(broker, "?receiverQueueSize=2").opened()
    assert len(peer.transport.writes) == 1
    first, second = peer.heard()
    assert first == {
        "messageId": MessageId(1, 0).to_base64(),
        "redeliveryCount": 0,
        "payload": "YQ==",
        "properties": {},
        "publishTime": "1970-01-01T00:00:01Z",
        "key": "k",
    }
    await peer.tell(ack(first))
    (third,) = peer.heard()
    assert third["payload"] == "Yw=="
    await peer.tell([ack(second), ack(third)])
    assert topic.subscriptions["s"].acked == {0, 1, 2}
    assert consumer_of(broker).granted == 5


async def test_batches_are_split_and_their_members_acked_one_by_one(broker: FakeBroker) -> None:
    topic = store_batch(broker, [b"a", b"b", b"c"])
    peer = await connect(broker).opened()
    pushes = peer.heard()
    assert [MessageId.from_base64(p["messageId"]).batch_index for p in pushes] == [0, 1, 2]
    await peer.tell(ack(pushes[1]))
    assert topic.subscriptions["s"].remaining[0] == 0b101
    await peer.leave()
    again = await connect(broker).opened()
    assert [p["payload"] for p in again.heard()] == ["YQ==", "Yw=="]
    await again.tell(ack(pushes[0]), ack(pushes[2]))
    assert topic.subscriptions["s"].acked == {0}


@pytest.mark.row("S4.6", "S4.7")
async def test_whole_batch_acks_complete_a_batch_that_was_partly_acked_before(broker: FakeBroker) -> None:
    topic = store_batch(broker, [b"a", b"b", b"c"])
    peer = await connect(broker).opened()
    await peer.tell(ack(peer.heard()[1]))
    await peer.leave()
    again = await connect(broker, "?batchIndexAck=false").opened()
    first, last = again.heard()
    await again.tell(ack(first))
    assert topic.subscriptions["s"].acked == set()
    await again.tell(ack(last))
    assert topic.subscriptions["s"].acked == {0}


async def test_a_batch_larger_than_the_window_is_a_debt(broker: FakeBroker) -> None:
    store_batch(broker, [b"%d" % i for i in range(5)])
    store(broker, b"next")
    peer = await connect(broker, "?receiverQueueSize=2").opened()
    pushes = peer.heard()
    assert len(pushes) == 5
    for push in pushes[:3]:
        await peer.tell(ack(push))
        assert peer.heard() == []
    await peer.tell(ack(pushes[3]))
    assert len(peer.heard()) == 1


async def test_a_cumulative_ack_acks_everything_before_it(broker: FakeBroker) -> None:
    topic = store(broker, b"a", b"b", b"c")
    peer = await connect(broker).opened()
    pushes = peer.heard()
    await peer.tell({"type": "acknowledge", "ackType": "cumulative", "messageId": pushes[1]["messageId"]})
    assert topic.subscriptions["s"].acked == {0, 1}


@pytest.mark.row("S4.5", "S0.40")
async def test_a_cumulative_ack_makes_room_for_every_message_up_to_its_own(broker: FakeBroker) -> None:
    store(broker, *(b"%d" % number for number in range(9)))
    peer = await connect(broker, "?receiverQueueSize=3").opened()
    first, _, third = peer.heard()
    await peer.tell(ack(first))
    (fourth,) = peer.heard()
    await peer.tell({"type": "acknowledge", "ackType": "cumulative", "messageId": third["messageId"]})
    assert len(peer.heard()) == 2
    await peer.tell({"type": "acknowledge", "ackType": "cumulative", "messageId": fourth["messageId"]})
    assert len(peer.heard()) == 1
    await peer.tell({"type": "acknowledge", "ackType": "cumulative", "messageId": first["messageId"]})
    assert len(peer.heard()) == 1  # each answer makes room, even a needless one


async def test_the_broker_delays_the_redelivery_after_a_negative_ack(broker: FakeBroker) -> None:
    store(broker, b"a")
    peer = await connect(broker, "?negativeAckRedeliveryDelay=5000").opened()
    (push,) = peer.heard()
    await peer.tell({"type": "negativeAcknowledge", "messageId": push["messageId"]})
    consumer = consumer_of(broker)
    ((position, due_ms),) = consumer.negative
    assert position == Position(1, 0)
    assert due_ms > 5000
    assert consumer.granted == 1001


async def test_options_reach_the_broker(broker: FakeBroker) -> None:
    query = "?subscriptionType=Shared&ackTimeoutMillis=2000&priorityLevel=3&consumerName=me"
    peer = await connect(broker, query).opened()
    request = consumer_of(broker).request
    assert (request.ack_timeout_ms, request.priority, request.consumer_name) == (2000, 3, "me")
    assert (request.type.value, request.durable) == ("Shared", True)
    assert peer.transport.closed is None


async def test_pull_mode_pushes_as_many_messages_as_permitted(broker: FakeBroker) -> None:
    store(broker, b"a", b"b", b"c")
    peer = await connect(broker, "?pullMode=true").opened()
    assert peer.heard() == []
    await peer.tell({"type": "permit", "permitMessages": 2})
    pushes = peer.heard()
    assert len(pushes) == 2
    await peer.tell(ack(pushes[0]), ack(pushes[1]))
    assert peer.heard() == []
    await peer.tell({"type": "permit", "permitMessages": 0})
    assert peer.transport.closed is not None
    assert peer.transport.closed[0] == 1008
    assert "permitMessages" in peer.transport.closed[1]


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("nonsense", 1007),
        ("[1]", 1007),
        ('{"messageId": "***"}', 1008),
        ('{"type": "acknowledge"}', 1008),
        ('{"type": "permit"}', 1008),
        ('{"messageId": "CAwQIiAFMAM="}', 1008),
    ],
)
async def test_a_bad_command_closes_the_socket_with_the_reason_and_leaves_messages_unacked(
    broker: FakeBroker, frame: str, code: int
) -> None:
    topic = store(broker, b"a")
    peer = await connect(broker).opened()
    await peer.tell(frame, ack(peer.heard()[0]))
    assert peer.transport.closed is not None
    assert peer.transport.closed[0] == code
    assert peer.transport.closed[1].startswith("3: ")
    assert topic.subscriptions["s"].acked == set()
    assert topic.subscriptions["s"].consumers == []


async def test_acks_of_ids_never_delivered_change_nothing(broker: FakeBroker) -> None:
    topic = store(broker, b"a")
    peer = await connect(broker).opened()
    await peer.tell({"messageId": MessageId(1, 77).to_base64()}, {"messageId": MessageId(5, 0).to_base64()})
    assert peer.transport.closed is None
    assert len(topic.subscriptions["s"].consumers) == 1
    assert topic.subscriptions["s"].acked == set()


async def test_a_corrupt_entry_is_acked_with_its_reason_and_its_permits_come_back(broker: FakeBroker) -> None:
    topic = broker.topic("orders")
    good = encode_batch(
        [OutgoingMessage(payload=b"x")] * 3, producer_name="p", sequence_id=0, publish_time_ms=1
    )
    topic.append(SendRequest(0, 2, 3, FLAG_BATCH, 0, None, good[:-1] + b"\x00"))
    store(broker, b"after")
    peer = await connect(broker, "?receiverQueueSize=4").opened()
    assert [push["payload"] for push in peer.heard()] == ["YWZ0ZXI="]
    consumer = consumer_of(broker)
    assert consumer.validation_errors == ["CHECKSUM_MISMATCH"]
    assert consumer.permits == 3
    assert topic.subscriptions["s"].acked == {0}


async def test_messages_that_this_door_cannot_read_stay_unacked(broker: FakeBroker) -> None:
    from vela.wire.checksum import with_checksum
    from vela.wire.pb.vela_pulsar_pb2 import MessageMetadata

    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    metadata.encryption_keys.add(key="k", value=b"secret")
    head = metadata.SerializeToString()
    topic = broker.topic("orders")
    topic.append(SendRequest(0, 0, 1, 0, 0, None, with_checksum(len(head).to_bytes(4, "big") + head + b"?")))
    store(broker, b"after")
    peer = await connect(broker, "?receiverQueueSize=1").opened()
    assert [push["payload"] for push in peer.heard()] == ["YWZ0ZXI="]
    assert topic.subscriptions["s"].acked == set()


async def test_nothing_is_delivered_to_a_socket_that_does_not_read(broker: FakeBroker) -> None:
    peer = await connect(broker).opened()
    peer.transport.writable = False
    store(broker, b"a")
    assert peer.heard() == []
    peer.transport.drain()
    await settle()
    assert len(peer.heard()) == 1


async def test_a_consumer_the_broker_closes_is_told_to_connect_again(broker: FakeBroker) -> None:
    store(broker, b"a")
    peer = await connect(broker).opened()
    await consumer_of(broker).seek_position(Position(1, 0), None)
    assert peer.transport.closed == (1012, "seek")


@pytest.mark.parametrize("target", [TARGET, READER], ids=["consumer", "reader"])
async def test_a_socket_whose_first_partition_closes_while_others_open_is_refused(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    broker.partitions["persistent://public/default/orders"] = 2
    really_subscribe = FakeBroker.subscribe

    async def subscribe(
        self: FakeBroker, request: SubscribeRequest, identity: ClientIdentity, sink: ConsumerSink
    ) -> FakeConsumer:
        if request.topic.partition == 1:
            (subscription,) = self.topic("orders-partition-0").subscriptions.values()
            await subscription.consumers[0].seek_position(Position(1, 0), None)
        return await really_subscribe(self, request, identity, sink)

    monkeypatch.setattr(FakeBroker, "subscribe", subscribe)
    status, reason = await connect(broker, target=target).refused()
    assert (status, "seek: connect again" in reason) == (500 if target == READER else 503, True)
    (subscription,) = broker.topic("orders-partition-1").subscriptions.values()
    assert not subscription.consumers


async def test_only_an_unsubscribe_that_is_refused_closes_the_socket(broker: FakeBroker) -> None:
    peer = await connect(broker, "?subscriptionType=Shared").opened()
    other = await connect(broker, "?subscriptionType=Shared").opened()
    await peer.tell({"type": "unsubscribe"})
    assert peer.transport.closed is not None
    assert peer.transport.closed[0] == 1008
    await other.tell({"type": "unsubscribe"})
    assert other.transport.closed is None
    assert broker.topic("orders").subscriptions == {}


async def test_a_question_for_the_end_of_the_topic_is_answered_with_a_boolean(broker: FakeBroker) -> None:
    peer = await connect(broker).opened()
    await peer.tell({"type": "isEndOfTopic"})
    assert peer.heard() == [{"endOfTopic": False}]


@pytest.mark.parametrize("target", [TARGET, READER], ids=["consumer", "reader"])
async def test_a_client_that_reads_no_answers_is_not_read_from(broker: FakeBroker, target: str) -> None:
    peer = await connect(broker, target=target).opened()
    peer.transport.writable = False
    await peer.tell(*[{"type": "isEndOfTopic"}] * 3)
    assert len(peer.heard()) == 1
    peer.transport.drain()
    await settle()
    assert len(peer.heard()) == 2


@pytest.mark.parametrize("target", [TARGET, READER], ids=["consumer", "reader"])
async def test_the_client_learns_of_the_end_when_every_partition_has_ended(
    broker: FakeBroker, target: str
) -> None:
    broker.partitions["persistent://public/default/orders"] = 2
    peer = await connect(broker, target=target).opened()
    for partition, ended in ((1, False), (0, True)):
        for subscription in broker.topic(f"orders-partition-{partition}").subscriptions.values():
            for consumer in subscription.consumers:
                consumer.sink.on_end_of_topic()
        assert peer.heard() == []  # nothing is pushed
        await peer.tell({"type": "isEndOfTopic"})
        assert peer.heard() == [{"endOfTopic": ended}]


async def test_partitions_share_the_window_and_ids_name_them(broker: FakeBroker) -> None:
    broker.partitions["persistent://public/default/orders"] = 2
    for partition in range(2):
        store(broker, *[b"%d" % i for i in range(10)], topic=f"orders-partition-{partition}")
    peer = await connect(broker, "?receiverQueueSize=4").opened()
    pushes = peer.heard()
    assert len(pushes) == 4
    seen = list(pushes)
    while pushes:
        await peer.tell(*map(ack, pushes))
        pushes = peer.heard()
        seen += pushes
    assert len({push["messageId"] for push in seen}) == 20
    assert {MessageId.from_base64(push["messageId"]).partition for push in seen} == {0, 1}
    for partition in range(2):
        assert len(broker.topic(f"orders-partition-{partition}").subscriptions["s"].acked) == 10


async def test_an_id_that_another_socket_delivered_reaches_its_own_topic(broker: FakeBroker) -> None:
    one, two = broker.topic("one"), broker.topic("two")
    peer = await Peer(websocket_application(broker), "/ws/v3/consumer/s?topics=one,two").opened()
    for topic in (one, two):
        topic.append(SendRequest(0, 0, 1, 0, 0, None, b""))  # added without a delivery to this socket
    await peer.tell({"messageId": MessageId(two.ledger_id, 0).to_base64()})
    assert not one.subscriptions["s"].acked
    assert two.subscriptions["s"].acked == {0}


async def test_in_pull_mode_several_topics_share_the_permits(broker: FakeBroker) -> None:
    store(broker, b"a", b"b", topic="one")
    store(broker, b"c", b"d", topic="two")
    target = "/ws/v3/consumer/s?topics=one,two&pullMode=true&subscriptionInitialPosition=Earliest"
    peer = await Peer(websocket_application(broker), target).opened()
    assert peer.heard() == []
    await peer.tell({"type": "permit", "permitMessages": 3})
    assert len(peer.heard()) == 3
    await peer.tell({"type": "permit", "permitMessages": 3})
    assert len(peer.heard()) == 1


async def test_topics_go_on_once_large_messages_that_waited_are_pushed(broker: FakeBroker) -> None:
    for topic in ("one", "two"):
        store(broker, *[bytes(600_000)] * 4, topic=topic)
    target = "/ws/v3/consumer/s?topics=one,two&receiverQueueSize=1&subscriptionInitialPosition=Earliest"
    peer = await Peer(websocket_application(broker), target).opened()
    for _ in range(8):
        await settle()
        (push,) = peer.heard()
        await peer.tell(ack(push))


async def test_acks_sent_before_a_close_are_applied_before_another_consumer_takes_the_place(
    broker: FakeBroker,
) -> None:
    topic = store(broker, b"a")
    peer = await connect(broker).opened()
    (push,) = peer.heard()
    peer.transport.alive = False  # closed, but the socket has not read the last frames yet
    asking = asyncio.ensure_future(consumer_of(broker).sink.is_alive())
    await settle()
    assert not asking.done()
    await peer.tell(ack(push))
    assert not asking.done()
    await peer.leave()
    assert await asking is False
    assert topic.subscriptions["s"].acked == {0}


async def test_a_second_exclusive_consumer_is_refused_as_a_conflict(broker: FakeBroker) -> None:
    first = connect(broker)  # this variable keeps the peer's task alive
    await first.opened()
    status, reason = await connect(broker).refused()
    assert status == 409
    assert reason.startswith("Failed to create consumer")


# -- reader ----------------------------------------------------------------------------------------------------------


async def test_a_reader_begins_behind_the_message_it_names(broker: FakeBroker) -> None:
    store(broker, b"0", b"1")
    store_batch(broker, [b"2", b"3", b"4"])
    store(broker, b"5")

    async def read(message_id: MessageId | str) -> list[str]:
        text = message_id if isinstance(message_id, str) else message_id.to_base64()
        for plain, escaped in (("+", "%2B"), ("/", "%2F"), ("=", "%3D")):
            text = text.replace(plain, escaped)
        peer = await Peer(websocket_application(broker), f"{READER}?messageId={text}").opened()
        return [push["payload"] for push in peer.heard()]

    everything = ["MA==", "MQ==", "Mg==", "Mw==", "NA==", "NQ=="]
    assert await read("earliest") == everything
    assert await read(EARLIEST) == everything
    assert await read("latest") == []
    assert await read(MessageId(1, 0)) == everything[1:]
    assert await read(MessageId(1, 2, -1, 0, 3)) == everything[3:]
    assert await read(MessageId(1, 2, -1, 2, 3)) == everything[5:]


async def test_a_readers_frames_move_the_window(broker: FakeBroker) -> None:
    topic = store(broker, *[b"%d" % i for i in range(5)])
    peer = await Peer(
        websocket_application(broker), f"{READER}?messageId=earliest&receiverQueueSize=2"
    ).opened()
    assert len(peer.heard()) == 2
    await peer.tell({}, '{"messageId": "anything"}')
    assert len(peer.heard()) == 2
    (subscription,) = topic.subscriptions.values()
    assert subscription.acked == {0, 1, 2, 3}
    assert not subscription.consumers[0].request.durable
    await peer.tell("nonsense")
    assert peer.transport.closed is not None
    assert peer.transport.closed[0] == 1007


async def test_a_reader_is_refused_with_500_unless_its_query_cannot_be_decoded(broker: FakeBroker) -> None:
    for query, expected in (("messageId=%%%", 400), ("messageId=!!!", 500), ("receiverQueueSize=-1", 500)):
        status, reason = await Peer(websocket_application(broker), f"{READER}?{query}").refused()
        assert status == expected
        assert reason
    status, reason = await Peer(websocket_application(broker), READER.replace("orders", "absent")).refused()
    assert (status, reason[:23]) == (500, "Failed to create reader")
