"""The tick of Celery's beat and the broker's timing wheel each suffice to redeliver, to deliver
delayed messages and to answer parked pulls in time.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from config.environment import PROJECT_DIR
from tests.support.ports import free_ports
from tests.support.vela import VelaProcess, started_vela
from tests.support.waiting import wait_until

ACK_TIMEOUT_MS = 1000
DELAY_MS = 1500
PULL_MS = 1500  # how long a pull asks to wait
TICK_S = 1.0
LONGEST_S = max(ACK_TIMEOUT_MS, DELAY_MS, PULL_MS) / 1000
BEAT_LIMIT_S = LONGEST_S + 2 * TICK_S + 3.0  # two ticks, plus time for a busy machine
ROUND_LIMIT_S = 5.0 + 10.0  # beat's period, plus time for a busy machine
WHEEL_LIMIT_S = LONGEST_S + 3.0


def consumer_of(url: str, topic: str) -> ClientConnection:
    path = f"/ws/v2/consumer/persistent/public/default/{topic}/s"
    query = f"subscriptionType=Shared&subscriptionInitialPosition=Earliest&ackTimeoutMillis={ACK_TIMEOUT_MS}"
    return connect(f"{url}{path}?{query}")


def publish(url: str, payload: bytes, topic: str, **more: object) -> None:
    with connect(f"{url}/ws/v2/producer/persistent/public/default/{topic}") as producer:
        producer.send(json.dumps({"payload": base64.b64encode(payload).decode(), **more}))
        assert json.loads(producer.recv(timeout=20))["result"] == "ok"


def assert_comes_again(url: str, limit_s: float) -> None:
    """Check that an unacked message is redelivered with a higher count, and not before the timeout."""
    with consumer_of(url, "slow") as consumer:
        publish(url, b"slow", "slow")
        first = json.loads(consumer.recv(timeout=20))
        taken_s = time.monotonic()
        assert first["redeliveryCount"] == 0
        again = json.loads(consumer.recv(timeout=limit_s))
        waited_s = time.monotonic() - taken_s
        assert again["messageId"] == first["messageId"]
        assert again["redeliveryCount"] == 1
        assert waited_s >= ACK_TIMEOUT_MS / 1000 - 0.1, f"it was delivered again after only {waited_s:.2f} s"
        consumer.send(json.dumps({"messageId": again["messageId"]}))


def assert_comes_when_due(url: str, limit_s: float) -> None:
    """Check that a delayed message comes neither early nor late, and that a message without a delay overtakes it."""
    with consumer_of(url, "late") as consumer:
        due_s = time.time() + DELAY_MS / 1000
        publish(url, b"later", "late", deliverAt=round(due_s * 1000))
        publish(url, b"now", "late")
        first = json.loads(consumer.recv(timeout=20))
        assert base64.b64decode(first["payload"]) == b"now"
        consumer.send(json.dumps({"messageId": first["messageId"]}))
        late = json.loads(consumer.recv(timeout=limit_s))
        assert time.time() >= due_s - 0.001, "it came before its time"
        assert base64.b64decode(late["payload"]) == b"later"
        assert late["redeliveryCount"] == 0
        consumer.send(json.dumps({"messageId": late["messageId"]}))


def assert_letters_are_written(url: str, limit_s: float) -> None:
    """Check that a message that is negatively acked twice is redelivered once and then a dead letter, each in time."""
    path, shared = "/ws/v2/consumer/persistent/public/default", "subscriptionType=Shared"
    query = f"{shared}&subscriptionInitialPosition=Earliest"
    with (
        connect(f"{url}{path}/bad/s?{query}&negativeAckRedeliveryDelay=1000&maxRedeliverCount=1") as consumer,
        connect(f"{url}{path}/bad-s-DLQ/look?{query}") as letters,
    ):
        publish(url, b"bad", "bad")
        for count in range(2):
            push = json.loads(consumer.recv(timeout=20 if not count else limit_s))
            assert push["redeliveryCount"] == count
            nacked_s = time.monotonic()
            consumer.send(json.dumps({"type": "negativeAcknowledge", "messageId": push["messageId"]}))
        letter = json.loads(letters.recv(timeout=limit_s))
        assert time.monotonic() - nacked_s >= 0.9
        assert letter["properties"]["REAL_TOPIC"] == "persistent://public/default/bad"


def assert_a_parked_pull_is_answered(url: str, limit_s: float) -> None:
    """Check that a pull to which no message arrives gets an empty answer, neither early nor late."""
    with connect(f"{url}/ws/v2/producer/persistent/public/default/quiet"):
        pass  # connecting a producer creates the topic
    path = f"/pull/v1/public/default/quiet?offset=0&suspend=true&suspend_timeout_ms={PULL_MS}"
    parked_s = time.monotonic()
    with urllib.request.urlopen(url.replace("ws://", "http://") + path, timeout=limit_s) as answer:
        assert json.load(answer)["code"] == "PULL_NOT_FOUND"
    waited_s = time.monotonic() - parked_s
    assert waited_s >= PULL_MS / 1000 - 0.1, f"it was answered after {waited_s:.2f} s already"


@pytest.fixture(scope="module")
def without_wheel(vela_data: Path) -> Iterator[VelaProcess]:
    with started_vela({"VELA_WHEEL": "0"}, data=vela_data) as vela:
        yield vela


def assert_every_time_is_kept(url: str, limit_s: float) -> None:
    """Run all checks at the same time, because each mostly waits."""
    checks = (
        assert_comes_again,
        assert_comes_when_due,
        assert_letters_are_written,
        assert_a_parked_pull_is_answered,
    )
    with ThreadPoolExecutor(len(checks)) as threads:
        for done in [threads.submit(check, url, limit_s) for check in checks]:
            done.result()


def test_beat_alone_keeps_every_time_when_the_wheel_is_off(without_wheel: VelaProcess) -> None:
    assert_every_time_is_kept(without_wheel.websocket_url, BEAT_LIMIT_S)


def test_beat_alone_asks_for_the_rounds_of_policies(without_wheel: VelaProcess) -> None:
    url = without_wheel.websocket_url
    with connect(f"{url}/ws/v2/producer/persistent/public/default/full") as producer:
        with connect(f"{url}/ws/v2/consumer/persistent/public/default/full/slow"):
            pass
        without_wheel.manage("setpolicy", "full", "backlog_quota_bytes=0", "--yes")
        producer.send(json.dumps({"payload": ""}))
        assert json.loads(producer.recv(timeout=20))["result"] == "ok"
        with pytest.raises(ConnectionClosed) as closed:
            producer.recv(timeout=ROUND_LIMIT_S)
    assert closed.value.rcvd is not None
    assert "subscription slow" in closed.value.rcvd.reason
    with (
        pytest.raises(InvalidStatus, match="503"),
        connect(f"{url}/ws/v2/producer/persistent/public/default/full"),
    ):
        pass


def test_the_wheel_alone_keeps_every_time_when_celery_does_not_run(
    database_url: str,
) -> None:
    with _broker_alone(database_url) as url:
        assert_every_time_is_kept(url, WHEEL_LIMIT_S)


@contextmanager
def _broker_alone(database_url: str) -> Iterator[str]:
    http_port, pulsar_port = free_ports(2)
    environment = {
        "PATH": "/usr/bin:/bin",
        "DATABASE_URL": database_url,
        "VELA_HTTP_PORT": str(http_port),
        "VELA_PULSAR_PORT": str(pulsar_port),
        "VELA_SECRET_KEY": "for this test only, and long enough for Django to like it",
    }
    broker = subprocess.Popen([sys.executable, "manage.py", "runbroker"], cwd=PROJECT_DIR, env=environment)
    try:
        wait_until(lambda: _ready(http_port), "the broker to be ready", timeout_s=60)
        yield f"ws://127.0.0.1:{http_port}"
    finally:
        broker.terminate()
        assert broker.wait(15) == 0


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
