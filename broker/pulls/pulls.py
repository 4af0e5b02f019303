"""Serve pull clients. A queue is a partition, or a topic without partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.counted import counted
from broker.core.errors import TopicNotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.core.topic_name import TopicName
    from broker.pulls.offsets import GroupOffsets
    from broker.pulls.parked import ParkedPulls
    from broker.pulls.values import ParkedPull, PullAnswer, PullAsk
    from broker.topics.topic import Topic
    from broker.topics.topics import Topics

__all__ = ["Pulls"]


class Pulls:
    """Passes pull requests to their queues."""

    def __init__(
        self, topics: Topics, parked: ParkedPulls, offsets: GroupOffsets, *, is_ready: Callable[[], bool]
    ) -> None:
        self._topics = topics
        self._parked = parked
        self._offsets = offsets
        self._is_ready = is_ready

    async def pull(self, ask: PullAsk) -> PullAnswer | ParkedPull:
        """Answer a long-poll pull, or park it. Raises BrokerError and psycopg.Error."""
        return await self._parked.pull(await self._queue(ask.topic, ask.queue), ask)

    def pull_now(self, ask: PullAsk) -> PullAnswer | ParkedPull | None:
        """Answer or park a pull without a database query. Return None if a query is needed."""
        topic = self._queue_in_memory(ask.topic, ask.queue)
        return None if topic is None else self._parked.pull_now(topic, ask)

    def forget(self, parked: ParkedPull) -> None:
        """Drop a parked pull without an answer. Safe to repeat."""
        self._parked.forget(parked)

    async def committed_offset(self, topic: TopicName, queue: int, subscription: str) -> int:
        """Return the offset of the subscription's next message.

        Raises TopicNotFound and the errors of `GroupOffsets.committed`.
        """
        return await self._offsets.committed(await self._queue(topic, queue), subscription)

    async def commit_offset(
        self, topic: TopicName, queue: int, subscription: str, offset: int, peer: str
    ) -> int:
        """Store that the subscription has consumed everything before `offset`. Safe to repeat.

        Returns the subscription's offset, which is higher than `offset` if the subscription had already consumed more.
        `peer` is the client's address without the port. Raises TopicNotFound and the errors of `GroupOffsets.commit`.
        """
        return await self._offsets.commit(await self._queue(topic, queue), subscription, offset, peer)

    async def _queue(self, topic: TopicName, queue: int) -> Topic:
        known = self._queue_in_memory(topic, queue)
        if known is not None:
            return known
        partitions = await self._topics.partition_count(topic, create=False)
        if queue >= max(1, partitions):
            queues = counted(max(1, partitions), "queue", "queues")
            raise TopicNotFound(f"topic {topic} has {queues}; there is no queue {queue}")
        return await self._topics.open(topic.with_partition(queue) if partitions else topic, create=False)

    def _queue_in_memory(self, topic: TopicName, queue: int) -> Topic | None:
        known = self._topics.loaded.get(topic.full)
        if known is None:
            known = self._topics.loaded.get(f"{topic.full}-partition-{queue}")
        elif queue:  # A topic without partitions has only queue 0
            return None
        return known if known is not None and known.is_open and self._is_ready() else None
