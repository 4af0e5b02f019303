"""The page /metrics: its content, and that writing it never blocks the event loop for a long time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.core.subscription.types import SubscriptionType
from broker.process import metrics
from broker.process.disk_metrics import DiskMetrics
from tests.support.broker_harness import ManualClock
from tests.support.memory_broker import memory_broker
from tests.unit.broker.test_receiving import settled


async def test_the_page_is_prometheus_text_and_names_topics_and_subscriptions_whole() -> None:
    async with memory_broker() as run:
        producer = await run.producer('a"b')
        consumer = await run.consumer('a"b', subscription="s\\1", type_=SubscriptionType.SHARED, permits=10)
        positions = await producer.publish(3)
        await consumer.has(3)
        consumer.ack(positions[0])
        await settled(run)
        families = {each.name: each for each in text_string_to_metric_families(run.metrics_text())}
        (backlog,) = families["vela_subscription_backlog_messages"].samples
        assert backlog.value == 2
        assert backlog.labels == {
            "cluster": "vela",
            "namespace": "public/default",
            "topic": 'persistent://public/default/a"b',
            "subscription": "s\\1",
        }
        assert families["pulsar_in_messages"].samples[0].value == 3
        reasons = {
            each.labels["reason"]: each.value for each in families["vela_subscription_not_sent"].samples
        }
        assert reasons["corrupt"] == 0


async def test_without_topic_metrics_the_page_has_the_sums_of_each_namespace() -> None:
    async with memory_broker(topic_metrics=False) as run:
        for topic, messages in (("a", 2), ("b", 3), ("persistent://public/other/c", 4)):
            producer = await run.producer(topic)
            consumer = await run.consumer(topic, permits=10)
            await producer.publish(messages)
            await consumer.has(messages)
        text = run.metrics_text()
    assert "topic=" not in text
    families = {each.name: each for each in text_string_to_metric_families(text)}

    def by_namespace(name: str) -> dict[str, float]:
        return {each.labels["namespace"]: each.value for each in families[name].samples}

    assert by_namespace("pulsar_in_messages") == {"public/default": 5, "public/other": 4}
    assert by_namespace("vela_subscription_backlog_messages") == {"public/default": 5, "public/other": 4}
    assert by_namespace("pulsar_topics_count") == {"public/default": 2, "public/other": 1}
    assert by_namespace("vela_namespace_subscriptions") == {"public/default": 2, "public/other": 1}
    assert {each.labels["state"] for each in families["vela_namespace_subscriptions"].samples} == {"watching"}
    assert "vela_subscription_state" not in families
    assert "pulsar_storage_backlog_quota_limit" not in families


async def test_the_age_of_the_tick_starts_again_with_each_tick() -> None:
    clock = ManualClock()
    async with memory_broker(clock=clock) as run:
        clock.advance(7000)
        assert "\nvela_tick_age_seconds 7.0\n" in run.metrics_text()
        run.broker._on_notify("vela_tick", "{}")
        assert "\nvela_tick_age_seconds 0.0\n" in run.metrics_text()


def test_the_disk_has_series_only_if_the_database_is_embedded(tmp_path: Path) -> None:
    def values(folder: Path | None) -> list[float]:
        return [sample.value for metric in DiskMetrics(folder).collect() for sample in metric.samples]

    free, size = values(tmp_path)
    assert 0 <= free <= size
    assert values(None) == values(tmp_path / "missing") == []


async def test_latencies_are_counted_once_for_each_group() -> None:
    async with memory_broker() as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=100)
        positions = await producer.publish(50)
        await consumer.has(50)
        consumer.ack(*positions)
        await settled(run)
        await run.broker.flusher.flush_now()
        counts = {
            name: int(count)
            for name, count in re.findall(
                r"^vela_(\w+)_latency_seconds_count (\S+)\.0$", run.metrics_text(), re.MULTILINE
            )
        }
        assert counts.keys() == {"publish", "dispatch", "ack"}
        assert all(0 < count <= 3 for count in counts.values()), counts


async def test_a_page_of_many_subscriptions_is_written_in_slices_that_add_up_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with memory_broker() as run:
        for number in range(40):
            await run.consumer(f"t{number}")
        whole = run.metrics_text()
        calls = 0

        def clock() -> float:
            nonlocal calls
            calls += 1
            return calls * metrics.SLICE_S / 4

        monkeypatch.setattr("broker.process.metrics.time.perf_counter", clock)
        slices = list(run.broker.metrics_page())
        assert b"".join(slices).decode() == whole
        lines = [part.count(b"\n") for part in slices[1:]]
        assert max(lines) <= 3 * 4 * metrics._LOOK_EVERY + 2, "three lines at most for each of four looks"
        assert len(slices) > 40
