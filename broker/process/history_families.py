"""Metrics of offloaded ledgers and of compaction, under Pulsar's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.process.metric_families import Family

if TYPE_CHECKING:
    from broker.log.compaction.counters import CompactionCounters
    from broker.storage.log.compaction import Kept
    from broker.topics.topic import Topic

__all__ = ["HISTORY"]


def _counted(value: Callable[[CompactionCounters], float]) -> Callable[[Topic], float | None]:
    def of(topic: Topic) -> float | None:
        counters = topic.compacted.counters
        return value(counters) if counters.has_run else None

    return of


def _kept(value: Callable[[Kept], float]) -> Callable[[Topic], float | None]:
    def of(topic: Topic) -> float | None:
        stored = topic.compacted.stored
        return None if stored is None or not stored.generation else value(stored.kept)

    return of


def _if_offloaded(value: Callable[[Topic], float]) -> Callable[[Topic], float | None]:
    return lambda topic: value(topic) if topic.log.files else None


HISTORY: Final[list[Family[Topic]]] = [
    Family(
        "pulsar_storage_offloaded_size",
        "gauge",
        "bytes of the entries that are read from offloaded ledgers",
        _if_offloaded(lambda topic: topic.log.offloaded_bytes),
    ),
    Family(
        "brk_ledgeroffloader_read_offload_error",
        "counter",
        "reads of offloaded ledgers that failed",
        _if_offloaded(lambda topic: topic.reader.failed_file_reads),
    ),
    Family(
        "pulsar_compaction_succeed_count",
        "counter",
        "compactions that succeeded since the topic was loaded",
        _counted(lambda counters: counters.succeeded),
    ),
    Family(
        "pulsar_compaction_failed_count",
        "counter",
        "compactions that failed since the topic was loaded",
        _counted(lambda counters: counters.failed),
    ),
    Family(
        "pulsar_compaction_removed_event_count",
        "counter",
        "messages that compactions removed since the topic was loaded",
        _counted(lambda counters: counters.removed_messages),
    ),
    Family(
        "pulsar_compaction_duration_time_in_mills",
        "gauge",
        "duration of the latest compaction that succeeded, in milliseconds",
        _counted(lambda counters: counters.duration_ms),
        adds_up=False,
    ),
    Family(
        "pulsar_compaction_read_throughput",
        "gauge",
        "bytes per second that the latest successful compaction read",
        _counted(lambda counters: counters.per_s(counters.read_bytes)),
        adds_up=False,
    ),
    Family(
        "pulsar_compaction_write_throughput",
        "gauge",
        "bytes per second that the latest successful compaction stored",
        _counted(lambda counters: counters.per_s(counters.written_bytes)),
        adds_up=False,
    ),
    Family(
        "pulsar_compaction_compacted_entries_count",
        "gauge",
        "entries in the compacted topic",
        _kept(lambda kept: kept.entries),
    ),
    Family(
        "pulsar_compaction_compacted_entries_size",
        "gauge",
        "bytes of the entries in the compacted topic",
        _kept(lambda kept: kept.size_bytes),
    ),
]
