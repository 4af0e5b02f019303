"""The consumer as a listener on a thread sees it: with calls that are safe on that thread."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from vela.message import Message, MessageId

if TYPE_CHECKING:
    from vela.aio.consumers.consumer import Consumer
    from vela.aio.deliveries.listener import LoopCalls

__all__ = ["ListenerView"]

T = TypeVar("T")


class ListenerView:
    """A consumer for one listener's thread. Acknowledging returns at once; requests wait for the broker's answer.

    `Consumer` explains arguments and errors. Acknowledging raises nothing here: errors are logged, except those of
    receipts, which are ignored.
    """

    def __init__(self, consumer: Consumer, calls: LoopCalls) -> None:
        self._consumer = consumer
        self._calls = calls

    def topic(self) -> str:
        """Return the full name of the topic."""
        return self._consumer.topic()

    def subscription_name(self) -> str:
        """Return the subscription's name."""
        return self._consumer.subscription_name()

    def consumer_name(self) -> str:
        """Return the consumer's name."""
        return self._consumer.consumer_name()

    def is_connected(self) -> bool:
        """Return whether the consumer is subscribed now."""
        return self._consumer.is_connected()

    def acknowledge(self, message: Message | MessageId | Sequence[Message | MessageId]) -> None:
        """Acknowledge one message, or each of a list."""
        self._calls.post(self._consumer.acknowledge, message)

    def acknowledge_cumulative(self, message: Message | MessageId) -> None:
        """Acknowledge every message up to and including this one."""
        self._calls.post(self._consumer.acknowledge_cumulative, message)

    def negative_acknowledge(self, message: Message | MessageId) -> None:
        """Have a message delivered again after the delay."""
        self._calls.post(self._consumer.negative_acknowledge, message)

    def reconsume_later(
        self, message: Message, delay: timedelta | int, properties: Mapping[str, str] | None = None
    ) -> None:
        """Put a message off. Returns when its copy is stored and the message is acknowledged."""
        self._wait(self._consumer.reconsume_later(message, delay, properties))

    def redeliver_unacknowledged_messages(self) -> None:
        """Have all unacknowledged messages delivered again."""
        self._calls.post(self._consumer.redeliver_unacknowledged_messages)

    def pause_message_listener(self) -> None:
        """Stop calling the listener. No call follows the running one until the listener is resumed."""
        self._consumer.pause_message_listener()

    def resume_message_listener(self) -> None:
        """Call the listener again."""
        self._calls.post(self._consumer.resume_message_listener)

    def seek(self, position: MessageId | int) -> None:
        """Move the whole subscription to a message or a time. Returns when the consumer has subscribed again there."""
        self._wait(self._consumer.seek(position))

    def unsubscribe(self) -> None:
        """Delete the subscription with its backlog, and close."""
        self._wait(self._consumer.unsubscribe())

    def get_last_message_id(self) -> MessageId:
        """Return the id of the topic's newest message."""
        return self._wait(self._consumer.get_last_message_id())

    def close(self) -> None:
        """Leave the subscription, and wait for the broker."""
        self._wait(self._consumer.close())

    def _wait(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(call, self._calls.loop).result()
