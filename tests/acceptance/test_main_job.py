"""The main job on real input: publish the lines of the standard library with Apache's client, and consume them over
WebSocket, byte for byte. Then rewind the cursor in the console, and consume everything again."""

from __future__ import annotations

import base64
import json
import sysconfig
from pathlib import Path

import pulsar
from websockets.sync.client import ClientConnection, connect

from tests.support.console import ConsoleSession
from tests.support.vela import VelaProcess

TOPIC = "stdlib"
SUBSCRIPTION = "reader"
FULL_TOPIC = f"persistent/public/default/{TOPIC}"
ACKS_PER_FRAME = 100


def library_lines() -> list[bytes]:
    folder = Path(sysconfig.get_path("stdlib"))
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.py"))).splitlines(keepends=True)


def publish(url: str, lines: list[bytes]) -> None:
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    producer = client.create_producer(
        TOPIC, batching_enabled=True, block_if_queue_full=True, batching_max_publish_delay_ms=10
    )
    failures: list[pulsar.Result] = []

    def answered(result: pulsar.Result, _: pulsar.MessageId) -> None:
        if result != pulsar.Result.Ok:
            failures.append(result)

    for line in lines:
        producer.send_async(line, answered)
    producer.flush()
    client.close()
    assert not failures


def consumer_of(vela: VelaProcess) -> ClientConnection:
    path = f"/ws/v2/consumer/{FULL_TOPIC}/{SUBSCRIPTION}"
    return connect(
        f"{vela.websocket_url}{path}?subscriptionInitialPosition=Earliest&receiverQueueSize=1000",
        compression=None,
    )


def consume(consumer: ClientConnection, count: int) -> bytes:
    payloads: list[bytes] = []
    acks: list[dict[str, str]] = []
    while len(payloads) < count:
        pushed = json.loads(consumer.recv(timeout=30))
        for message in pushed if isinstance(pushed, list) else [pushed]:
            payloads.append(base64.b64decode(message["payload"]))
            acks.append({"messageId": message["messageId"]})
        if len(acks) >= ACKS_PER_FRAME or len(payloads) >= count:
            consumer.send(json.dumps(acks))
            acks.clear()
    return b"".join(payloads)


def test_the_standard_library_comes_back_byte_for_byte_and_again_after_a_rewind(
    shared_vela: VelaProcess,
) -> None:
    lines = library_lines()
    assert len(lines) > 100_000
    whole = b"".join(lines)
    with consumer_of(shared_vela):
        pass  # the subscription exists before the first message
    publish(shared_vela.pulsar_url, lines)
    with consumer_of(shared_vela) as consumer:
        assert consume(consumer, len(lines)) == whole

    console = ConsoleSession.logged_in(shared_vela)
    act = console.plan(f"persistent://public/default/{TOPIC}", SUBSCRIPTION, "reset", {"to": "earliest"})
    assert act.plan["replayed_messages"] == len(lines)
    assert act.plan["skipped_messages"] == 0
    done = console.apply(act, typed_name=SUBSCRIPTION)
    assert done.state == "applied"
    assert done.result["replayed_messages"] == len(lines)

    with consumer_of(shared_vela) as consumer:
        assert consume(consumer, len(lines)) == whole
