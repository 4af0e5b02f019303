"""The consumer without a queue. It fetches one message when the application asks for one."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.core.consuming.state import ConsumerState
from vela.core.flow.flow_control import Permits
from vela.core.flow.zero_queue import ZeroQueueBalance
from vela.errors import InvalidConfiguration, InvalidMessage
from vela.message import Message

if TYPE_CHECKING:
    from vela.aio.client_ports import ClientPorts
    from vela.aio.consumers.options import ConsumerOptions

__all__ = ["ZeroQueueConsumer"]

logger = logging.getLogger(__name__)


class ZeroQueueConsumer(TopicConsumer):
    """A consumer that fetches no message in advance, so that the broker can give messages to other consumers.

    A message waits here only if the receive that asked for it was cancelled, or the listener was paused. A batch may
    bring more messages than were requested. When one arrives, this consumer closes, all waiting calls fail with
    InvalidMessage, and the broker gives the batch to another consumer.
    """

    def __init__(self, client: ClientPorts, topic: str, options: ConsumerOptions, **kwargs: Any) -> None:
        """Raises InvalidConfiguration for several topics, and the errors of `TopicConsumer`."""
        if kwargs.get("inbox") is not None:
            raise InvalidConfiguration(
                "a consumer of several topics or partitions needs receiver_queue_size > 0"
            )
        self._balance = ZeroQueueBalance(self._wanted, paused=options.start_paused)
        super().__init__(client, topic, options)
        self._deliveries.refuse_batch = self._close_for_batch
        self._turn = asyncio.Lock()
        self._refusal: InvalidMessage | None = None  # of the batch that closed this consumer
        self._is_listener_paused = False

    async def receive(self, timeout_millis: float | None = None) -> Message:
        """Ask the broker for a message and return it. Concurrent calls take turns, with one permit at a time.

        Safe to cancel: the next call gets the permit, and also the message if it arrives late. Raises the errors of
        `Consumer.receive`, and InvalidConfiguration with a time limit, because the message might arrive after it.
        """
        if timeout_millis is not None:
            raise InvalidConfiguration("a consumer without a queue cannot receive with a time limit")
        self._check_receives()
        async with self._turn:
            if self._refusal is not None:
                raise self._refusal
            self._check_receives()
            return await super().receive()

    def receive_nowait(self) -> Message | None:
        """Raises InvalidConfiguration, because messages arrive only on request."""
        raise InvalidConfiguration("a consumer without a queue has no message in advance: call receive()")

    async def batch_receive(self) -> list[Message]:
        """Raises InvalidConfiguration, because at most one message arrives at a time."""
        raise InvalidConfiguration("a consumer without a queue cannot receive in batches: call receive()")

    def pause_message_listener(self) -> None:
        super().pause_message_listener()
        self._is_listener_paused = True

    def resume_message_listener(self) -> None:
        """Call the listener again. Use this on the event loop only."""
        self._is_listener_paused = False
        super().resume_message_listener()
        self.flow.ran_dry()

    # --- permits

    def _permits(self) -> Permits:
        return self._balance

    def _wanted(self) -> int:
        """Return how many messages the listener or the waiting calls would take now."""
        if self.link.connection is None:
            return 0
        listener = self.queue.listener
        if listener is None:
            return self.queue.waiting
        return int(not (listener.is_busy or self._is_listener_paused or self.queue.messages))

    def _close_for_batch(self, message: Message) -> None:
        entry = message.entry
        error = InvalidMessage(
            f"the consumer {self._name} of the subscription {self.subscription_name()!r} has no queue but got a"
            f" batch of {entry.batch_size} ({entry.ledger_id}:{entry.entry_id} of {self._topic}), so it is closed. Set"
            " receiver_queue_size to 1 or more, or let producers send without batching"
        )
        logger.error("%s", error)
        if not self._state.is_over:
            self._state = ConsumerState.CLOSING
            self._refusal = error
            self._closing = self._loop.create_task(self._close(error))
