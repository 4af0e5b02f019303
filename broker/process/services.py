"""What every topic and subscription needs of the broker, handed down in one piece."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from broker.clock import Clock
from broker.conf import BrokerSettings
from broker.core.errors import BrokerError
from broker.storage.pool import ConnectionPool

if TYPE_CHECKING:
    from broker.deadlines import Deadlines
    from broker.instruments import Instruments
    from broker.log.cache import EntryCache
    from broker.log.epochs import Epochs
    from broker.log.segments import Segments
    from broker.log.writer import Writer
    from broker.plugins import EntryFilter
    from broker.process.ownership import Ownership
    from broker.process.reports.reporter import Reporter
    from broker.producers.publish_budget import PublishBudget
    from broker.producers.schemas import Schemas
    from broker.pulls.parked import Holds
    from broker.subscription.dispatch.interception import Interception
    from broker.subscription.flusher import Flusher
    from broker.topics.topic import Topic

__all__ = ["Services"]

log = logging.getLogger(__name__)
T = TypeVar("T")


class Services:
    """The parts of one broker process. `may_send` is false while the broker lock is lost (design 6)."""

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
    holds: Holds
    publishes: PublishBudget
    instruments: Instruments
    reporter: Reporter
    entry_filters: Sequence[EntryFilter]
    interception: Interception | None  # None = nobody is to be told
    schemas: Schemas
    forget_topic: Callable[[Topic], None]

    def __init__(self) -> None:
        self._keys = itertools.count(1)
        self._tasks: set[asyncio.Task[Any]] = set()

    def next_key(self) -> int:
        """A number for a producer or consumer, unique in this process."""
        return next(self._keys)

    def may_send(self) -> bool:
        """Whether this process is sure to own its topics."""
        return self.ownership.is_held

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Hold a task that nobody awaits until it is done, and say at ERROR when it died.

        The loop alone keeps only a weak reference.
        """
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Await work that goes on to its end even when whoever asked for it, a client's connection, is gone."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():  # its caller is gone, so only the log can say what comes of it
                task.add_done_callback(self._done)
            raise

    async def stop_tasks(self) -> None:
        """End what is still under way at a stop."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, BrokerError):
            log.info("task %s was refused: %s", task.get_name(), error)
        else:
            log.error("task %s died", task.get_name(), exc_info=error)
