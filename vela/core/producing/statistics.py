"""The statistics of a producer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["ProducerCounters", "ProducerStatistics"]

_BUCKETS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerStatistics:
    """Counts since the producer was created. A partitioned producer has the sum of its partitions."""

    messages_sent: int  # with a receipt
    bytes_sent: int  # bytes of their payloads, as the application gave them
    entries_sent: int  # batches, single messages and chunks
    messages_failed: int
    messages_pending: int  # taken and not answered yet
    latency_mean_ms: float  # from sending to the receipt, per entry; 0 before the first
    latency_p99_ms: float  # rounded up to a power of two, but never above the maximum
    latency_max_ms: float


class ProducerCounters:
    """The counters. They are updated for each entry, not for each message."""

    __slots__ = ("_buckets", "_latency_max_ms", "_latency_ms", "bytes", "entries", "failed", "messages")

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0
        self.entries = 0
        self.failed = 0
        self._latency_ms = 0.0
        self._latency_max_ms = 0.0
        self._buckets = [0] * _BUCKETS  # bucket n: below 2^n ms

    def stored(self, messages: int, payload_bytes: int, latency_ms: float) -> None:
        """Count an entry that has its receipt."""
        self.entries += 1
        self.messages += messages
        self.bytes += payload_bytes
        self._latency_ms += latency_ms
        if latency_ms > self._latency_max_ms:
            self._latency_max_ms = latency_ms
        self._buckets[min(int(latency_ms).bit_length(), _BUCKETS - 1)] += 1

    def add(self, other: ProducerCounters) -> None:
        self.entries += other.entries
        self.messages += other.messages
        self.bytes += other.bytes
        self.failed += other.failed
        self._latency_ms += other._latency_ms
        self._latency_max_ms = max(self._latency_max_ms, other._latency_max_ms)
        self._buckets = [mine + more for mine, more in zip(self._buckets, other._buckets, strict=True)]

    def snapshot(self, messages_pending: int) -> ProducerStatistics:
        return ProducerStatistics(
            messages_sent=self.messages,
            bytes_sent=self.bytes,
            entries_sent=self.entries,
            messages_failed=self.failed,
            messages_pending=messages_pending,
            latency_mean_ms=self._latency_ms / self.entries if self.entries else 0.0,
            latency_p99_ms=min(self._percentile_ms(0.99), self._latency_max_ms),
            latency_max_ms=self._latency_max_ms,
        )

    def _percentile_ms(self, share: float) -> float:
        wanted, seen = share * self.entries, 0
        for bits, count in enumerate(self._buckets):
            seen += count
            if count and seen >= wanted:
                return float(1 << bits)
        return 0.0
