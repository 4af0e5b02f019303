"""What subscriptions and topics still take of the broker in one piece."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from broker.clock import Clock
from broker.conf import BrokerSettings
from broker.storage.pool import ConnectionPool
from broker.tasks import BackgroundTasks

if TYPE_CHECKING:
    import asyncio

    from broker.deadlines import Deadlines
    from broker.instruments import Instruments
    from broker.log.cache import EntryCache
    from broker.log.epochs import Epochs
    from broker.log.segments import Segments
    from broker.log.writer import Writer
    from broker.plugins import EntryFilter
    from broker.process.ownership import Ownership
    from broker.process.reports.reporter import Reporter
    from broker.producers.deduplication_keeper import DeduplicationKeeper
    from broker.producers.publish_budget import PublishBudget
    from broker.producers.schemas import Schemas
    from broker.pulls.parked import ParkedPulls
    from broker.subscription.dispatch.interception import Interception
    from broker.subscription.flusher import Flusher
    from broker.topics.topic import Topic

__all__ = ["Services"]

T = TypeVar("T")


class Services:
    """The parts of one broker process."""

    settings: BrokerSettings
    clock: Clock
    pool: ConnectionPool
    cache: EntryCache
    segments: Segments
    ownership: Ownership
    epochs: Epochs
    writer: Writer
    flusher: Flusher
    deadlines: Deadlines
    pulls: ParkedPulls
    publishes: PublishBudget
    instruments: Instruments
    reporter: Reporter
    entry_filters: Sequence[EntryFilter]
    interception: Interception | None  # None = nobody is to be told
    schemas: Schemas
    deduplication: DeduplicationKeeper
    forget_topic: Callable[[Topic], None]

    def __init__(self) -> None:
        self._keys = itertools.count(1)
        self.tasks = BackgroundTasks()

    def next_key(self) -> int:
        """A number for a producer or consumer, unique in this process."""
        return next(self._keys)

    def may_send(self) -> bool:
        """Whether this process is sure to own its topics: false while the broker lock is lost."""
        return self.ownership.is_held

    def keep(self, task: asyncio.Task[Any]) -> None:
        """See `BackgroundTasks.keep`."""
        self.tasks.keep(task)

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """See `BackgroundTasks.finish`."""
        return await self.tasks.finish(work)
