"""Dead letters and retry letters in a whole Vela. The broker writes them for WebSocket clients, and
Apache's client writes its own letters.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pulsar
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.support.console import Act, ConsoleSession
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


def test_reconsume_later_redelivers_a_message_after_its_delay(shared_vela: VelaProcess, topic: str) -> None:
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


def test_a_dead_letter_option_without_effect_gets_a_warning(shared_vela: VelaProcess, topic: str) -> None:
    path = f"/ws/v2/consumer/persistent/public/default/{topic}/s"
    with connect(f"{shared_vela.websocket_url}{path}?maxRedeliverCount=3") as socket:
        assert socket.response is not None
        assert "no effect on Exclusive" in socket.response.headers["X-Vela-Warning"]
    with consumer(shared_vela, topic, "maxRedeliverCount=3") as socket:
        assert socket.response is not None
        assert "X-Vela-Warning" not in socket.response.headers


def test_apaches_client_makes_its_own_dead_letters_from_the_brokers_counts(
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


def redriven(console: ConsoleSession, topic: str, fields: dict[str, str]) -> Act:
    """Redrive the letters that a form chooses, and wait until the act has ended."""
    act = console.apply(console.plan(topic, "fixing", "redrive", fields))
    until_s = time.monotonic() + RECEIVE_S
    while act.state in ("apply_requested", "applying") and time.monotonic() < until_s:
        act = console.act(act.id)
    return act


def test_letters_of_apaches_client_are_redriven_from_the_page(
    shared_vela: VelaProcess, topic: str, apache: pulsar.Client
) -> None:
    """The list names the dead letter topic, whose page names the origin and has the forms that redrive the letters."""
    policy = pulsar.ConsumerDeadLetterPolicy(max_redeliver_count=1, initial_subscription_name="fixing")
    broken = apache.subscribe(
        topic,
        "billing",
        consumer_type=pulsar.ConsumerType.Shared,
        negative_ack_redelivery_delay_ms=100,
        dead_letter_policy=policy,
    )
    producer = apache.create_producer(topic)
    for number in range(3):
        producer.send(b"bill %d" % number, properties={"exception": "card declined"})
    dlq = f"persistent://public/default/{topic}-billing-DLQ"
    console = ConsoleSession.logged_in(shared_vela)
    page = f"/dlq/{dlq.replace('://', '/')}"
    until_s = time.monotonic() + RECEIVE_S
    while time.monotonic() < until_s:
        with suppress(pulsar.Timeout):
            broken.negative_acknowledge(broken.receive(200))
        shown = console.get(page)
        if shown.status == 200 and "<strong>3</strong>" in shown.text and "All of them" in shown.text:
            break
    else:
        raise AssertionError(f"no three letters within {RECEIVE_S} s")
    assert "card declined" in shown.text
    assert "/s/fixing/act/redrive?property_name=exception&amp;property_value=card+declined" in shown.text
    assert f"{topic}-billing-DLQ" in console.get(f"/dlq?q={topic}").text
    broken.close()
    fixed = apache.subscribe(topic, "billing", consumer_type=pulsar.ConsumerType.Shared)
    first = re.findall(r"/s/fixing/act/redrive\?id=(\d+:\d+)", shown.text)[0]
    act = redriven(console, dlq, {"id": first})
    assert (act.state, act.result["redriven_messages"]) == ("applied", 1), act.error
    assert fixed.receive(RECEIVE_MS).data() == b"bill 0"
    act = redriven(console, dlq, {"property_name": "exception"})
    assert (act.state, act.result["redriven_messages"]) == ("applied", 2), act.error
    assert {fixed.receive(RECEIVE_MS).data() for _ in range(2)} == {b"bill 1", b"bill 2"}
    assert "No letter waits" in console.get(page).text


def test_an_operator_dead_letters_a_message_while_a_client_is_connected(
    shared_vela: VelaProcess, topic: str, apache: pulsar.Client
) -> None:
    consumer = apache.subscribe(topic, "billing", consumer_type=pulsar.ConsumerType.Shared)
    sent = apache.create_producer(topic).send(b"poison", partition_key="k")
    assert consumer.receive(RECEIVE_MS).data() == b"poison"
    console = ConsoleSession.logged_in(shared_vela)
    full = f"persistent://public/default/{topic}"
    spot = f"{sent.ledger_id()}:{sent.entry_id()}"
    assert (
        f"act/send_to_dead_letters?id={spot}" in console.get(f"/t/{full.replace('://', '/')}/m/{spot}").text
    )
    act = console.apply(console.plan(full, "billing", "send_to_dead_letters", {"id": spot}))
    assert act.state == "applied", act.error
    letters = apache.subscribe(
        f"{topic}-billing-DLQ", "look", initial_position=pulsar.InitialPosition.Earliest
    )
    letter = letters.receive(RECEIVE_MS)
    assert (letter.data(), letter.partition_key()) == (b"poison", "k")
    assert letter.properties()["REAL_SUBSCRIPTION"] == "billing"
    assert "1 letter written to" in console.get(f"/acts/{act.id}").text
    consumer.redeliver_unacknowledged_messages()
    with pytest.raises(pulsar.Timeout):
        consumer.receive(500)
