"""A consumer of several topics, or of the partitions of one: one consumer for each, one queue for all.

Each of them has its own window of permits, which it fills again as the application takes its messages; so a busy topic
cannot take the room of a quiet one.
"""

# Over 400 lines: half of them hand a consumer's calls on to the right topic.

from __future__ import annotations

import asyncio
import dataclasses
import logging
import secrets
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from vela.aio.acks.sender import DONE, acked_id, id_of, no_message
from vela.aio.consumers.consumer import Consumer
from vela.aio.consumers.listener import start_listener
from vela.aio.consumers.listener_view import ListenerView
from vela.aio.consumers.receive_queue import ReceiveQueue
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.aio.consumers.warnings import PrefetchWatch
from vela.aio.own_loop import require_loop
from vela.core.consuming.seek_target import seek_target
from vela.core.consuming.state import ConsumerState
from vela.core.consuming.statistics import ConsumerStatistics
from vela.core.topic_name import partition_name
from vela.errors import (
    AlreadyClosed,
    InvalidConfiguration,
    NotConnected,
    OperationNotSupported,
    VelaError,
)
from vela.message import Message, MessageId
from vela.options import ConsumerType, InitialPosition

if TYPE_CHECKING:
    from vela.aio.client_ports import ClientPorts
    from vela.aio.consumers.listener import Listener
    from vela.aio.consumers.options import ConsumerOptions
    from vela.core.acks.batch_acks import Position
    from vela.options import ConsumerBatchReceivePolicy

__all__ = ["MultiTopicsConsumer"]

logger = logging.getLogger(__name__)

_NAME_BYTES: Final = 3
_NAME_CHARACTERS: Final = 5
_ENDS: Final = (MessageId.earliest, MessageId.latest)


