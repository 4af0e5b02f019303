"""Pulsar's WebSocket API of a whole Vela, with a plain WebSocket library at the other end."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pulsar
import pytest
import websockets
from websockets.sync.client import ClientConnection, connect

from tests.support.api import create_topic
from tests.support.vela import VelaProcess
from vela.wire.binary import commands
from vela.wire.message_id import MessageId

RECEIVE_S = 20.0
QUIET_S = 0.5


def producer(vela: VelaProcess, topic: str, query: str = "") -> ClientConnection:
    return connect(f"{vela.websocket_url}/ws/v2/producer/persistent/public/default/{topic}{query}")


def consumer(vela: VelaProcess, topic: str, query: str = "", subscription: str = "s") -> ClientConnection:
    path = f"/ws/v2/consumer/persistent/public/default/{topic}/{subscription}"
    return connect(f"{vela.websocket_url}{path}?subscriptionInitialPosition=Earliest{query}")


def reader(vela: VelaProcess, topic: str, query: str) -> ClientConnection:
    return connect(f"{vela.websocket_url}/ws/v2/reader/persistent/public/default/{topic}?{query}")


def send(socket: ClientConnection, payload: str, **fields: Any) -> MessageId:
    """Publish one message and wait until it is durable."""
    socket.send(json.dumps({"payload": base64.b64encode(payload.encode()).decode(), **fields}))
    ack = json.loads(socket.recv(RECEIVE_S))
    assert ack["result"] == "ok", ack
    return MessageId.from_base64(ack["messageId"])


def receive(socket: ClientConnection) -> dict[str, Any]:
    push: dict[str, Any] = json.loads(socket.recv(RECEIVE_S))
    push["text"] = base64.b64decode(push["payload"]).decode()
    return push


def acknowledge(socket: ClientConnection, push: dict[str, Any], **fields: str) -> None:
    socket.send(json.dumps({"messageId": push["messageId"], **fields}))


def assert_silent(socket: ClientConnection) -> None:
    with pytest.raises(TimeoutError):
        socket.recv(QUIET_S)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"ws-{abs(hash(request.node.name)):x}"


@pytest.fixture
def apache(shared_vela: VelaProcess) -> Iterator[pulsar.Client]:
    client = pulsar.Client(shared_vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield client
    client.close()


@pytest.mark.parametrize("batching", ["false", "true"])
def test_a_producer_past_the_last_sequence_id_is_refused(
    shared_vela: VelaProcess, topic: str, batching: str
) -> None:
    used = f"?initialSequenceId={2**63 - 1}&batchingEnabled={batching}"
    with producer(shared_vela, topic, used) as publishing:
        publishing.send(json.dumps({"payload": ""}))
        refused = json.loads(publishing.recv(RECEIVE_S))
    assert refused["result"].startswith("send-error")
    assert "last sequence id" in refused["errorMsg"]


def test_a_published_message_arrives_whole_and_once_if_acked(shared_vela: VelaProcess, topic: str) -> None:
    with producer(shared_vela, topic) as publishing, consumer(shared_vela, topic) as consuming:
        sent = send(
            publishing,
            "hello",
            key="k",
            properties={"a": "b"},
            context="c",
            eventTime="2024-05-01T10:00:00.5+02:00",
        )
        push = receive(consuming)
        assert (push["text"], push["key"], push["properties"]) == ("hello", "k", {"a": "b"})
        assert (push["redeliveryCount"], push["eventTime"]) == (0, "2024-05-01T08:00:00.5Z")
        assert MessageId.from_base64(push["messageId"]) == sent
        acknowledge(consuming, push)
    with consumer(shared_vela, topic) as consuming:
        assert_silent(consuming)


def test_an_unacked_message_goes_to_the_next_consumer_and_is_counted(
    shared_vela: VelaProcess, topic: str
) -> None:
    shared = "&subscriptionType=Shared"
    with producer(shared_vela, topic) as publishing:
        send(publishing, "a")
    with consumer(shared_vela, topic, shared) as consuming:
        receive(consuming)
    with consumer(shared_vela, topic, shared + "&negativeAckRedeliveryDelay=100") as consuming:
        for count in range(3):
            push = receive(consuming)
            assert (push["text"], push["redeliveryCount"]) == ("a", count)
            acknowledge(consuming, push, type="negativeAcknowledge")


def test_the_broker_redelivers_after_the_ack_timeout(shared_vela: VelaProcess, topic: str) -> None:
    with (
        producer(shared_vela, topic) as publishing,
        consumer(shared_vela, topic, "&subscriptionType=Shared&ackTimeoutMillis=1000") as consuming,
    ):
        send(publishing, "a")
        assert receive(consuming)["redeliveryCount"] == 0
        again = receive(consuming)
        assert again["redeliveryCount"] == 1
        acknowledge(consuming, again)


def test_the_receiver_queue_bounds_pending_messages_and_acks_make_room(
    shared_vela: VelaProcess, topic: str
) -> None:
    with producer(shared_vela, topic) as publishing:
        for number in range(5):
            send(publishing, str(number))
    with consumer(shared_vela, topic, "&receiverQueueSize=2") as consuming:
        first, second = receive(consuming), receive(consuming)
        assert_silent(consuming)
        acknowledge(consuming, first)
        assert receive(consuming)["text"] == "2"
        acknowledge(consuming, second, type="acknowledge", ackType="cumulative")
        assert receive(consuming)["text"] == "3"


def test_pull_mode_sends_as_many_messages_as_permitted(shared_vela: VelaProcess, topic: str) -> None:
    with producer(shared_vela, topic) as publishing:
        for number in range(3):
            send(publishing, str(number))
    with consumer(shared_vela, topic, "&pullMode=true") as consuming:
        assert_silent(consuming)
        consuming.send('{"type": "permit", "permitMessages": 2}')
        assert [receive(consuming)["text"], receive(consuming)["text"]] == ["0", "1"]
        assert_silent(consuming)
        consuming.send('[{"type": "permit", "permitMessages": 1}, {"type": "isEndOfTopic"}]')
        heard = [json.loads(consuming.recv(RECEIVE_S)) for _ in range(2)]
        assert {"endOfTopic": False} in heard


@pytest.mark.parametrize("compression", ["NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY"])
def test_batches_of_websocket_and_binary_clients_reach_each_other(
    shared_vela: VelaProcess, apache: pulsar.Client, topic: str, compression: str
) -> None:
    topic = f"{topic}-{compression}"
    binary = apache.subscribe(topic, "binary", initial_position=pulsar.InitialPosition.Earliest)
    query = f"?batchingEnabled=true&batchingMaxMessages=3&batchingMaxPublishDelay=5000&compressionType={compression}"
    with producer(shared_vela, topic, query) as publishing:
        publishing.send(json.dumps([{"payload": base64.b64encode(b"%d" % i).decode()} for i in range(3)]))
        (ids,) = [[MessageId.from_base64(ack["messageId"]) for ack in json.loads(publishing.recv(RECEIVE_S))]]
    assert [(i.batch_index, i.batch_size) for i in ids] == [(0, 3), (1, 3), (2, 3)]
    assert [binary.receive(20_000).data() for _ in range(3)] == [b"0", b"1", b"2"]
    sending = apache.create_producer(
        topic,
        batching_enabled=True,
        batching_max_publish_delay_ms=5000,
        compression_type=pulsar.CompressionType.__members__[
            {"NONE": "NONE", "LZ4": "LZ4", "ZLIB": "ZLib", "ZSTD": "ZSTD", "SNAPPY": "SNAPPY"}[compression]
        ],
    )
    for number in range(3, 6):
        sending.send_async(b"%d" % number, lambda _result, _id: None)
    sending.flush()
    with consumer(shared_vela, topic, subscription="json") as consuming:
        pushes = [receive(consuming) for _ in range(6)]
        assert [push["text"] for push in pushes] == list("012345")
        for push in pushes[:4]:
            acknowledge(consuming, push)
    with consumer(shared_vela, topic, subscription="json") as consuming:
        assert [receive(consuming)["text"] for _ in range(2)] == ["4", "5"]
        assert_silent(consuming)


def test_a_key_chooses_its_partition_and_ids_name_it(shared_vela: VelaProcess, topic: str) -> None:
    create_topic(shared_vela, topic, partitions=3)
    with (
        producer(shared_vela, topic) as publishing,
        consumer(shared_vela, topic, "&receiverQueueSize=4") as consuming,
    ):
        sent = {}
        for number in range(24):
            sent[str(number)] = send(publishing, str(number), key=f"key-{number % 6}")
        assert len({i.partition for i in sent.values()}) > 1
        for number in range(6):
            assert len({sent[str(at)].partition for at in range(number, 24, 6)}) == 1
        seen: dict[str, MessageId] = {}
        while len(seen) < 24:
            push = receive(consuming)
            seen[push["text"]] = MessageId.from_base64(push["messageId"])
            acknowledge(consuming, push)
        assert seen == sent
        assert_silent(consuming)


def test_a_reader_reads_from_any_message_and_leaves_no_subscription(
    shared_vela: VelaProcess, topic: str
) -> None:
    with producer(shared_vela, topic) as publishing:
        ids = [send(publishing, str(number)) for number in range(4)]
        for start, expected in (("earliest", "0123"), (quote(ids[1].to_base64(), safe=""), "23")):
            with reader(shared_vela, topic, f"messageId={start}&receiverQueueSize=2") as reading:
                for text in expected:
                    assert receive(reading)["text"] == text
                    reading.send("{}")
        with reader(shared_vela, topic, "messageId=latest") as reading:
            assert_silent(reading)
            send(publishing, "new")
            assert receive(reading)["text"] == "new"


def test_a_second_exclusive_consumer_or_producer_name_gets_409(shared_vela: VelaProcess, topic: str) -> None:
    with consumer(shared_vela, topic), producer(shared_vela, topic, "?producerName=me"):
        with pytest.raises(websockets.InvalidStatus) as refused:
            consumer(shared_vela, topic)
        assert refused.value.response.status_code == 409
        with pytest.raises(websockets.InvalidStatus) as refused:
            producer(shared_vela, topic, "?producerName=me")
        assert refused.value.response.status_code == 409


def test_unsubscribe_forgets_the_cursor(shared_vela: VelaProcess, topic: str) -> None:
    with producer(shared_vela, topic) as publishing, consumer(shared_vela, topic) as consuming:
        send(publishing, "a")
        acknowledge(consuming, receive(consuming))
        consuming.send('{"type": "unsubscribe"}')
        assert_silent(consuming)
    with consumer(shared_vela, topic) as consuming:
        assert receive(consuming)["text"] == "a"


def test_health_and_metrics_pages_answer(shared_vela: VelaProcess) -> None:
    for path, words in (("/healthz", b"ok"), ("/readyz", b"ready"), ("/metrics", b"# TYPE pulsar_")):
        with urllib.request.urlopen(shared_vela.http_url + path, timeout=RECEIVE_S) as answer:
            assert answer.status == 200
            assert words in answer.read()


def test_frames_cut_anywhere_pass_inside_websocket_messages(shared_vela: VelaProcess) -> None:
    with connect(f"{shared_vela.websocket_url}/ws/binary") as socket:
        hello = commands.connect(client_version="x", protocol_version=21)
        socket.send(hello[:5])
        socket.send(hello[5:])
        assert isinstance(socket.recv(RECEIVE_S), bytes)
        socket.send(commands.ping() + commands.ping()[:3])
        assert socket.recv(RECEIVE_S) == commands.pong()
        socket.send("text")
        with pytest.raises(websockets.ConnectionClosed):
            socket.recv(RECEIVE_S)
