"""Terminate, unload and delete topics."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.core.counted import counted
from broker.core.errors import NotAllowed, TopicFenced, TopicNotFound, TopicTerminated
from broker.core.topic_name import TopicName
from broker.log.append_pause import appends_paused
from broker.storage.pool import repeat_until_done
from broker.storage.topics import life as store
from broker.storage.topics import topics as topic_store

if TYPE_CHECKING:
    from broker.core.position import Position
    from broker.log.writer import Writer
    from broker.producers.schemas import Schemas
    from broker.storage.pool import ConnectionPool
    from broker.subscription.storing.flusher import Flusher
    from broker.topics.topic import Topic
    from broker.topics.topics import Topics

__all__ = ["DeleteFigures", "Endings", "TopicBusy"]

logger = logging.getLogger(__name__)


class TopicBusy(NotAllowed):
    """The topic cannot be deleted, because it is in use or has subscriptions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFigures:
    """The things that a deletion closes or removes."""

    topics: tuple[str, ...]  # Full name of the topic, or full names of its partitions
    producers: int
    consumers: int
    subscriptions: tuple[tuple[str, str], ...]  # Pairs of topic name and durable subscription name
    stored_bytes: int  # Total size, as last reported to the console

    @property
    def subscription_count(self) -> int:
        """The number of subscriptions. A subscription on several partitions counts once."""
        return len({name for _, name in self.subscriptions})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    topic_id: int
    is_partitioned: bool
    members: Mapping[int, str]  # Full name of the topic or of each partition, keyed by topic id


