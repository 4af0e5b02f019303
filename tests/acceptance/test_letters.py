"""Dead letters and retry letters of a really started Vela: written by the broker for WebSockets, by Apache's client for
itself."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from typing import Any

import pulsar
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.support.vela import VelaProcess

RECEIVE_S = 20.0
RECEIVE_MS = 20_000
SHARED = "subscriptionType=Shared&subscriptionInitialPosition=Earliest"


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"letters-{abs(hash(request.node.name)):x}"


@pytest.fixture
def apache(shared_vela: VelaProcess) -> Iterator[pulsar.Client]:
    client = pulsar.Client(shared_vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield client
    client.close()


def consumer(vela: VelaProcess, topic: str, query: str) -> ClientConnection:
    path = f"/ws/v2/consumer/persistent/public/default/{topic}/s"
    return connect(f"{vela.websocket_url}{path}?{SHARED}&{query}")


def publish(vela: VelaProcess, topic: str, payload: bytes, **fields: Any) -> None:
    with connect(f"{vela.websocket_url}/ws/v2/producer/persistent/public/default/{topic}") as producer:
        producer.send(json.dumps({"payload": base64.b64encode(payload).decode(), **fields}))
        assert json.loads(producer.recv(RECEIVE_S))["result"] == "ok"


def receive(socket: ClientConnection) -> dict[str, Any]:
    push: dict[str, Any] = json.loads(socket.recv(RECEIVE_S))
    push["text"] = base64.b64decode(push["payload"]).decode()
    return push


def tell(socket: ClientConnection, push: dict[str, Any], **fields: Any) -> None:
    socket.send(json.dumps({"messageId": push["messageId"], **fields}))


@pytest.mark.row("I16")
def test_a_message_that_always_fails_is_found_on_the_dead_letter_topic(
    shared_vela: VelaProcess, topic: str, apache: pulsar.Client
) -> None:
    publish(shared_vela, topic, b"bad", key="k", properties={"a": "b"})
    publish(shared_vela, topic, b"good")
    query = "negativeAckRedeliveryDelay=100&maxRedeliverCount=2&deadLetterInitialSubscription=look"
    with consumer(shared_vela, topic, query) as socket:
        seen: list[tuple[str, int]] = []
        while len(seen) < 4:
            push = receive(socket)
            seen.append((push["text"], push["redeliveryCount"]))
            tell(socket, push, **({"type": "negativeAcknowledge"} if push["text"] == "bad" else {}))
        assert sorted(seen) == [("bad", 0), ("bad", 1), ("bad", 2), ("good", 0)]
        letters = apache.subscribe(f"{topic}-s-DLQ", "look", consumer_type=pulsar.ConsumerType.Shared)
        letter = letters.receive(RECEIVE_MS)
    assert (letter.data(), letter.partition_key()) == (b"bad", "k")
    properties = letter.properties()
    assert properties["a"] == "b"
    assert properties["REAL_TOPIC"] == f"persistent://public/default/{topic}"
    assert properties["ORIGIN_MESSAGE_ID"].count(":") == 2
    letters.acknowledge(letter)
    with consumer(shared_vela, topic, "") as socket, pytest.raises(TimeoutError):
        socket.recv(0.5)


def test_reconsume_later_brings_a_message_back_after_its_delay(shared_vela: VelaProcess, topic: str) -> None:
    publish(shared_vela, topic, b"later")
    with consumer(shared_vela, topic, "retryEnable=true&ackTimeoutMillis=30000") as socket:
        push = receive(socket)
        put_off_s = time.monotonic()
        tell(socket, push, type="reconsumeLater", delayMillis=700)
        again = receive(socket)
        assert time.monotonic() - put_off_s >= 0.7
        assert (again["text"], again["properties"]["RECONSUMETIMES"]) == ("later", "1")
        tell(socket, again)
    with consumer(shared_vela, topic, "retryEnable=true") as socket, pytest.raises(TimeoutError):
        socket.recv(0.5)


def test_what_options_cannot_do_is_said_in_the_handshake(shared_vela: VelaProcess, topic: str) -> None:
    path = f"/ws/v2/consumer/persistent/public/default/{topic}/s"
    with connect(f"{shared_vela.websocket_url}{path}?maxRedeliverCount=3") as socket:
        assert socket.response is not None
        assert "no effect on Exclusive" in socket.response.headers["X-Vela-Warning"]
    with consumer(shared_vela, topic, "maxRedeliverCount=3") as socket:
        assert socket.response is not None
        assert "X-Vela-Warning" not in socket.response.headers


def test_apaches_client_makes_its_own_dead_letters_of_the_brokers_counts(
    apache: pulsar.Client, topic: str
) -> None:
    letters = apache.subscribe(f"{topic}-s-DLQ", "look", initial_position=pulsar.InitialPosition.Earliest)
    consuming = apache.subscribe(
        topic,
        "s",
        consumer_type=pulsar.ConsumerType.Shared,
        negative_ack_redelivery_delay_ms=100,
        dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(2, f"{topic}-s-DLQ"),
    )
    producer = apache.create_producer(topic)
    producer.send(b"bad", properties={"a": "b"})
    counts: list[int] = []
    for _ in range(3):
        message = consuming.receive(RECEIVE_MS)
        counts.append(message.redelivery_count())
        consuming.negative_acknowledge(message)
    assert counts == [0, 1, 2]
    letter = letters.receive(RECEIVE_MS)
    assert (letter.data(), letter.properties()["a"]) == (b"bad", "b")
    with pytest.raises(pulsar.Timeout):
        consuming.receive(1000)
