"""Read a topic from a place that the application chooses. The broker stores no cursor for a reader."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from vela.aio.consumers.consumer import Consumer
from vela.aio.consumers.multi_topics import MultiTopicsConsumer
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.aio.readers.listener import reader_listener
from vela.core.argument_checks import require_callable
from vela.core.consuming.seek_target import seek_target
from vela.errors import AlreadyClosed, InvalidConfiguration
from vela.message import Message, MessageId

if TYPE_CHECKING:
    from vela.aio.client_ports import ClientPorts
    from vela.aio.consumers.options import ConsumerOptions
    from vela.core.consuming.statistics import ConsumerStatistics

__all__ = ["Reader", "open_reader", "reader_subscription"]

_NAME_BYTES: Final = 5


class Reader:
    """A reader, created by `Client.create_reader`. Behind it is a consumer of a non-durable subscription.

    After a lost connection, the reader continues with the message after the last one that it returned.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def topic(self) -> str:
        """Return the topic's full name."""
        return self._consumer.topic()

    async def read_next(self, timeout_millis: int | None = None) -> Message:
        """Return the next message. Wait for it without limit, or at most `timeout_millis`.

        Raises Timeout, AlreadyClosed, NotConnected if the reader has failed, and InvalidConfiguration if it has a
        listener. Cancelling the call loses no message.
        """
        message = await self._consumer.receive(timeout_millis)
        # The broker counts unacked messages and stops sending at its limit.
        self._consumer.acknowledge_cumulative(message)
        return message

    async def has_message_available(self) -> bool:
        """Return whether there is a message to read, as `Consumer.has_message_available` explains."""
        return await self._consumer.has_message_available()

    def statistics(self) -> ConsumerStatistics:
        """Return the statistics of the consumer behind the reader. Cheap, and allowed at any time."""
        return self._consumer.statistics()

    async def seek(self, messageid: MessageId | int) -> None:
        """Continue at a message id, or at the first message published at a time (milliseconds since 1970 UTC) or later.

        `start_message_id_inclusive` decides whether the next message is the one with the id or the one after it.
        """
        await self._consumer.seek(messageid)

    def is_connected(self) -> bool:
        """Return whether the reader is connected to the broker now."""
        return self._consumer.is_connected()

    async def close(self) -> None:
        """Close the reader and delete its subscription. Safe to repeat."""
        await self._consumer.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.read_next()
        except AlreadyClosed:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def reader_subscription(prefix: str | None) -> str:
    """Return a unique name for a reader's subscription."""
    name = f"reader-{secrets.token_hex(_NAME_BYTES)}"
    return f"{prefix}-{name}" if prefix else name


async def open_reader(
    client: ClientPorts,
    topic: str,
    listener: Callable[[Any, Message], Awaitable[None] | None] | None,
    options: ConsumerOptions,
) -> Reader:
    """Open a reader of a topic (full name). Raises the errors of `Client.create_reader`."""
    require_callable("reader_listener", listener)
    if not isinstance(options.start_message_id, MessageId):
        raise InvalidConfiguration(
            "start_message_id must be a MessageId, such as MessageId.earliest or a message's message_id(),"
            f" not {options.start_message_id!r}"
        )
    partitions = await client.partitions(topic)
    if partitions and options.start_message_id not in (MessageId.earliest, MessageId.latest):
        raise InvalidConfiguration(
            f"{topic} has {partitions} partitions: its reader must start at MessageId.earliest or MessageId.latest;"
            " to start at a message, read its partition"
        )
    seek_target(options.start_message_id, topic)
    if listener is not None:
        options = dataclasses.replace(options, message_listener=reader_listener(listener))
    consumer: MultiTopicsConsumer | TopicConsumer
    consumer = (
        MultiTopicsConsumer(client, (topic,), options)
        if partitions
        else TopicConsumer(client, topic, options)
    )
    reader = Reader(consumer)
    await consumer.open()
    if options.start_message_id == MessageId.latest and options.start_message_id_inclusive:
        try:
            await _to_the_newest(consumer)
        except BaseException:
            await consumer.close()
            raise
    return reader


async def _to_the_newest(consumer: MultiTopicsConsumer | TopicConsumer) -> None:
    """Seek to the newest message, for `latest` with `start_message_id_inclusive`. Only the broker knows its id."""
    for each in consumer.consumers() if isinstance(consumer, MultiTopicsConsumer) else [consumer]:
        newest = await each.get_last_message_id()
        if newest.entry_id() >= 0:
            await each.seek(newest)