class Endings:
    """Terminates, unloads and deletes topics."""

    def __init__(
        self,
        topics: Topics,
        *,
        pool: ConnectionPool,
        token: int,
        writer: Writer,
        flusher: Flusher,
        schemas: Schemas,
    ) -> None:
        """`token` identifies this process as the owner of topics."""
        self._topics = topics
        self._pool = pool
        self._token = token
        self._writer = writer
        self._flusher = flusher
        self._schemas = schemas

    async def terminate(self, topic: Topic) -> Position:
        """Terminate a topic, and return its last position. Safe to repeat, but not safe to cancel.

        Sends in progress succeed. Queued sends fail with TopicTerminated. Raises TopicFenced or psycopg.Error.
        """
        if topic.is_terminated:
            return topic.log.ledgers.last_position()
        async with appends_paused(topic.log, self._writer):
            done = await topic.write(
                lambda connection, epoch: store.terminate(
                    connection, topic_id=topic.topic_id, owner_epoch=epoch
                ),
                what="terminating a topic",
            )
            if not done:
                raise TopicFenced(f"{topic.name} moved to another broker; try again")
            topic.is_terminated = True
            topic.log.refuse(TopicTerminated(f"{topic.name} is terminated: it takes no more messages"))
        topic.close_producers(TopicTerminated(f"{topic.name} is terminated"))
        for subscription in list(topic.subscriptions.values()):
            subscription.topic_ended()
        logger.info(
            "%s is terminated after %s",
            topic.name,
            topic.log.ledgers.last_position(),
            extra={"topic": str(topic.name)},
        )
        return topic.log.ledgers.last_position()

    async def unload(self, names: Sequence[TopicName]) -> int:
        """Remove these topics from memory, and return how many were loaded.

        Stores the acks and detaches the clients.
        """
        async with self._still(names) as topics:
            for topic in topics:
                topic.log.close()
            await self._flusher.flush_now()
        return len(topics)

    async def delete_figures(
        self, name: TopicName, *, force: bool = True, with_subscriptions: bool = False
    ) -> DeleteFigures:
        """Return the things that `delete` would close or remove.

        Raises TopicBusy, TopicNotFound, NotAllowed.
        """
        members = (await self._found(name)).members
        if not force:
            _require_unused(self._loaded(members.values()))
        figures = await self._figures(members)
        if not (force or with_subscriptions):
            _require_no_subscriptions(name, figures)
        return figures

    async def delete(
        self,
        name: TopicName,
        *,
        force: bool,
        with_subscriptions: bool = False,
        only_if: Callable[[Topic], bool] | None = None,
    ) -> DeleteFigures:
        """Delete a topic with its partitions, messages and subscriptions. Not safe to cancel.

        Raises TopicBusy if clients are connected, unless `force` is True. Raises TopicBusy if the topic has
        subscriptions, unless `force` or `with_subscriptions` is True. Raises TopicBusy if the callback `only_if`
        returns False for a loaded topic.

        Raises NotAllowed for a partition. Also raises TopicNotFound, TopicFenced, psycopg.Error. After TopicFenced, the
        topic still exists.
        """
        found = await self._found(name)
        names = [TopicName.parse(each) for each in found.members.values()]
        async with self._still(list(dict.fromkeys([*names, name]))) as topics:
            if not force:
                _require_unused(topics)
            if only_if is not None and not all(map(only_if, topics)):
                raise TopicBusy(f"{name} was used while its deletion waited")
            figures = await self._figures(found.members)
            if not (force or with_subscriptions):
                _require_no_subscriptions(name, figures)
            epochs = await self._own(found.members, topics)
            if len(epochs) < len(found.members):
                raise TopicNotFound(f"{name} was deleted meanwhile")
            for topic in topics:
                topic.log.close()
            await self._flusher.flush_now()
            gone = await repeat_until_done(
                self._pool,
                lambda c: store.delete(c, epochs, parent_id=found.topic_id if found.is_partitioned else None),
                what=f"deleting {name}",
            )
            # `gone` may be False although the topic is deleted: if PostgreSQL's answer was lost, the repeated delete
            # found no topic. So check whether the topic still exists.
            left = await repeat_until_done(
                self._pool, lambda c: store.members(c, name.full), what="finding a topic"
            )
            if left and not gone:
                raise TopicFenced(f"{name} moved to another broker, or got partitions meanwhile; try again")
        self._schemas.forget(name.base)
        logger.info(
            "%s is deleted with %s subscriptions",
            name,
            figures.subscription_count,
            extra={"topic": str(name)},
        )
        return figures

    async def _found(self, name: TopicName) -> _Found:
        pool = self._pool
        row = await repeat_until_done(pool, lambda c: topic_store.find_topic(c, name), what="finding a topic")
        if row is None:
            raise TopicNotFound(f"topic {name} does not exist")
        if name.partition is not None:
            base = TopicName.parse(name.base)
            parent = await repeat_until_done(
                pool, lambda c: topic_store.find_topic(c, base), what="finding a topic"
            )
            if parent is not None and parent.partitions > name.partition:
                raise NotAllowed(f"{name} is a partition of {base}; delete that topic")
        members = await repeat_until_done(
            pool, lambda c: store.members(c, name.full), what="finding partitions"
        )
        return _Found(topic_id=row.topic_id, is_partitioned=bool(row.partitions), members=members)

    async def _figures(self, members: Mapping[int, str]) -> DeleteFigures:
        loaded = self._loaded(members.values())
        pool, ids = self._pool, list(members)
        subscriptions = await repeat_until_done(
            pool, lambda c: store.subscription_names(c, ids), what="looking for subscriptions"
        )
        stored_bytes = await repeat_until_done(
            pool, lambda c: store.stored_bytes(c, ids), what="adding up sizes"
        )
        return DeleteFigures(
            topics=tuple(members.values()),
            producers=sum(len(topic.producers) for topic in loaded),
            consumers=sum(_consumers(topic) for topic in loaded),
            subscriptions=tuple(subscriptions),
            stored_bytes=stored_bytes,
        )

    def _loaded(self, names: Iterable[str]) -> list[Topic]:
        return [topic for each in names if (topic := self._topics.loaded.get(each)) is not None]

    @asynccontextmanager
    async def _still(self, names: Sequence[TopicName]) -> AsyncIterator[list[Topic]]:
        """Pause appends to the topics in `names` that are loaded, and yield these topics.

        The other topics in `names` cannot be loaded before the block ends.
        """
        full_names = [each.full for each in names]
        async with self._topics.gates.closed(full_names), AsyncExitStack() as pauses:
            await self._topics.loads_done()
            topics = self._loaded(full_names)
            for topic in topics:
                topic.log.is_paused = True  # Pause every topic before the first wait
            for topic in topics:
                await pauses.enter_async_context(appends_paused(topic.log, self._writer))
            yield topics

    async def _own(self, members: Mapping[int, str], topics: Sequence[Topic]) -> dict[int, int]:
        epochs = {topic.topic_id: topic.owner_epoch for topic in topics}
        others = members.keys() - epochs.keys()
        if others:
            epochs |= await repeat_until_done(
                self._pool,
                lambda c: topic_store.take_topics(c, others, token=self._token),
                what="taking topics",
            )
        return epochs


def _consumers(topic: Topic) -> int:
    return sum(len(each.consumers) for each in topic.subscriptions.values())


def _require_unused(topics: Sequence[Topic]) -> None:
    for topic in topics:
        if topic.producers or _consumers(topic):
            producers = counted(len(topic.producers), "producer", "producers")
            consumers = counted(_consumers(topic), "consumer", "consumers")
            raise TopicBusy(
                f"{topic.name} has {producers} and {consumers} connected; disconnect them, or set force to true"
            )


def _require_no_subscriptions(name: TopicName, figures: DeleteFigures) -> None:
    if figures.subscriptions:
        found = counted(figures.subscription_count, "subscription", "subscriptions")
        raise TopicBusy(f"{name} has {found}: remove them, or set subscriptions to true")
