"""Failover: one of many consumers gets everything, in order. When it leaves, another one takes over."""

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
    """The Failover dispatcher. It chooses a consumer at every join and leave.

    If the choice changes, no consumer receives anything for `delay_ms`; then `run_due` makes the chosen consumer
    active. Entries that the old consumer acks during the wait are not sent again. Further changes during the wait do
    not prolong it.
    """

    def __init__(
        self, *, topic_name: str, partition: int | None = None, delay_ms: int = 0, max_read_entries: int = 100
    ) -> None:
        """If `partition` is None, a hash ring chooses by the topic's name."""
        super().__init__(max_read_entries=max_read_entries)
        self._topic_name = topic_name
        self._partition = partition
        self._delay_ms = delay_ms
        self._consumers: list[DispatchConsumer] = []
        self._chosen: DispatchConsumer | None = None  # active after the wait
        self._due_ms: int | None = None

    @property
    def consumers(self) -> Sequence[DispatchConsumer]:
        """The connected consumers, by priority, then name."""
        return self._consumers

    @property
    def active(self) -> DispatchConsumer | None:
        """The chosen consumer. No consumer is served before `due_ms`."""
        return self._chosen

    @property
    def due_ms(self) -> int | None:
        """The time at which the chosen consumer becomes active, in Unix milliseconds.

        None = it is active already, or there are no consumers.
        """
        return self._due_ms

    def attach(self, consumer: DispatchConsumer, wanted: SubscriptionType, now_ms: int = 0) -> bool:
        """Add a consumer. Safe to repeat: a consumer that is already attached stays unchanged."""
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
        self._rewind()  # the old consumer's unacked entries are sent again
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
