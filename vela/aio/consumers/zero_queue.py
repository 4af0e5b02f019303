"""The consumer without a queue: it asks for one message when the application wants one."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.core.consuming.state import ConsumerState
from vela.core.consuming.zero_queue import ZeroQueueBalance
from vela.errors import InvalidConfiguration, InvalidMessage
from vela.message import Message

if TYPE_CHECKING:
    from vela.aio.client_ports import ClientPorts
    from vela.aio.consumers.options import ConsumerOptions

__all__ = ["ZeroQueueConsumer"]

logger = logging.getLogger(__name__)


class ZeroQueueConsumer(TopicConsumer):
    """Holds at most the one message that a cancelled receive left behind; the broker gives the others to others.

    Batches cannot be taken one message at a time: one that comes closes this consumer and fails its receives with
    InvalidMessage; it goes, unacknowledged, to another consumer.
    """

    def __init__(self, client: ClientPorts, topic: str, options: ConsumerOptions, **kwargs: Any) -> None:
        """Raises as `Consumer`, and InvalidConfiguration for one that is to be part of a consumer of several topics."""
        if kwargs.get("inbox") is not None:
            raise InvalidConfiguration(
                "a consumer of several topics or partitions needs receiver_queue_size > 0"
            )
        self._balance = ZeroQueueBalance(paused=options.start_paused)
        super().__init__(client, topic, options)
        self._turn = asyncio.Lock()
        self._is_listener_paused = False

    async def receive(self, timeout_millis: float | None = None) -> Message:
        """The next message: asks the broker for one. Concurrent calls take turns, one permit is out at a time.

        A call that is cancelled leaves its permit to the next one, and the message that comes late too: none is lost.
        No time limit is possible: the message might come after it. Otherwise as `Consumer.receive`.
        """
        if timeout_millis is not None:
            raise InvalidConfiguration("a consumer without a queue cannot receive with a time limit")
        self._check_receives()
        async with self._turn:
            self._check_receives()
            if not self.queue.messages:
                self._grant(self.queue.waiting + 1)
            return await super().receive()

    def receive_async(self) -> asyncio.Future[Message]:
        """As `receive`, without waiting. Each call that has to wait asks for a message of its own."""
        future = super().receive_async()
        if not future.done():
            self._grant(self.queue.waiting)
        return future

    def receive_nowait(self) -> Message | None:
        """Refused: what was not asked for is not there."""
        raise InvalidConfiguration("a consumer without a queue has nothing to look into: call receive()")

    async def batch_receive(self) -> list[Message]:
        """Refused: it holds one message at most."""
        raise InvalidConfiguration("a consumer without a queue cannot receive in batches: call receive()")

    @property
    def available_permits(self) -> int:
        """Messages that the broker may send now."""
        return self._balance.outstanding

    def pause(self) -> None:
        """See `Consumer.pause`."""
        self._balance.pause()

    def resume(self) -> None:
        """See `Consumer.resume`."""
        self._balance.resume()
        self._grant(self._wanted())

    def pause_message_listener(self) -> None:
        """See `Consumer.pause_message_listener`."""
        super().pause_message_listener()
        self._is_listener_paused = True

    def resume_message_listener(self) -> None:
        """See `Consumer.resume_message_listener`; to be called on the event loop."""
        self._is_listener_paused = False
        super().resume_message_listener()
        self._grant(self._wanted())

    # --- permits

    def _wanted(self) -> int:
        """Messages that would be taken at once."""
        listener = self._listener
        if listener is None:
            return self.queue.waiting
        return int(not (listener.is_busy or self._is_listener_paused or self.queue.messages))

    def _grant(self, wanted: int) -> None:
        if self._link is not None and (permits := self._balance.grant_for(wanted)):
            self._flow(permits)

    def _permit_anew(self) -> None:
        if self._memory is not None:
            self._memory.reset()
        self._balance.attached()
        self._grant(self._wanted())

    def listener_idle(self) -> None:
        """See `ListenerSource`."""
        self._grant(self._wanted())

    def give_back(self, permits: int) -> None:
        """A delivery cost so many permits and brought nothing: whoever waits needs another."""
        self._balance.spent(permits)
        self._grant(self._wanted())

    def _dropped(self, messages: int) -> None:
        self._grant(self._wanted())

    def _count(self, message: Message) -> None:
        counters = self.counters
        counters.messages_received += 1
        counters.bytes_received += len(message.body.payload)
        if self._memory is not None:
            self._memory.remove(len(message.body.payload))
        self._last_taken = message
        if self._track is not None:
            self._track(message)

    def _uncount(self, message: Message) -> None:
        self.counters.messages_received -= 1
        self.counters.bytes_received -= len(message.body.payload)
        if self._memory is not None:
            self._memory.add(len(message.body.payload))

    # --- deliveries

    def show(self, messages: list[Message], is_batch: bool) -> None:
        """See `IntakeOwner`."""
        if is_batch:
            self._close_for_batch(messages[0])
            return
        self._balance.spent(len(messages))
        super().show(messages, is_batch)

    def _close_for_batch(self, message: Message) -> None:
        entry = message.entry
        error = InvalidMessage(
            f"the consumer {self._name} of the subscription {self.subscription_name()!r} has no queue and was sent a"
            f" batch of {entry.batch_size} ({entry.ledger_id}:{entry.entry_id} of {self._topic}): it is closed. Give it"
            " a receiver_queue_size of 1 or more, or have producers send without batching"
        )
        logger.error("%s", error)
        if not self._state.is_over:
            self._state = ConsumerState.CLOSING
            self._closing = self._loop.create_task(self._close(error))
