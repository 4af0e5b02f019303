"""A consumer of several topics or partitions: one consumer for each, and one queue for all.

Each consumer has its own permits, and asks for more as the application takes its messages. So a busy topic cannot use
up the room of a quiet one.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from vela.aio.acks.sender import DONE, acked_id, no_message
from vela.aio.consumers.consumer import Consumer
from vela.aio.consumers.subscribed_topics import SubscribedTopics, every
from vela.aio.consumers.warnings import PrefetchWatch
from vela.aio.deliveries.listener import start_listener
from vela.aio.deliveries.receive_queue import ReceiveQueue
from vela.aio.own_loop import require_loop
from vela.core.consuming.seek_target import seek_target
from vela.core.consuming.state import ConsumerState
from vela.core.consuming.statistics import ConsumerStatistics
from vela.errors import (
    AlreadyClosed,
    InvalidConfiguration,
    NotConnected,
    OperationNotSupported,
    VelaError,
)
from vela.message import Message, MessageId
from vela.options import ConsumerType

if TYPE_CHECKING:
    from vela.aio.client_ports import ClientPorts
    from vela.aio.consumers.options import ConsumerOptions
    from vela.aio.consumers.topic_consumer import TopicConsumer
    from vela.options import ConsumerBatchReceivePolicy

__all__ = ["MultiTopicsConsumer"]

logger = logging.getLogger(__name__)

_ENDS: Final = (MessageId.earliest, MessageId.latest)


class MultiTopicsConsumer(Consumer):
    """A consumer that `Client.subscribe` creates for a list of topics, a pattern, or a partitioned topic.

    The common queue keeps the order within a topic or partition. Every `partitions_update_interval_seconds` it looks
    for new partitions, and consumes them from their first message, as Pulsar's clients do.
    """

    def __init__(self, client: ClientPorts, topics: Iterable[str], options: ConsumerOptions) -> None:
        """`topics`: full names. Raises InvalidConfiguration for a queue of 0."""
        if options.queue_size == 0:
            raise InvalidConfiguration(
                "a consumer of several topics or partitions needs receiver_queue_size > 0"
            )
        self._client = client
        self._name = options.name()
        self._options = dataclasses.replace(options, consumer_name=self._name)
        self._loop = asyncio.get_running_loop()
        self.queue = ReceiveQueue(_taken, _is_current, self._ran_dry)
        self._topics = SubscribedTopics(
            client, topics, self._options, self.queue, own_options=self._own, on_failed=self.failed
        )
        self._state = ConsumerState.UNINITIALIZED
        self._updates: asyncio.Task[None] | None = None
        self._prefetch: PrefetchWatch | None = None  # only on Shared
        self._closing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Subscribe to all topics. If the broker refuses one, raises its error, and no topic stays subscribed."""
        self._state = ConsumerState.CONNECTING
        try:
            await self._topics.open()
            if (function := self._options.message_listener) is not None:
                self.queue.listener = start_listener(
                    function,
                    self,
                    self.queue,
                    view=self._options.listener_view,
                    thread=self._client.listener_threads.next(),
                )
                self.queue.listener.wake()
        except BaseException as error:
            self._state = ConsumerState.FAILED
            self.queue.end(NotConnected(f"the consumer could not subscribe: {error}"))
            await self._topics.close()
            raise
        self._state = ConsumerState.READY
        if self._options.partitions_update_interval_s:
            self._updates = self._loop.create_task(self._keep_up_to_date())
        if self._options.consumer_type is ConsumerType.Shared:
            self._prefetch = PrefetchWatch(self, self._client.make_timers())
        self._client.keep(self)

    # --- the topics

    async def add(self, topic: str, *, is_new: bool = False) -> None:
        """Subscribe to one more topic (full name) with all its partitions. Raises the broker's refusals.

        `is_new`: the topic was created after this consumer, so consume it from its first message.
        """
        await self._topics.add(topic, is_new=is_new)

    async def remove(self, topic: str) -> None:
        """Stop consuming a topic and drop its waiting messages. The subscription stays."""
        await self._topics.remove(topic)

    def _own(self, name: str, options: ConsumerOptions) -> ConsumerOptions:
        """Return the options for one topic or partition."""
        return options

    async def _keep_up_to_date(self) -> None:
        """Regularly subscribe to new partitions."""
        while True:
            await asyncio.sleep(self._options.partitions_update_interval_s)
            for topic in [name for name, count in self._topics.partitions.items() if count]:
                try:
                    await self.add(topic, is_new=True)
                except VelaError as error:
                    if self._state.is_over:
                        return
                    logger.warning("%s: cannot read the number of partitions of %s: %s", self, topic, error)

    # --- names and numbers

    def topic(self) -> str:
        """Return the topic's full name; for several topics, all names separated by commas."""
        return str(self._topics)

    def topics(self) -> list[str]:
        """Return the full names of its topics and partitions."""
        return self._topics.names

    def subscription_name(self) -> str:
        """Return the subscription's name, which is the same on all topics."""
        return self._options.subscription_name

    def consumer_name(self) -> str:
        """Return the consumer's name, which is the same on all topics."""
        return self._name

    def is_connected(self) -> bool:
        """Return whether the consumer is subscribed to all its topics now."""
        return self._state is ConsumerState.READY and all(
            each.is_connected() for each in self._topics.consumers
        )

    def has_reached_end_of_topic(self) -> bool:
        """Return whether all its topics are terminated and all their messages are acknowledged."""
        consumers = self._topics.consumers
        return bool(consumers) and all(each.has_reached_end_of_topic() for each in consumers)

    @property
    def available_permits(self) -> int:
        """Return how many messages the queue has room for, over all topics."""
        return sum(each.flow.permits.size for each in self._topics.consumers) - len(self.queue)

    def queued_and_taken(self) -> tuple[int, int]:
        """Return how many messages wait for the application, and how many it has taken in all."""
        return len(self.queue), sum(each.counters.messages_received for each in self._topics.consumers)

    def statistics(self) -> ConsumerStatistics:
        """Return the sum of its topics' statistics."""
        return ConsumerStatistics.total(
            [each.statistics() for each in self._topics.consumers], waiting=len(self.queue)
        )

    def consumers(self) -> list[TopicConsumer]:
        """Return the consumers of its topics and partitions."""
        return self._topics.consumers

    def _batch_policy(self) -> ConsumerBatchReceivePolicy:
        return self._options.batch_receive_policy

    def _is_full(self) -> bool:
        # One busy topic is enough: the others may stay quiet.
        return any(each.flow.is_spent and each.is_connected() for each in self._topics.consumers)

    def _ran_dry(self) -> None:
        # Without this option, do not loop over the topics in vain: there may be thousands.
        if self._options.auto_scaled_receiver_queue_size_enabled:
            for consumer in self._topics.consumers:
                consumer.flow.ran_dry()

    # --- acknowledging

    def acknowledge(
        self,
        message: Message | MessageId | Sequence[Message | MessageId],
        properties: Mapping[str, int] | None = None,
    ) -> Awaitable[None]:
        """Acknowledge one message, or each of a list, as `Consumer` explains.

        A deserialized id must name its topic, unless the consumer has only one.
        """
        if isinstance(message, Message | MessageId):
            return self._acked(message).acknowledge(message, properties)
        lists: dict[TopicConsumer, list[Message | MessageId]] = {}
        if not isinstance(message, Iterable):
            raise no_message(message)
        for each in message:
            lists.setdefault(self._acked(each), []).append(each)
        if len(lists) > 1:  # with one list, its consumer checks the ids
            for consumer, own in lists.items():
                consumer.acks.checked(own)
        answers = [consumer.acknowledge(own, properties) for consumer, own in lists.items()]
        awaited = [answer for answer in answers if answer is not DONE]
        return _Receipts(awaited) if awaited else DONE

    def _acked(self, message: Message | MessageId) -> TopicConsumer:
        if isinstance(message, MessageId):
            acked_id(message)
        return self._topics.of(message)

    def acknowledge_cumulative(
        self, message: Message | MessageId, properties: Mapping[str, int] | None = None
    ) -> Awaitable[None]:
        """Acknowledge every message up to this one, on the message's own topic or partition."""
        return self._acked(message).acknowledge_cumulative(message, properties)

    def negative_acknowledge(self, message: Message | MessageId) -> Awaitable[None]:
        return self._acked(message).negative_acknowledge(message)

    async def reconsume_later(
        self, message: Message, delay: timedelta | int, properties: Mapping[str, str] | None = None
    ) -> None:
        await self._topics.of(message).reconsume_later(message, delay, properties)

    def redeliver_unacknowledged_messages(self) -> None:
        for consumer in self._topics.consumers:
            consumer.redeliver_unacknowledged_messages()

    # --- pausing

    def pause(self) -> None:
        self._topics.pause()

    def resume(self) -> None:
        self._topics.resume()

    # --- asking the broker

    async def seek(self, messageid: MessageId | int | Callable[[str], MessageId | int]) -> None:
        """Move the subscription on all topics to a time, to an end, or to what a function returns for each topic.

        The id of a message moves only its own topic or partition. For the rest see `Consumer.seek`.
        """
        if isinstance(messageid, MessageId) and messageid not in _ENDS:
            await self._topics.of(messageid).seek(messageid)
            return
        self._check_usable()
        # Check all targets first, so that a wrong one moves no topic.
        targets = [(each, seek_target(messageid, each.topic())) for each in self._topics.remaining]
        await every(consumer.seek(target) for consumer, target in targets)

    async def unsubscribe(self, force: bool = False) -> None:
        """Delete the subscription on every topic, even if that fails on one, and close if none fails.

        After an error, the consumers that have unsubscribed are closed. Repeating the call unsubscribes the others.
        """
        if self._state.is_over:
            raise AlreadyClosed(f"{self} is closed")
        remaining = [each for each in self._topics.remaining if not each.state.is_over]
        await every(consumer.unsubscribe(force) for consumer in remaining)
        await self.close()

    async def get_last_message_ids(self) -> list[MessageId]:
        """Return the id of the newest message of each topic or partition.

        Raises the errors of `Consumer.get_last_message_id`.
        """
        self._check_usable()
        return list(await asyncio.gather(*(each.get_last_message_id() for each in self._topics.remaining)))

    async def get_last_message_id(self) -> MessageId:
        """Return the id of the topic's newest message.

        Raises OperationNotSupported for several topics or partitions: use `get_last_message_ids`.
        """
        consumers = self._topics.consumers
        if len(consumers) != 1:
            raise OperationNotSupported(f"{self} has {len(consumers)} topics: call get_last_message_ids()")
        return await consumers[0].get_last_message_id()

    async def has_message_available(self) -> bool:
        if self.queue.messages:
            return True
        self._check_usable()  # if all topics have failed, the error says so
        working = [each for each in self._topics.consumers if each.state is not ConsumerState.FAILED]
        found = await asyncio.gather(*(each.has_message_available() for each in working))
        return any(found)

    # --- closing

    async def close(self) -> None:
        if self._closing is None and self._state is not ConsumerState.CLOSED:
            require_loop(self._loop)
            self._state = ConsumerState.CLOSING
            self._topics.end()
            self._closing = self._loop.create_task(self._close())
        if self._closing is not None:
            await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._end(AlreadyClosed(f"{self} is closed"))
        await self._topics.close()
        self._state = ConsumerState.CLOSED
        self._client.forget(self)

    def _end(self, error: VelaError) -> None:
        """Fail waiting and later receives, and subscribe to nothing more."""
        self.queue.end(error)
        if self._updates is not None:
            self._updates.cancel()
        if self._prefetch is not None:
            self._prefetch.close()
        if self.queue.listener is not None:
            self.queue.listener.close()

    def __repr__(self) -> str:
        return f"<MultiTopicsConsumer of {self.topic()}, subscription {self.subscription_name()}>"

    def failed(self, consumer: TopicConsumer, error: VelaError) -> None:
        """Called if a topic's consumer cannot reconnect. The others continue. If all have failed, receives fail."""
        if self._topics.have_all_failed(consumer) and not self._state.is_over:
            self._state = ConsumerState.FAILED
            self._end(NotConnected(f"{self} has failed: {error}"))
            self._client.forget(self)


def _taken(message: Message) -> None:
    message.entry.receiver.taken(message)


def _is_current(message: Message) -> bool:
    return bool(message.entry.receiver.is_current(message))


class _Receipts:
    """The receipts of several topics. Unlike a coroutine, it need not be awaited, because the acks are sent anyway."""

    __slots__ = ("_answers",)

    def __init__(self, answers: Sequence[Awaitable[None]]) -> None:
        self._answers = answers

    def __await__(self) -> Generator[Any, None, None]:
        return every(self._answers).__await__()
