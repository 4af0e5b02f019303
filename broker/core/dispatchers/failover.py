"""The Failover dispatcher. One consumer gets everything in order until another consumer takes over."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

from broker.core.dispatchers.base import DispatchConsumer
from broker.core.dispatchers.hash_ring import ring_choice
from broker.core.dispatchers.single_active import SingleActiveDispatcher
from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType, check_attach

__all__ = ["FailoverDispatcher"]


class FailoverDispatcher(SingleActiveDispatcher):
    """Chooses the active consumer whenever a consumer joins or leaves.

    After a new choice, no consumer receives anything for `delay_ms` milliseconds. Further changes do not prolong the
    delay.
    """

    def __init__(
        self, *, topic_name: str, partition: int | None = None, delay_ms: int = 0, max_read_entries: int = 100
    ) -> None:
        super().__init__(max_read_entries=max_read_entries)
        self._topic_name = topic_name
        self._partition = partition
        self._delay_ms = delay_ms
        self._consumers: list[DispatchConsumer] = []
        self._chosen: DispatchConsumer | None = None  # Gets messages after the delay
        self._due_ms: int | None = None

    @property
    def consumers(self) -> Sequence[DispatchConsumer]:
        """The consumers, sorted by priority, then by name."""
        return self._consumers

    @property
    def active(self) -> DispatchConsumer | None:
        return self._chosen

    @property
    def due_ms(self) -> int | None:
        return self._due_ms

    def attach(self, consumer: DispatchConsumer, wanted: SubscriptionType, now_ms: int = 0) -> bool:
        """Add a consumer. Safe to repeat."""
        check_attach(wanted, current=SubscriptionType.FAILOVER, consumers=len(self._consumers))
        if consumer in self._consumers:
            return False
        insort(self._consumers, consumer, key=lambda known: (known.priority, known.name, known.key))
        self._choose(now_ms)
        return len(self._consumers) == 1

    def detach(self, consumer: DispatchConsumer, now_ms: int = 0) -> list[Position]:
        if consumer in self._consumers:
            self._consumers.remove(consumer)
            self._choose(now_ms)
        return []

    def run_due(self, now_ms: int) -> bool:
        if self._due_ms is None or now_ms < self._due_ms:
            return False
        self._due_ms = None
        self._active = self._chosen
        self._rewind()
        return True

    def _choose(self, now_ms: int) -> None:
        chosen = self._best()
        if chosen is self._chosen:
            return
        self._rewind()
        self._active = None
        self._chosen = chosen
        if chosen is None:
            self._due_ms = None
        elif self._due_ms is None:
            self._due_ms = now_ms + self._delay_ms

    def _best(self) -> DispatchConsumer | None:
        if not self._consumers:
            return None
        priority = self._consumers[0].priority
        best = [consumer for consumer in self._consumers if consumer.priority == priority]
        if self._partition is not None:
            return best[self._partition % len(best)]
        names: dict[str, DispatchConsumer] = {}
        for consumer in best:
            names.setdefault(consumer.name, consumer)
        return ring_choice(names, self._topic_name)
