"""Regularly log a line of statistics for each consumer and producer, as Apache's clients do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from vela.aio.consumers.consumer import Consumer
from vela.aio.producers.producer import Producer
from vela.core.consuming.statistics import ConsumerStatistics, rate_per_s
from vela.core.producing.statistics import ProducerStatistics

__all__ = ["StatisticsLog"]


class StatisticsLog:
    """The statistics log of one client. Rates are averages since the previous line."""

    def __init__(
        self, made: Callable[[], Iterable[object]], logger: logging.Logger, interval_s: float
    ) -> None:
        """`made` returns the client's open consumers and producers."""
        self._made = made
        self._logger = logger
        self._interval_s = interval_s
        self._before: dict[object, tuple[int, int]] = {}  # messages and bytes at the previous line
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start logging, unless it has already started or the interval is 0."""
        if self._task is None and self._interval_s > 0:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        """Stop logging."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            self.write(self._interval_s)

    def write(self, elapsed_s: float) -> None:
        """Log the lines now, `elapsed_s` after the previous ones."""
        before, self._before = self._before, {}
        for each in self._made():
            if isinstance(each, Consumer):
                taken = each.statistics()
                counts = (taken.messages_received, taken.bytes_received)
                self._logger.info(*_consumer_line(each, taken, before.get(each, (0, 0)), elapsed_s))
            elif isinstance(each, Producer):
                sent = each.statistics()
                counts = (sent.messages_sent, sent.bytes_sent)
                self._logger.info(*_producer_line(each, sent, before.get(each, (0, 0)), elapsed_s))
            else:
                continue
            self._before[each] = counts


def _consumer_line(
    consumer: Consumer, now: ConsumerStatistics, before: tuple[int, int], elapsed_s: float
) -> tuple[object, ...]:
    return (
        "consumer %s of %s, subscription %s: %.1f msg/s, %.1f kB/s; %d received, %d waiting, %d permits, %d failed",
        consumer.consumer_name(),
        consumer.topic(),
        consumer.subscription_name(),
        rate_per_s(before[0], now.messages_received, elapsed_s),
        rate_per_s(before[1], now.bytes_received, elapsed_s) / 1000,
        now.messages_received,
        now.messages_waiting,
        now.permits_available,
        now.receives_failed,
    )


def _producer_line(
    producer: Producer, now: ProducerStatistics, before: tuple[int, int], elapsed_s: float
) -> tuple[object, ...]:
    return (
        "producer %s of %s: %.1f msg/s, %.1f kB/s; %d stored, %d pending, %d failed, latency mean %.1f p99 %.0f ms",
        producer.producer_name(),
        producer.topic(),
        rate_per_s(before[0], now.messages_sent, elapsed_s),
        rate_per_s(before[1], now.bytes_sent, elapsed_s) / 1000,
        now.messages_sent,
        now.messages_pending,
        now.messages_failed,
        now.latency_mean_ms,
        now.latency_p99_ms,
    )
