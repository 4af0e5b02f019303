"""The topics of a consumer of several topics: their partitions, and a consumer for each of them."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from vela.aio.acks.sender import id_of
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.core.topic_name import full_name, partition_name
from vela.errors import AlreadyClosed, InvalidConfiguration, VelaError
from vela.message import Message, MessageId
from vela.options import InitialPosition

if TYPE_CHECKING:
    from vela.aio.client_ports import ClientPorts
    from vela.aio.consumers.options import ConsumerOptions
    from vela.aio.deliveries.receive_queue import ReceiveQueue

__all__ = ["SubscribedTopics", "every"]

logger = logging.getLogger(__name__)


class SubscribedTopics:
    """Subscribes a consumer to each topic or partition. All the consumers put their messages into one queue."""

    def __init__(
        self,
        client: ClientPorts,
        topics: Iterable[str],
        options: ConsumerOptions,
        queue: ReceiveQueue,
        *,
        own_options: Callable[[str, ConsumerOptions], ConsumerOptions],
        on_failed: Callable[[TopicConsumer, VelaError], None],
    ) -> None:
        """`own_options` adapts the options to one topic or partition. `on_failed`: see `TopicConsumer`."""
        self.partitions: dict[str, int] = dict.fromkeys(topics, 0)
        """Topic → how many partitions it has; 0 = it is not partitioned."""
        self.is_paused = options.start_paused
        self._client = client
        self._options = options
        self._queue = queue
        self._own_options = own_options
        self._on_failed = on_failed
        self._consumers: dict[str, TopicConsumer] = {}  # by topic or partition
        self._failed: set[str] = set()  # topics or partitions whose consumers cannot reconnect
        # Held while a topic is added or removed, so that two calls do not subscribe to the same partition.
        self._changing = asyncio.Lock()
        self._is_closed = False

    def __str__(self) -> str:
        return ",".join(self.partitions)

    @property
    def names(self) -> list[str]:
        """Return the full names of the topics and partitions."""
        return list(self._consumers)

    @property
    def consumers(self) -> list[TopicConsumer]:
        """Return the consumers of the topics and partitions."""
        return list(self._consumers.values())

    @property
    def remaining(self) -> list[TopicConsumer]:
        """Return the consumers of the topics and partitions that still exist, as far as the client knows."""
        return [each for each in self._consumers.values() if not each.is_gone]

    def of(self, message: Message | MessageId) -> TopicConsumer:
        """Return the consumer of a message. Raises InvalidConfiguration if no consumer fits its id."""
        entry = message.entry if isinstance(message, Message) else id_of(message).received()
        if (
            entry is not None
            and isinstance(entry.receiver, TopicConsumer)
            and entry.receiver.feeds(self._queue)
        ):
            return entry.receiver
        message_id = message.message_id() if isinstance(message, Message) else message
        topic = message_id.topic_name()
        if topic:
            topic = full_name(topic)
        elif len(self.partitions) == 1:
            topic = next(iter(self.partitions))
        if topic not in self._consumers and message_id.partition() >= 0:
            topic = partition_name(topic, message_id.partition())
        consumer = self._consumers.get(topic)
        if consumer is None:
            raise InvalidConfiguration(
                f"{message_id} names no topic of the consumer of {self}: deserialize the id with its topic, or pass"
                " the message"
            )
        return consumer

    # --- subscribing

    async def open(self) -> None:
        """Subscribe to all topics. If the broker refuses one, raises its error, and no topic stays subscribed."""
        topics = tuple(self.partitions)
        counts = await asyncio.gather(*(self._count(topic, is_new=False) for topic in topics))
        self.partitions = dict(zip(topics, counts, strict=True))
        # Subscribe to all in one call, so that each consumer gets its share of the room in the queue.
        names = [name for topic, count in self.partitions.items() for name in _names(topic, count)]
        await self._subscribe(list(dict.fromkeys(names)), is_new=False)

    async def add(self, topic: str, *, is_new: bool) -> None:
        """Subscribe to a topic (full name), or to those of its partitions that are not subscribed yet.

        `is_new`: the topic or partitions were created after this consumer, so consume them from their first message.
        """
        async with self._changing:
            count = await self._count(topic, is_new=is_new)
            names = [name for name in _names(topic, count) if name not in self._consumers]
            await self._subscribe(names, is_new=is_new)
            self.partitions[topic] = count

    async def _count(self, topic: str, *, is_new: bool) -> int:
        """Return how many partitions a topic has; 0 = it is not partitioned."""
        # A new topic or partition was seen to exist. If it is gone now, it was deleted, so do not create it again.
        return await self._client.partitions(topic, create=self._options.create_topic and not is_new)

    async def remove(self, topic: str) -> None:
        """Close the consumers of a topic, and drop its waiting messages."""
        async with self._changing:
            names = _names(topic, self.partitions.pop(topic, 0))
            consumers = [self._consumers.pop(name) for name in names if name in self._consumers]
            self._failed.difference_update(names)
            await _close_all(consumers)

    async def _subscribe(self, names: Sequence[str], *, is_new: bool) -> None:
        options = self._options_of(len(self._consumers) + len(names), is_new=is_new)
        made = [
            TopicConsumer(
                self._client,
                name,
                self._own_options(name, options),
                inbox=self._queue,
                on_failed=self._on_failed,
            )
            for name in names
        ]
        try:
            await every(each.open() for each in made)
            if self._is_closed:
                raise AlreadyClosed(f"the consumer of {self} is closed")
        except BaseException:
            await _close_all(made)
            raise
        for each in made:
            self._client.forget(each)  # `close` closes it
            self._consumers[each.topic()] = each
            if self.is_paused is not options.start_paused:  # `pause` or `resume` was called meanwhile
                (each.pause if self.is_paused else each.resume)()

    def _options_of(self, consumers: int, *, is_new: bool) -> ConsumerOptions:
        """Return the options of each consumer. `consumers`: how many share the room in the queue."""
        options = self._options
        share = options.max_total_receiver_queue_size_across_partitions // max(1, consumers)
        return dataclasses.replace(
            options,
            receiver_queue_size=max(1, min(options.queue_size, share)),
            message_listener=None,
            initial_position=InitialPosition.Earliest if is_new else options.initial_position,
            start_message_id=(
                MessageId.earliest if is_new and not options.durable else options.start_message_id
            ),
            start_paused=self.is_paused,
        )

    # --- all of them

    def pause(self) -> None:
        """Pause all consumers, and those that are subscribed later."""
        self.is_paused = True
        for consumer in self._consumers.values():
            consumer.pause()

    def resume(self) -> None:
        """Resume all consumers."""
        self.is_paused = False
        for consumer in self._consumers.values():
            consumer.resume()

    def have_all_failed(self, consumer: TopicConsumer) -> bool:
        """Note that a consumer has failed. Return whether all have."""
        self._failed.add(consumer.topic())
        # `_consumers` is empty while the first consumers subscribe. Some of them may still succeed.
        return bool(self._consumers) and self._failed.issuperset(self._consumers)

    def end(self) -> None:
        """Subscribe to nothing more. A call that is under way raises AlreadyClosed."""
        self._is_closed = True

    async def close(self) -> None:
        """Close all consumers. Safe to repeat."""
        await _close_all(self._consumers.values())


def _names(topic: str, partitions: int) -> list[str]:
    return [partition_name(topic, index) for index in range(partitions)] or [topic]


async def every(calls: Iterable[Awaitable[None]]) -> None:
    """Wait for all calls, then raise the first error."""
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


async def _close_all(consumers: Iterable[TopicConsumer]) -> None:
    for outcome in await asyncio.gather(*(each.close() for each in consumers), return_exceptions=True):
        if isinstance(outcome, Exception):
            logger.warning("closing a consumer failed: %r", outcome)
