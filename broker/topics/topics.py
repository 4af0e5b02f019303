"""The persistent topics in this process's memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from broker.core.errors import NotAllowed, ServiceNotReady, TopicNotFound
from broker.core.topic_name import TopicName
from broker.storage.pool import repeat_until_done
from broker.storage.topics import topics as store
from broker.topics.auto_creation import topic_not_found
from broker.topics.gates import TopicGates

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.storage.pool import ConnectionPool
    from broker.topics.auto_creation import TopicCreation
    from broker.topics.topic import Topic

__all__ = ["Topics"]

# The task that loads a topic, and whether the task may create the topic.
_Load: TypeAlias = tuple["asyncio.Task[Topic]", bool]


class Topics:
    """The persistent topics. Use them only from the event loop.

    `require_ready` raises an error while this process must not take ownership of topics.
    """

    def __init__(
        self,
        load: Callable[[TopicName, store.TopicRow], Awaitable[Topic]],
        creation: TopicCreation,
        *,
        pool: ConnectionPool,
        clock: Clock,
        require_ready: Callable[[], None],
    ) -> None:
        self._load = load
        self._creation = creation
        self._pool = pool
        self._clock = clock
        self._require_ready = require_ready
        self.loaded: dict[str, Topic] = {}  # Topics by full name
        self.gates = TopicGates()
        self._loading: dict[str, _Load] = {}

    def all(self) -> list[Topic]:
        """Return the topics in memory."""
        return list(self.loaded.values())

    async def open(self, name: TopicName, *, create: bool) -> Topic:
        """Return a topic, and load it if necessary. Concurrent callers share one load.

        With `create`, a missing topic is created if the policies allow that. Raises TopicNotFound and ServiceNotReady.
        Raises NotAllowed for a partitioned or a non-persistent topic.
        """
        while True:
            await self.gates.passed(name.full)
            self._require_ready()
            known = self.loaded.get(name.full)
            if known is not None and known.is_open:
                known.asked_ms = self._clock.now_ms()
                return known
            loading, creates = self._loading.get(name.full) or self._begin_to_load(name, create=create)
            try:
                return await asyncio.shield(loading)
            except TopicNotFound:
                if creates or not create:
                    raise
                # Another caller began this load without `create`. Try again with `create`.

    def is_loading(self, full_name: str) -> bool:
        """Return whether a topic is being loaded."""
        return full_name in self._loading

    async def open_named(self, full_name: str) -> Topic:
        """Open a stored topic by its full name. Raises the errors of `open`."""
        return await self.open(TopicName.parse(full_name), create=False)

    async def partition_count(self, name: TopicName, *, create: bool) -> int:
        """Return the number of a topic's partitions, or 0 if the topic is not partitioned.

        With `create`, a missing topic is created if the policies say that new topics are partitioned.
        Raises ServiceNotReady. Raises TopicNotFound if a persistent topic is missing and must not be created.
        """
        self._require_ready()
        row = await self._find(name)
        if row is not None:
            return row.partitions
        if name.domain != "persistent":
            return 0
        if not create:
            raise topic_not_found(name)
        partitions = await self._creation.partitions_of_new(name)
        if partitions:
            await self._creation.make(name, partitions)
        return partitions

    def forget(self, topic: Topic) -> None:
        """Forget a topic whose log is closed. Safe to repeat."""
        if self.loaded.get(topic.name.full) is topic:
            del self.loaded[topic.name.full]

    async def loads_done(self) -> None:
        """Wait until all current loads have succeeded or failed."""
        under_way = [task for task, _ in self._loading.values()]
        await asyncio.gather(*(asyncio.shield(task) for task in under_way), return_exceptions=True)

    def cancel_loads(self) -> None:
        """Cancel the current loads."""
        for loading, _ in list(self._loading.values()):
            loading.cancel()

    def _begin_to_load(self, name: TopicName, *, create: bool) -> _Load:
        task = asyncio.create_task(self._find_and_load(name, create=create))
        task.add_done_callback(lambda _: self._loading.pop(name.full, None))
        self._loading[name.full] = task, create
        return task, create

    async def _find_and_load(self, name: TopicName, *, create: bool) -> Topic:
        if name.domain != "persistent":
            raise NotAllowed(f"{name} is not persistent: it has no log")
        row = await self._find(name)
        if row is None:
            if not create:
                raise topic_not_found(name)
            await self._creation.make(name, await self._creation.partitions_of_new(name))
            row = await self._find(name)
        if row is None:
            raise ServiceNotReady(f"topic {name} was removed while it was being opened; try again")
        if row.partitions:
            raise NotAllowed(
                f"topic {name} has {row.partitions} partitions; use {name}-partition-0 and so on"
            )
        topic = self.loaded[name.full] = await self._load(name, row)
        return topic

    async def _find(self, name: TopicName) -> store.TopicRow | None:
        return await repeat_until_done(
            self._pool, lambda c: store.find_topic(c, name), what="finding a topic"
        )
