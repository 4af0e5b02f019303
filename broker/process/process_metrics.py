"""Metrics of the process as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from broker.log.cache import EntryCache
    from broker.log.writer import Writer
    from broker.producers.publish_budget import PublishBudget
    from broker.pulls.parked import ParkedPulls
    from broker.topics.topics import Topics
    from broker.upkeep.lifetime import Lifetime
    from broker.upkeep.outbox import OutboxMover

__all__ = ["ProcessMetrics"]


class ProcessMetrics(Collector):
    """Collects the metrics of the whole process for Prometheus."""

    def __init__(
        self,
        *,
        topics: Topics,
        lifetime: Lifetime,
        outbox: OutboxMover,
        pulls: ParkedPulls,
        writer: Writer,
        publishes: PublishBudget,
        cache: EntryCache,
        refused_requests: Mapping[str, int],
        is_ready: Callable[[], bool],
        tick_age_s: Callable[[], float],
    ) -> None:
        self._topics = topics
        self._lifetime = lifetime
        self._outbox = outbox
        self._pulls = pulls
        self._writer = writer
        self._publishes = publishes
        self._cache = cache
        self._refused_requests = refused_requests
        self._is_ready = is_ready
        self._tick_age_s = tick_age_s

    def collect(self) -> Iterator[Metric]:
        yield from self._gauges()
        yield from self._counters()
        pin = self._lifetime.pin
        oldest = GaugeMetricFamily(
            "vela_oldest_segment_opened_seconds",
            "Unix time at which the oldest closed segment was opened, if a cursor keeps it; the labels name the cursor",
            labels=("topic", "subscription"),
        )
        if pin is not None:
            oldest.add_metric((pin.topic_name, pin.subscription), pin.opened_ms / 1000)
        yield oldest
        answers = CounterMetricFamily(
            "vela_pull_answers_total", "answers to pulls, by outcome", labels=("outcome",)
        )
        for status, count in self._pulls.answers.items():
            answers.add_metric((status.value,), count)
        yield answers
        refused = CounterMetricFamily(
            "vela_refused_requests_total",
            "requests of binary clients that were refused, by kind",
            labels=("request",),
        )
        for request, count in self._refused_requests.items():
            refused.add_metric((request,), count)
        yield refused

    def _gauges(self) -> Iterator[Metric]:
        for name, text, value in (
            ("pulsar_broker_topics_count", "topics in memory", len(self._topics.loaded)),
            ("vela_broker_ready", "1 while clients are served", self._is_ready()),
            (
                "vela_tick_age_seconds",
                "seconds since Celery's last tick reached the broker, or since the broker's start",
                self._tick_age_s(),
            ),
            (
                "vela_segments_count",
                "segments, which are tables of entries",
                self._lifetime.segment_drops.segments,
            ),
            ("vela_cache_bytes", "bytes of entries in the cache", self._cache.size_bytes),
            ("vela_pulls_held", "long-poll requests that wait for a message now", len(self._pulls)),
            (
                "vela_unanswered_publish_bytes",
                "bytes of publishes that wait for their receipts, over all connections",
                self._publishes.size_bytes,
            ),
        ):
            yield GaugeMetricFamily(name, text, value=value)

    def _counters(self) -> Iterator[Metric]:
        lifetime, outbox, pulls = self._lifetime, self._outbox, self._pulls
        for name, text, value in (
            ("vela_writer_commits_total", "append statements that were committed", self._writer.commits),
            (
                "vela_writer_unknown_outcomes_total",
                "commits whose connection died before the answer, so the broker had to look up the outcome",
                self._writer.unknown_outcomes,
            ),
            (
                "vela_publish_pauses_total",
                "times the broker stopped reading from a producer because unanswered bytes were above the limit",
                self._publishes.pauses,
            ),
            ("vela_trimmed_bytes_total", "bytes of trimmed ledgers", lifetime.trimmed_bytes),
            ("vela_segments_dropped_total", "segments dropped", lifetime.segment_drops.dropped),
            (
                "vela_segments_copied_entries_total",
                "entries copied out of closed segments, so that these could be dropped",
                lifetime.segment_drops.copied_entries,
            ),
            (
                "vela_offloaded_ledgers_total",
                "offloaded ledgers that the broker began to read from their files",
                lifetime.offloads.ledgers,
            ),
            (
                "vela_offloaded_bytes_total",
                "bytes of offloaded ledgers that the broker began to read from their files",
                lifetime.offloads.size_bytes,
            ),
            ("vela_outbox_moved_total", "messages moved from the outbox into their topics", outbox.moved),
            (
                "vela_outbox_refused_total",
                "times a topic refused a message of the outbox",
                outbox.refused,
            ),
            ("vela_pulls_held_total", "long-poll requests that were parked", pulls.parked_total),
            (
                "vela_pull_wake_ups_total",
                "parked requests answered because a message arrived",
                pulls.wake_ups,
            ),
        ):
            yield CounterMetricFamily(name, text, value=value)