class MultiTopicsConsumer(Consumer):
    """Made by `Client.subscribe` for a list of topics, a pattern, or a topic with partitions.

    What it promises of order holds within one topic or partition. Partitions that are added to a topic are taken up
    within `partitions_update_interval_seconds`, from their first message on. Mirrors upstream's multi-topics consumer.
    """

    def __init__(self, client: ClientPorts, topics: Iterable[str], options: ConsumerOptions) -> None:
        """`topics`: full names, without partitions. Raises InvalidConfiguration for a queue of 0."""
        if options.queue_size == 0:
            raise InvalidConfiguration(
                "a consumer of several topics or partitions needs receiver_queue_size > 0"
            )
        self._client = client
        self._options = options
        self._name = options.consumer_name or secrets.token_hex(_NAME_BYTES)[:_NAME_CHARACTERS]
        self._topics: dict[str, int] = dict.fromkeys(topics, 0)  # partitions of each, 0 = it has none
        self._consumers: dict[str, TopicConsumer] = {}  # by topic or partition
        self._failed: set[str] = set()  # of these, those that are gone for good
        self._loop = asyncio.get_running_loop()
        self.queue = ReceiveQueue(_taken, _is_current)
        self._listener: Listener | None = None
        self._state = ConsumerState.UNINITIALIZED
        self._is_paused = options.start_paused
        self._updates: asyncio.Task[None] | None = None
        self._prefetch: PrefetchWatch | None = None  # of Shared consumers that are open
        self._closing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Subscribes to all of them. Raises what one of them is refused with, and then none stays subscribed."""
        self._state = ConsumerState.CONNECTING
        try:
            await _every(self.add(topic) for topic in tuple(self._topics))
            if (function := self._options.message_listener) is not None:
                view = self._options.listener_view or ListenerView
                self._listener = start_listener(
                    function,
                    self,
                    self,
                    name=self._name,
                    view=view,
                    thread=self._client.listener_threads.next(),
                )
                self._listener.wake()
        except BaseException as error:
            self._state = ConsumerState.FAILED
            self.queue.end(NotConnected(f"the consumer could not subscribe: {error}"))
            await _close_all(self._consumers.values())
            raise
        self._state = ConsumerState.READY
        if self._options.partitions_update_interval_s:
            self._updates = self._loop.create_task(self._keep_up_to_date())
        if self._options.consumer_type is ConsumerType.Shared:
            self._prefetch = PrefetchWatch(self, self._client.make_timers())
        self._client.keep(self)

    # --- the topics

    async def add(self, topic: str, *, is_new: bool = False) -> None:
        """Consume one topic more (its full name), with all its partitions. Raises what it is refused with.

        `is_new`: it came to be after this consumer, which therefore wants it from its first message on.
        """
        count = await self._client.partitions(topic, create=self._options.create_topic)
        names = [partition_name(topic, index) for index in range(count)] or [topic]
        await self._subscribe([name for name in names if name not in self._consumers], is_new=is_new)
        self._topics[topic] = count

    async def remove(self, topic: str) -> None:
        """Consume one topic less. Its subscription stays; what waits of it is dropped and comes again."""
        count = self._topics.pop(topic, 0)
        names = [partition_name(topic, index) for index in range(count)] or [topic]
        consumers = [self._consumers.pop(name) for name in names if name in self._consumers]
        self._failed.difference_update(names)
        await _close_all(consumers)
        for consumer in consumers:
            self.drop(consumer, None)

    async def _subscribe(self, names: Sequence[str], *, is_new: bool) -> None:
        options = self._options
        share = options.max_total_receiver_queue_size_across_partitions // max(
            1, len(self._consumers) + len(names)
        )
        own = dataclasses.replace(
            options,
            consumer_name=self._name,
            receiver_queue_size=max(1, min(options.queue_size, share)),
            message_listener=None,
            initial_position=InitialPosition.Earliest if is_new else options.initial_position,
            start_paused=self._is_paused,
        )
        made = [TopicConsumer(self._client, name, own, inbox=self) for name in names]
        try:
            await _every(each.open() for each in made)
            if self._state.is_over:
                raise AlreadyClosed(f"{self} is closed")
        except BaseException:
            await _close_all(made)
            raise
        for each in made:
            self._client.forget(each)  # this one closes them
            self._consumers[each.topic()] = each

    async def _keep_up_to_date(self) -> None:
        """Takes up partitions that were added."""
        while True:
            await asyncio.sleep(self._options.partitions_update_interval_s)
            for topic in [name for name, count in self._topics.items() if count]:
                try:
                    await self.add(topic, is_new=True)
                except VelaError as error:
                    if self._state.is_over:
                        return
                    logger.warning("%s: cannot read the number of partitions of %s: %s", self, topic, error)

    def _of(self, message: Message | MessageId) -> TopicConsumer:
        """The consumer that a message came to. Raises InvalidConfiguration when an id does not say."""
        entry = message.entry if isinstance(message, Message) else id_of(message).received()
        if entry is not None and isinstance(entry.receiver, TopicConsumer) and entry.receiver.feeds(self):
            return entry.receiver
        message_id = message.message_id() if isinstance(message, Message) else message
        topic = message_id.topic_name()
        if not topic and len(self._topics) == 1:
            topic = next(iter(self._topics))
        if topic not in self._consumers and message_id.partition() >= 0:
            topic = partition_name(topic, message_id.partition())
        consumer = self._consumers.get(topic)
        if consumer is None:
            raise InvalidConfiguration(
                f"{message_id} names no topic of {self}: deserialize it with its topic, or pass the message"
            )
        return consumer

    # --- names and numbers

    def topic(self) -> str:
        """The full name of the topic whose partitions it consumes; of several topics all names, with commas."""
        return ",".join(self._topics)

    def topics(self) -> list[str]:
        """The topics and partitions it consumes, by their full names."""
        return list(self._consumers)

    def subscription_name(self) -> str:
        """The subscription, of the same name on all topics."""
        return self._options.subscription_name

    def consumer_name(self) -> str:
        """The name it was given, or five random hexadecimal digits; on all topics the same."""
        return self._name

    def is_connected(self) -> bool:
        """Whether it is subscribed to all its topics now."""
        return self._state is ConsumerState.READY and all(
            each.is_connected() for each in self._consumers.values()
        )

    def has_reached_end_of_topic(self) -> bool:
        """Whether all its topics are terminated and everything on them acknowledged."""
        consumers = self._consumers.values()
        return bool(consumers) and all(each.has_reached_end_of_topic() for each in consumers)

    @property
    def available_permits(self) -> int:
        """Messages that there is room for, over all topics."""
        return sum(each.window_size for each in self._consumers.values()) - len(self.queue)

    def queued_and_taken(self) -> tuple[int, int]:
        """Messages that wait for the application, and how many it took in all."""
        return len(self.queue), sum(each.counters.messages_received for each in self._consumers.values())

    def statistics(self) -> ConsumerStatistics:
        """See `Consumer.statistics`: the sum over its topics."""
        return ConsumerStatistics.total(
            [each.statistics() for each in self._consumers.values()], waiting=len(self.queue)
        )

    def consumers(self) -> list[TopicConsumer]:
        """Those it is made of."""
        return list(self._consumers.values())

    def _batch_policy(self) -> tuple[ConsumerBatchReceivePolicy, int]:
        return self._options.batch_receive_policy, sum(each.window_size for each in self._consumers.values())

    # --- acknowledging

    def acknowledge(
        self,
        message: Message | MessageId | Sequence[Message | MessageId],
        properties: Mapping[str, int] | None = None,
    ) -> Awaitable[None]:
        """See `Consumer.acknowledge`. Ids that come from elsewhere must say their topic."""
        if isinstance(message, Message | MessageId):
            return self._acked(message).acknowledge(message, properties)
        lists: dict[TopicConsumer, list[Message | MessageId]] = {}
        if not isinstance(message, Iterable):
            raise no_message(message)
        for each in message:
            lists.setdefault(self._acked(each), []).append(each)
        answers = [consumer.acknowledge(own, properties) for consumer, own in lists.items()]
        awaited = [answer for answer in answers if answer is not DONE]
        return _all_of(awaited) if awaited else DONE

    def _acked(self, message: Message | MessageId) -> TopicConsumer:
        if isinstance(message, MessageId):
            acked_id(message)
        return self._of(message)

    def acknowledge_cumulative(
        self, message: Message | MessageId, properties: Mapping[str, int] | None = None
    ) -> Awaitable[None]:
        """Acknowledge everything up to this message on its own topic or partition."""
        return self._acked(message).acknowledge_cumulative(message, properties)

    def negative_acknowledge(self, message: Message | MessageId) -> Awaitable[None]:
        """See `Consumer.negative_acknowledge`."""
        return self._acked(message).negative_acknowledge(message)

    async def reconsume_later(
        self, message: Message, delay: timedelta | int, properties: Mapping[str, str] | None = None
    ) -> None:
        """See `Consumer.reconsume_later`."""
        await self._of(message).reconsume_later(message, delay, properties)

    def redeliver_unacknowledged_messages(self) -> None:
        """See `Consumer.redeliver_unacknowledged_messages`."""
        for consumer in self._consumers.values():
            consumer.redeliver_unacknowledged_messages()

    # --- pausing

    def pause(self) -> None:
        """See `Consumer.pause`."""
        self._is_paused = True
        for consumer in self._consumers.values():
            consumer.pause()

    def resume(self) -> None:
        """See `Consumer.resume`."""
        self._is_paused = False
        for consumer in self._consumers.values():
            consumer.resume()

    # --- asking the broker

    async def seek(self, messageid: MessageId | int | Callable[[str], MessageId | int]) -> None:
        """Move the subscription on all topics: to a time, to an end, or to what a function says of each topic's name.

        An id of one message moves the topic or partition that it is of, and no other. Otherwise as `Consumer.seek`.
        """
        if isinstance(messageid, MessageId) and messageid not in _ENDS:
            await self._of(messageid).seek(messageid)
            return
        # All of them first: none is moved when one is wrong.
        targets = [(each, seek_target(messageid, each.topic())) for each in self._consumers.values()]
        await _every(consumer.seek(target) for consumer, target in targets)

    async def unsubscribe(self, force: bool = False) -> None:
        """Delete the subscription from all topics, and close. See `Consumer.unsubscribe`; goes on where one fails."""
        await _every(consumer.unsubscribe(force) for consumer in self._consumers.values())
        await self.close()

    async def get_last_message_ids(self) -> list[MessageId]:
        """The newest message of each topic or partition. Raises as `Consumer.get_last_message_id`."""
        return list(await asyncio.gather(*(each.get_last_message_id() for each in self._consumers.values())))

    async def get_last_message_id(self) -> MessageId:
        """Of one topic only: raises OperationNotSupported when there are more. See `get_last_message_ids`."""
        if len(self._consumers) != 1:
            raise OperationNotSupported(
                f"{self} has {len(self._consumers)} topics: call get_last_message_ids()"
            )
        return (await self.get_last_message_ids())[0]

    async def has_message_available(self) -> bool:
        """See `Consumer.has_message_available`."""
        if self.queue.messages:
            return True
        found = await asyncio.gather(*(each.has_message_available() for each in self._consumers.values()))
        return any(found)

    # --- closing

    async def close(self) -> None:
        """See `Consumer.close`."""
        if self._closing is None and self._state is not ConsumerState.CLOSED:
            require_loop(self._loop)
            self._state = ConsumerState.CLOSING
            self._closing = self._loop.create_task(self._close())
        if self._closing is not None:
            await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self.queue.end(AlreadyClosed(f"{self} is closed"))
        if self._updates is not None:
            self._updates.cancel()
        if self._prefetch is not None:
            self._prefetch.close()
        if self._listener is not None:
            self._listener.close()
        await _close_all(self._consumers.values())
        self._state = ConsumerState.CLOSED
        self._client.forget(self)

    def __repr__(self) -> str:
        return f"<MultiTopicsConsumer of {self.topic()}, subscription {self.subscription_name()}>"

    # --- for its consumers (`Inbox`) and the listener

    @property
    def messages(self) -> deque[Message]:
        """See `ListenerSource`."""
        return self.queue.messages

    @property
    def taking(self) -> threading.Lock:
        """See `ListenerSource`."""
        return self.queue.taking

    def taken(self, message: Message) -> None:
        """See `ListenerSource`."""
        _taken(message)

    def listener_idle(self) -> None:
        """See `ListenerSource`."""

    def put(self, consumer: TopicConsumer, messages: list[Message]) -> None:
        """See `Inbox`."""
        self.queue.put(messages)
        if self._listener is not None:
            self._listener.wake()

    @property
    def has_messages(self) -> bool:
        """See `Inbox`."""
        return bool(self.queue.messages)

    def waiting(self, consumer: TopicConsumer, positions: Collection[Position]) -> list[Message]:
        """See `Inbox`."""
        return self.queue.find(
            lambda message: (
                message.entry.receiver is consumer
                and (message.entry.ledger_id, message.entry.entry_id) in positions
            )
        )

    def drop(self, consumer: TopicConsumer, positions: Collection[Position] | None) -> list[Message]:
        """See `Inbox`."""
        removed = self.queue.remove_where(
            lambda message: (
                message.entry.receiver is consumer
                and (positions is None or (message.entry.ledger_id, message.entry.entry_id) in positions)
            )
        )
        if self._listener is not None:
            self._listener.wake()
        return removed

    def failed(self, consumer: TopicConsumer, error: VelaError) -> None:
        """See `Inbox`. The others go on; when none is left, receives are told."""
        self._failed.add(consumer.topic())
        if self._failed.issuperset(self._consumers) and not self._state.is_over:
            self._state = ConsumerState.FAILED
            self.queue.end(NotConnected(f"{self} has failed: {error}"))


def _taken(message: Message) -> None:
    message.entry.receiver.taken(message)


def _is_current(message: Message) -> bool:
    return bool(message.entry.receiver.is_current(message))


async def _all_of(answers: Sequence[Awaitable[None]]) -> None:
    await asyncio.gather(*answers)


async def _every(calls: Iterable[Awaitable[None]]) -> None:
    """Waits for all; then raises what the first that failed raised."""
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


async def _close_all(consumers: Iterable[TopicConsumer]) -> None:
    for outcome in await asyncio.gather(*(each.close() for each in consumers), return_exceptions=True):
        if isinstance(outcome, Exception):
            logger.warning("closing a consumer failed: %r", outcome)
