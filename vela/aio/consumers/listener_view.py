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

    Errors of acknowledging, such as an id that no message has, are only logged, because no call waits for them.
    """

    def __init__(self, consumer: Consumer, calls: LoopCalls) -> None:
        self._consumer = consumer
        self._calls = calls

    def topic(self) -> str:
        """See `Consumer.topic`."""
        return self._consumer.topic()

    def subscription_name(self) -> str:
        """See `Consumer.subscription_name`."""
        return self._consumer.subscription_name()

    def consumer_name(self) -> str:
        """See `Consumer.consumer_name`."""
        return self._consumer.consumer_name()

    def is_connected(self) -> bool:
        """See `Consumer.is_connected`."""
        return self._consumer.is_connected()

    def acknowledge(self, message: Message | MessageId | Sequence[Message | MessageId]) -> None:
        """See `Consumer.acknowledge`."""
        self._calls.post(self._consumer.acknowledge, message)

    def acknowledge_cumulative(self, message: Message | MessageId) -> None:
        """See `Consumer.acknowledge_cumulative`."""
        self._calls.post(self._consumer.acknowledge_cumulative, message)

    def negative_acknowledge(self, message: Message | MessageId) -> None:
        """See `Consumer.negative_acknowledge`."""
        self._calls.post(self._consumer.negative_acknowledge, message)

    def reconsume_later(
        self, message: Message, delay: timedelta | int, properties: Mapping[str, str] | None = None
    ) -> None:
        """See `Consumer.reconsume_later`; waits until the copy is stored."""
        self._wait(self._consumer.reconsume_later(message, delay, properties))

    def redeliver_unacknowledged_messages(self) -> None:
        """See `Consumer.redeliver_unacknowledged_messages`."""
        self._calls.post(self._consumer.redeliver_unacknowledged_messages)

    def pause_message_listener(self) -> None:
        """See `Consumer.pause_message_listener`. No call follows the running one until the listener is resumed."""
        self._consumer.pause_message_listener()

    def resume_message_listener(self) -> None:
        """See `Consumer.resume_message_listener`."""
        self._calls.post(self._consumer.resume_message_listener)

    def seek(self, position: MessageId | int) -> None:
        """See `Consumer.seek`; waits for the broker."""
        self._wait(self._consumer.seek(position))

    def unsubscribe(self) -> None:
        """See `Consumer.unsubscribe`; waits for the broker."""
        self._wait(self._consumer.unsubscribe())

    def get_last_message_id(self) -> MessageId:
        """See `Consumer.get_last_message_id`; waits for the broker."""
        return self._wait(self._consumer.get_last_message_id())

    def close(self) -> None:
        """See `Consumer.close`; waits for the broker."""
        self._wait(self._consumer.close())

    def _wait(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(call, self._calls.loop).result()
