"""A Vela with VELA_OTEL=1 and VELA_LOG_FORMAT=json: Apache's client, a collector, and the log files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.trace_collector import TraceCollector, attributes_of, started_collector
from tests.support.vela import ADMIN_PASSWORD, VelaProcess, started_vela
from tests.support.waiting import wait_until

RECEIVE_MS = 20_000
SECRET_KEY = "a-secret-key-that-no-log-may-show-0123456789-abcdefghij"
ALWAYS = ["time", "level", "logger", "pid", "message"]
PARENT_SPAN = "00f067aa0ba902b7"


@pytest.fixture(scope="module")
def collector() -> Iterator[TraceCollector]:
    with started_collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def vela(collector: TraceCollector, vela_data: Path) -> Iterator[VelaProcess]:
    settings = {
        "VELA_OTEL": "1",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "VELA_LOG_FORMAT": "json",
        "VELA_SECRET_KEY": SECRET_KEY,
    }
    with started_vela(settings, data=vela_data) as process:
        yield process


@pytest.fixture(scope="module")
def client(vela: VelaProcess) -> Iterator[pulsar.Client]:
    client = pulsar.Client(vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield client
    client.close()


def traceparent(number: int, *, is_sampled: bool = True) -> tuple[str, dict[str, str]]:
    """A trace id, and the properties that carry it."""
    trace_id = f"{number:032x}"
    return trace_id, {
        "traceparent": f"00-{trace_id}-{PARENT_SPAN}-0{int(is_sampled)}",
        "tracestate": "shop=7",
    }


def exported(collector: TraceCollector, trace_id: str, count: int) -> list[Span]:
    """The spans of a trace, once there are `count`."""
    wait_until(lambda: len(collector.spans(trace_id)) >= count, f"{count} spans of {trace_id}")
    spans = collector.spans(trace_id)
    assert len(spans) == count
    return spans


def operation(span: Span) -> str:
    """What the span is about: publish, dispatch or ack."""
    return str(attributes_of(span)["messaging.operation.name"])


def received(consumer: Any) -> Any:
    return consumer.receive(timeout_millis=RECEIVE_MS)


def test_a_sampled_message_has_spans_of_publish_dispatch_and_ack(
    client: pulsar.Client, collector: TraceCollector
) -> None:
    topic = "persistent://public/default/traced"
    consumer = client.subscribe(topic, "billing", pulsar.ConsumerType.Shared, consumer_name="worker-1")
    producer = client.create_producer(topic)
    trace_id, properties = traceparent(0x1001)
    unsampled_id, unsampled = traceparent(0x1002, is_sampled=False)
    producer.send(b"plain")
    producer.send(b"not sampled", properties=unsampled)
    sent = producer.send(b"traced", properties=properties)
    for _ in range(3):
        consumer.acknowledge(message := received(consumer))
    assert message.properties()["traceparent"] == properties["traceparent"]

    spans = {operation(span): span for span in exported(collector, trace_id, 3)}
    position = f"{sent.ledger_id()}:{sent.entry_id()}"
    subscription = {"messaging.destination.subscription.name": "billing", "vela.consumer": "worker-1"}
    for name, span in spans.items():
        assert span.name == f"{name} {topic}"
        assert span.parent_span_id.hex() == PARENT_SPAN
        assert span.trace_state == "shop=7"
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        expected = {
            "messaging.system": "pulsar",
            "messaging.destination.name": topic,
            "messaging.message.id": position,
        }
        assert expected.items() <= attributes_of(span).items()
    publish, dispatch, ack = spans["publish"], spans["dispatch"], spans["ack"]
    (stored,) = publish.events
    assert stored.name == "stored"
    assert publish.start_time_unix_nano <= stored.time_unix_nano <= publish.end_time_unix_nano
    assert publish.kind == Span.SPAN_KIND_SERVER
    assert (subscription | {"vela.redelivery_count": 0}).items() <= attributes_of(dispatch).items()
    assert subscription.items() <= attributes_of(ack).items()
    assert ack.start_time_unix_nano >= dispatch.end_time_unix_nano
    assert collector.spans(unsampled_id) == []
    assert collector.services() == {"vela"}


def test_a_redelivery_has_its_own_span_and_a_cumulative_ack_ends_every_span(
    client: pulsar.Client, collector: TraceCollector
) -> None:
    topic = "persistent://public/default/traced-again"
    shared = client.subscribe(
        topic, "shared", pulsar.ConsumerType.Shared, negative_ack_redelivery_delay_ms=100
    )
    exclusive = client.subscribe(topic, "exclusive")
    producer = client.create_producer(topic)
    trace_ids = []
    for number in (0x2001, 0x2002):
        trace_id, properties = traceparent(number)
        trace_ids.append(trace_id)
        producer.send(b"x", properties=properties)
    for _ in range(2):
        last = received(exclusive)
    exclusive.acknowledge_cumulative(last)
    first, second = received(shared), received(shared)
    shared.acknowledge(second)
    shared.negative_acknowledge(first)
    shared.acknowledge(received(shared))
    for trace_id, dispatches in zip(trace_ids, (3, 2), strict=True):
        names = sorted(operation(span) for span in exported(collector, trace_id, 1 + dispatches + 2))
        assert names == sorted(["publish", *["dispatch"] * dispatches, "ack", "ack"])


def test_a_batch_is_not_traced(client: pulsar.Client, collector: TraceCollector) -> None:
    topic = "persistent://public/default/traced-batch"
    consumer = client.subscribe(topic, "s")
    batching = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=10)
    trace_id, properties = traceparent(0x3001)
    batching.send_async(b"one", lambda *_: None, properties=properties)
    batching.send_async(b"two", lambda *_: None, properties=properties)
    batching.flush()
    for _ in range(2):
        consumer.acknowledge(received(consumer))
    alone_id, alone = traceparent(0x3002)
    client.create_producer(topic).send(b"alone", properties=alone)
    exported(collector, alone_id, 2)  # by then, earlier spans have been exported too
    assert collector.spans(trace_id) == []


def test_every_line_of_every_log_is_json_without_secrets(vela: VelaProcess, client: pulsar.Client) -> None:
    old = vela.pids()["beat"]
    vela.kill("beat")
    wait_until(lambda: vela.pids().get("beat", old) != old, "beat started again")
    database_password = vela.database_url.partition("://")[2].partition("@")[0].partition(":")[2]
    logs = {path.stem: path.read_text() for path in (vela.data_dir / "log").glob("*.log")}
    own = {name: text for name, text in logs.items() if not name.startswith("postgres")}
    assert {"broker", "console", "worker", "worker-tick", "beat"} <= own.keys()
    for name, text in (own | {"supervisor": vela.text()}).items():
        for line in text.splitlines():
            assert list(json.loads(line))[:5] == ALWAYS, f"{name}: {line}"
        for secret in (SECRET_KEY, ADMIN_PASSWORD, database_password):
            assert secret
            assert secret not in text
    served = [json.loads(line)["message"] for line in own["broker"].splitlines()]
    assert any(message.startswith("serving ") for message in served)
    said = [json.loads(line) for line in vela.text().splitlines()]
    assert any(
        line["message"].startswith("beat was ended by SIGKILL") and line["level"] == "WARNING"
        for line in said
    )
