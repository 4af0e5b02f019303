"""The JSON producer against a broker in memory."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from broker.core.client_identity import ClientIdentity
from broker.core.errors import BrokerError, PersistenceFailed, ProducerBusy, TopicTerminated
from broker.doors.websocket.application import websocket_application
from broker.producers.requests import ProducerRequest, ProducerSink
from tests.unit.doors.fake_broker import FakeBroker, FakeProducer
from tests.unit.doors.socket_peer import Peer
from tests.unit.doors.wire_client import settle
from vela.wire.entry import decode_messages, parse_header
from vela.wire.message_id import MessageId

TARGET = "/ws/v2/producer/persistent/public/default/orders"


def message(text: str, **fields: Any) -> dict[str, Any]:
    return {"payload": base64.b64encode(text.encode()).decode(), **fields}


@pytest.fixture
async def broker() -> FakeBroker:
    return FakeBroker(max_message_bytes=4096)


def connect(broker: FakeBroker, query: str = "", target: str = TARGET) -> Peer:
    return Peer(websocket_application(broker), target + query)


async def test_acks_with_context_and_id_come_after_the_commit_in_one_write(broker: FakeBroker) -> None:
    broker.commits = False
    peer = await connect(broker, "?producerName=web").opened()
    await peer.tell(message("a", context="1", key="k", properties={"x": "y"}), message("b"))
    assert peer.heard() == []
    broker.topic("orders").producers["web"].commit()
    assert len(peer.transport.writes) == 1
    first, second = peer.heard()
    assert first == {
        "result": "ok",
        "messageId": MessageId(1, 0).to_base64(),
        "context": "1",
        "errorCode": 0,
        "schemaVersion": 0,
    }
    assert "context" not in second
    (stored,) = decode_messages(broker.topic("orders").entries[0].data, max_message_bytes=100)
    assert (stored.payload, stored.key, stored.properties, stored.sequence_id) == (b"a", "k", {"x": "y"}, 0)
    assert stored.producer_name == "web"
    await peer.leave()
    assert broker.topic("orders").producers == {}


async def test_an_array_is_answered_by_one_array_in_order(broker: FakeBroker) -> None:
    peer = await connect(broker).opened()
    await peer.tell([message("a", context="1"), {"payload": "!"}, message("c", context="3")])
    ((first, second, third),) = peer.heard()
    assert (first["context"], second["result"], third["context"]) == ("1", "send-error:7", "3")
    assert len(broker.topic("orders").entries) == 2


@pytest.mark.parametrize(
    ("frame", "result"),
    [
        ("nonsense", "send-error:3"),
        ("[]", "send-error:3"),
        ('{"payload": 7}', "send-error:3"),
        ("{}", "send-error:7"),
        ('{"payload": "%%%"}', "send-error:7"),
        ('{"payload": "", "eventTime": "yesterday"}', "send-error:7"),
    ],
)
async def test_bad_messages_are_refused_and_the_socket_stays_open(
    broker: FakeBroker, frame: str, result: str
) -> None:
    peer = await connect(broker).opened()
    await peer.tell(frame, message("after"))
    refused, accepted = peer.heard()
    assert refused["result"] == result
    assert accepted["result"] == "ok"
    assert peer.transport.closed is None


async def test_a_payload_above_the_limit_is_refused(broker: FakeBroker) -> None:
    peer = await connect(broker).opened()
    await peer.tell(message("x" * 4097, context="big"), message("x" * 4096))
    refused, accepted = peer.heard()
    assert (refused["result"], refused["context"]) == ("send-error:8", "big")
    assert "VELA_MAX_MESSAGE_BYTES" in refused["errorMsg"]
    assert accepted["result"] == "ok"


async def test_a_binary_frame_closes_with_unsupported_data(broker: FakeBroker) -> None:
    peer = await connect(broker).opened()
    await peer.tell(b"\x00")
    assert peer.transport.closed is not None
    assert peer.transport.closed[0] == 1003


async def test_a_send_that_cannot_be_stored_gets_an_error(broker: FakeBroker) -> None:
    broker.refuse_sends = PersistenceFailed("disk full")
    peer = await connect(broker).opened()
    await peer.tell(message("a", context="1"), message("b", context="2"))
    assert [(a["result"], a["context"], a["errorMsg"]) for a in peer.heard()] == [
        ("send-error:8", "1", "disk full"),
        ("send-error:8", "2", "disk full"),
    ]
    broker.refuse_sends = None
    await peer.tell(message("c"))
    assert peer.heard()[0]["result"] == "ok"


async def test_reading_waits_while_too_much_has_no_receipt(broker: FakeBroker) -> None:
    broker.commits = False
    peer = await connect(broker, "?producerName=web").opened()
    await peer.tell(*[message("x") for _ in range(1100)])
    producer = broker.topic("orders").producers["web"]
    assert len(producer.waiting) == 1001
    producer.commit()
    await settle()
    assert len(producer.waiting) == 99


async def test_a_peer_that_does_not_read_its_acks_is_not_read_from(broker: FakeBroker) -> None:
    peer = await connect(broker).opened()
    peer.transport.writable = False
    await peer.tell(message("a"))
    await peer.tell(*[message("b")] * 3)
    stored = len(broker.topic("orders").entries)
    assert stored < 4
    peer.transport.drain()
    await settle()
    assert len(broker.topic("orders").entries) == 4


async def test_keys_choose_their_partitions_under_one_producer_name(broker: FakeBroker) -> None:
    broker.partitions["persistent://public/default/orders"] = 3
    peer = await connect(
        broker, "?messageRoutingMode=RoundRobinPartition&hashingScheme=Murmur3_32Hash"
    ).opened()
    await peer.tell(*[message("x", key=f"key-{i % 5}", context=str(i % 5)) for i in range(20)])
    keyed = {(ack["context"], MessageId.from_base64(ack["messageId"]).partition) for ack in peer.heard()}
    assert len(keyed) == 5
    await peer.tell(*[message("n")] * 3)
    assert {MessageId.from_base64(ack["messageId"]).partition for ack in peer.heard()} == {0, 1, 2}
    names = {
        parse_header(entry.data).producer_name for topic in broker.topics.values() for entry in topic.entries
    }
    assert len(names) == 1


async def test_a_batching_producer_makes_one_entry_and_acks_its_members(broker: FakeBroker) -> None:
    query = "?batchingEnabled=true&batchingMaxMessages=3&batchingMaxPublishDelay=60000&compressionType=LZ4"
    peer = await connect(broker, query).opened()
    await peer.tell(message("a", context="1"), message("b", key="k"))
    assert peer.heard() == []
    await peer.tell(message("c"))
    ids = [MessageId.from_base64(ack["messageId"]) for ack in peer.heard()]
    assert [(i.entry_id, i.batch_index, i.batch_size) for i in ids] == [(0, 0, 3), (0, 1, 3), (0, 2, 3)]
    (entry,) = broker.topic("orders").entries
    assert [m.payload for m in decode_messages(entry.data, max_message_bytes=100)] == [b"a", b"b", b"c"]
    await peer.tell(message("d"), message("late", deliverAfterMs=5000))
    assert [e.messages for e in broker.topic("orders").entries] == [3, 1, 1]
    await peer.tell(message("e"))
    await peer.leave()
    assert len(broker.topic("orders").entries) == 4


@pytest.mark.parametrize(
    ("fields", "count"),
    [({"properties": {"x": "y" * 10_000}}, 14), ({"key": "k" * 10_000}, 14), ({}, 9000)],
    ids=["properties", "keys", "empty"],
)
async def test_an_open_batch_is_limited_although_its_payloads_are_empty(
    fields: dict[str, Any], count: int
) -> None:
    broker = FakeBroker()
    query = "?batchingEnabled=true&batchingMaxMessages=1000000&batchingMaxPublishDelay=60000"
    peer = await connect(broker, query).opened()
    for begin in range(0, count, 1000):
        await peer.tell([message("", **fields)] * min(1000, count - begin))
    (entry,) = broker.topic("orders").entries
    assert entry.messages < count


async def test_a_batch_keeps_to_the_topics_own_message_limit(broker: FakeBroker) -> None:
    query = "?producerName=web&batchingEnabled=true&batchingMaxMessages=10&batchingMaxPublishDelay=60000"
    peer = await connect(broker, query).opened()
    broker.topic("orders").producers["web"].max_message_bytes = 1000
    await peer.tell([message("x" * 300)] * 10)
    await peer.leave()
    entries = broker.topic("orders").entries
    assert sum(entry.messages for entry in entries) == 10
    assert max(len(entry.data) - parse_header(entry.data).payload_offset for entry in entries) <= 1000


@pytest.mark.parametrize("query", ["", "?batchingEnabled=true&batchingMaxMessages=1"])
async def test_an_entry_that_no_frame_has_room_for_is_refused(broker: FakeBroker, query: str) -> None:
    peer = await connect(broker, query).opened()
    await peer.tell(message("a", properties={"x": "y" * 14_000}))
    await peer.tell(message("b", properties={"x": "y" * 14_200}))
    first, second = peer.heard()
    assert first["result"] == "ok"
    assert second["result"] == "send-error:8"
    assert "with its properties and key, the limit is 14208" in second["errorMsg"]
    assert len(broker.topic("orders").entries) == 1


async def test_a_long_context_is_refused(broker: FakeBroker) -> None:
    peer = await connect(broker).opened()
    await peer.tell(message("a", context="x" * 16_385))
    (refused,) = peer.heard()
    assert (refused["result"], refused["errorMsg"]) == (
        "send-error:8",
        "context has 16385 characters, the limit is 16384",
    )


async def test_pending_messages_are_limited_when_batching(broker: FakeBroker) -> None:
    broker.commits = False
    query = "?batchingEnabled=true&maxPendingMessages=2&batchingMaxPublishDelay=60000"
    peer = await connect(broker, query).opened()
    await peer.tell(message("a"), message("b"), message("c", context="3"))
    (refused,) = peer.heard()
    assert (refused["result"], refused["context"]) == ("send-error:8", "3")


async def test_a_slow_send_times_out_once_and_its_receipt_is_then_dropped(broker: FakeBroker) -> None:
    broker.commits = False
    peer = await connect(broker, "?producerName=web&sendTimeoutMillis=1").opened()
    await peer.tell(message("a", context="1"))
    while not peer.transport.writes:
        await settle()
    (late,) = peer.heard()
    assert (late["result"], late["context"]) == ("send-error:8", "1")
    broker.topic("orders").producers["web"].commit()
    assert peer.heard() == []


async def test_the_first_sequence_id_follows_the_clients_or_else_the_brokers(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_producer = broker.open_producer

    async def open_known(*given: Any) -> FakeProducer:
        producer = await open_producer(*given)
        producer.last_sequence_id = 6
        return producer

    monkeypatch.setattr(broker, "open_producer", open_known)
    for query in ("?initialSequenceId=41", ""):
        peer = await connect(broker, query).opened()
        await peer.tell(message("a"))
    assert [parse_header(each.data).sequence_id for each in broker.topic("orders").entries] == [42, 7]


async def test_a_producer_that_the_broker_closes_closes_the_socket(broker: FakeBroker) -> None:
    peer = await connect(broker, "?producerName=web").opened()
    broker.topic("orders").producers["web"].sink.on_producer_closed(None)
    assert peer.transport.closed == (1012, "connect again")
    await peer.tell(message("a"))  # the broker drops messages that still arrive


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/ws/v2/producer/persistent/public/default/absent", 404),
        ("/ws/v2/producer/persistent/public/default/bad%20name", 400),
        ("/ws/v2/producer/wrong/public/default/orders", 400),
        ("/ws/v2/producer/persistent/public/default/orders?compressionType=RAR", 400),
        ("/ws/v2/producer/persistent/public/default/orders?encryptionKeys=k", 500),
        ("/ws/v2/nothing/persistent/public/default/orders", 404),
    ],
)
async def test_an_invalid_handshake_is_refused_with_its_status(
    broker: FakeBroker, target: str, status: int
) -> None:
    found, reason = await Peer(websocket_application(broker), target).refused()
    assert (found, bool(reason)) == (status, True)


async def test_a_name_in_use_is_a_conflict_and_its_producer_keeps_it(broker: FakeBroker) -> None:
    holder = await connect(broker, "?producerName=web").opened()
    status, reason = await connect(broker, "?producerName=web").refused()
    assert status == 409
    assert reason.startswith("Failed to create producer")
    await holder.tell(message("a"))
    assert holder.heard()[0]["result"] == "ok"
    holder.transport.alive = False
    heir = await connect(broker, "?producerName=web").opened()
    await heir.tell(message("b"))
    assert heir.heard()[0]["result"] == "ok"


async def test_a_broker_that_is_not_ready_answers_503(broker: FakeBroker) -> None:
    broker.ready = (False, "waiting for the lock")
    status, reason = await connect(broker).refused()
    assert (status, "waiting for the lock" in reason) == (503, True)


@pytest.mark.parametrize("target", [TARGET, TARGET.replace("producer", "consumer") + "/s"])
async def test_a_socket_that_opens_while_partitions_are_added_is_refused(
    broker: FakeBroker, target: str
) -> None:
    """The act that adds partitions closes only the sockets that are already attached."""
    broker.partitions["persistent://public/default/orders"] = 1
    broker.opening.clear()
    peer = connect(broker, target=target)
    await settle()
    broker.partitions["persistent://public/default/orders"] = 2
    broker.opening.set()
    status, reason = await peer.refused()
    assert (status, "more partitions: connect again" in reason) == (503, True)
    topic = broker.topic("orders-partition-0")
    assert not topic.producers
    assert not any(each.consumers for each in topic.subscriptions.values())


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (None, "closed while it was being opened: connect again"),
        (TopicTerminated("it has ended"), "it has ended"),
    ],
)
async def test_a_socket_whose_first_partition_closes_while_others_open_is_refused(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, error: BrokerError | None, answer: str
) -> None:
    broker.partitions["persistent://public/default/orders"] = 2
    really_open = FakeBroker.open_producer

    async def open_one(
        self: FakeBroker, request: ProducerRequest, identity: ClientIdentity, sink: ProducerSink
    ) -> FakeProducer:
        if request.topic.partition == 1:
            (first,) = self.topic("orders-partition-0").producers.values()
            first.detach()
            first.sink.on_producer_closed(error)
        return await really_open(self, request, identity, sink)

    monkeypatch.setattr(FakeBroker, "open_producer", open_one)
    status, reason = await connect(broker).refused()
    assert (status, answer in reason) == (503, True)
    assert not broker.topic("orders-partition-1").producers


@pytest.mark.parametrize(("error", "status"), [(ProducerBusy("x"), 409), (TopicTerminated("x"), 503)])
async def test_partitions_opened_before_a_refusal_are_closed(
    error: Exception, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = FakeBroker()
    broker.partitions["persistent://public/default/orders"] = 2
    opened: list[FakeProducer] = []
    really_open = FakeBroker.open_producer

    async def open_one(
        self: FakeBroker, request: ProducerRequest, identity: ClientIdentity, sink: ProducerSink
    ) -> FakeProducer:
        if opened:
            raise error
        opened.append(await really_open(self, request, identity, sink))
        return opened[0]

    monkeypatch.setattr(FakeBroker, "open_producer", open_one)
    assert (await connect(broker).refused())[0] == status
    assert not opened[0].is_open
