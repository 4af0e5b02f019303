"""What subscriptions still take of the broker in one piece."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

    from broker.clock import Clock
    from broker.conf import BrokerSettings
    from broker.deadlines import Deadlines
    from broker.instruments import Instruments
    from broker.log.epochs import Epochs
    from broker.plugins import EntryFilter
    from broker.process.reports.reporter import Reporter
    from broker.storage.pool import ConnectionPool
    from broker.subscription.dispatch.interception import Interception
    from broker.subscription.flusher import Flusher
    from broker.tasks import BackgroundTasks

__all__ = ["Services"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """`may_send` is false while the broker lock is lost."""

    settings: BrokerSettings
    clock: Clock
    pool: ConnectionPool
    epochs: Epochs
    flusher: Flusher
    deadlines: Deadlines
    instruments: Instruments
    reporter: Reporter
    entry_filters: Sequence[EntryFilter]
    interception: Interception | None  # None = nobody is to be told
    tasks: BackgroundTasks
    next_key: Callable[[], int]
    may_send: Callable[[], bool]

    def keep(self, task: asyncio.Task[Any]) -> None:
        """See `BackgroundTasks.keep`."""
        self.tasks.keep(task)

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """See `BackgroundTasks.finish`."""
        return await self.tasks.finish(work)
