"""Reads a topic from a place of the application's choice, leaving no trace at the broker (semantics 2.5)."""

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

__all__ = ["Reader", "open_reader", "reader_subscription"]

_NAME_BYTES: Final = 5


class Reader:
    """Made by `Client.create_reader`. A consumer of a subscription that is not durable and goes with it.

    After a lost connection it goes on with the message after the last one it handed over.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def topic(self) -> str:
        """The topic's full name."""
        return self._consumer.topic()

    async def read_next(self, timeout_millis: int | None = None) -> Message:
        """The next message, waiting for one as long as it takes or for `timeout_millis`.

        Raises Timeout, AlreadyClosed, InvalidConfiguration (it has a listener). Cancelling it loses no message.
        """
        message = await self._consumer.receive(timeout_millis)
        # The broker counts what is not acked and stops sending at its limit.
        self._consumer.acknowledge_cumulative(message)
        return message

    async def has_message_available(self) -> bool:
        """Whether `read_next` has something to give. See `Consumer.has_message_available`.

        False at the topic's end, also where its last entries were thrown away or cannot be decrypted.
        """
        return await self._consumer.has_message_available()

    async def seek(self, messageid: MessageId | int) -> None:
        """Go on with this message id, or with what was published at this time (milliseconds since 1970 UTC) or later.

        Of an id, whether the message itself comes is `start_message_id_inclusive`'s to say, as at the start.
        """
        await self._consumer.seek(messageid)

    def is_connected(self) -> bool:
        """Whether it is attached to the broker now."""
        return self._consumer.is_connected()

    async def close(self) -> None:
        """Its subscription ends. May be called twice."""
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
    """A name that no other reader's subscription has."""
    name = f"reader-{secrets.token_hex(_NAME_BYTES)}"
    return f"{prefix}-{name}" if prefix else name


async def open_reader(
    client: ClientPorts,
    topic: str,
    listener: Callable[[Any, Message], Awaitable[None] | None] | None,
    options: ConsumerOptions,
) -> Reader:
    """A reader of a topic (its full name). Raises as `Client.create_reader`."""
    require_callable("reader_listener", listener)
    if not isinstance(options.start_message_id, MessageId):
        raise InvalidConfiguration(
            "start_message_id is a MessageId, such as MessageId.earliest or a message's message_id(),"
            f" not {options.start_message_id!r}"
        )
    partitions = await client.partitions(topic)
    if partitions and options.start_message_id not in (MessageId.earliest, MessageId.latest):
        raise InvalidConfiguration(
            f"{topic} has {partitions} partitions: a reader of it starts at MessageId.earliest or MessageId.latest;"
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
    """Latest, inclusive, is the newest message that is there: only the broker knows which (protocol 4)."""
    for each in consumer.consumers() if isinstance(consumer, MultiTopicsConsumer) else [consumer]:
        newest = await each.get_last_message_id()
        if newest.entry_id() >= 0:
            await each.seek(newest)
