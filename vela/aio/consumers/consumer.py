"""`Consumer`: the public interface of a consumer of one topic or of several."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self

from vela.core.argument_checks import milliseconds
from vela.core.consuming.state import ConsumerState
from vela.errors import AlreadyClosed, InvalidConfiguration, NotConnected
from vela.message import Message, MessageId

if TYPE_CHECKING:
    from vela.aio.deliveries.receive_queue import ReceiveQueue
    from vela.core.consuming.statistics import ConsumerStatistics
    from vela.options import ConsumerBatchReceivePolicy

__all__ = ["Consumer"]


class Consumer(ABC):
    """A consumer, created by `Client.subscribe`.

    Take messages with `receive`, `receive_async`, `batch_receive`, `async for` or a listener. On a persistent topic, a
    message that is not acknowledged is delivered again after a lost connection, an ack timeout or a negative
    acknowledgement.
    """

    queue: ReceiveQueue
    """Messages that were delivered and not taken yet."""
    _state: ConsumerState

    @abstractmethod
    def topic(self) -> str:
        """Return the full name of the topic."""

    @abstractmethod
    def subscription_name(self) -> str:
        """Return the subscription's name."""

    @abstractmethod
    def consumer_name(self) -> str:
        """Return the name given to `subscribe`, or five random hexadecimal digits. It never changes."""

    @abstractmethod
    def is_connected(self) -> bool:
        """Return whether the consumer is subscribed now. If not, it is reconnecting by itself, closed or failed."""

    @abstractmethod
    def has_reached_end_of_topic(self) -> bool:
        """Return whether the topic is terminated and all its messages are acknowledged: no more will come."""

    @property
    @abstractmethod
    def available_permits(self) -> int:
        """Return how many messages the queue has room for; 0 or less = it is full.

        Without a queue, return how many messages were requested and have not arrived.
        """

    @abstractmethod
    def statistics(self) -> ConsumerStatistics:
        """Return the consumer's statistics. Cheap, and allowed at any time."""

    @abstractmethod
    def acknowledge(
        self,
        message: Message | MessageId | Sequence[Message | MessageId],
        properties: Mapping[str, int] | None = None,
    ) -> Awaitable[None]:
        """Acknowledge one message, or each of a list, so that the broker does not deliver it again.

        Returns at once; the client collects acknowledgements for `ack_group_time_ms` and sends them together. Awaiting
        the result waits for the broker only with `ack_receipt_enabled`. `AckSide.acknowledge` explains errors and
        `properties`.
        """

    @abstractmethod
    def acknowledge_cumulative(
        self, message: Message | MessageId, properties: Mapping[str, int] | None = None
    ) -> Awaitable[None]:
        """Acknowledge every message up to and including this one. Not allowed on Shared and Key_Shared.

        `AckSide.acknowledge_cumulative` explains the errors.
        """

    @abstractmethod
    def negative_acknowledge(self, message: Message | MessageId) -> Awaitable[None]:
        """Have a message delivered again, after `negative_ack_redelivery_delay_ms`. Returns at once.

        On Exclusive and Failover, all unacknowledged messages are delivered again then.
        `AckSide.negative_acknowledge` explains the errors.
        """

    @abstractmethod
    async def reconsume_later(
        self, message: Message, delay: timedelta | int, properties: Mapping[str, str] | None = None
    ) -> None:
        """Put a message off: copy it to the retry-letter topic, from which it is delivered again after `delay`.

        `delay` is a timedelta or milliseconds; `properties` are added to those of the copy. This returns when the copy
        is stored and the message is acknowledged. A message that is put off more often than the dead-letter policy
        allows (16 times without a policy) becomes a dead letter. Raises AlreadyClosed, InvalidConfiguration without
        `retry_enable`, and the errors of publishing. If publishing fails, the message is delivered again. If this call
        is cancelled, the copy is still written.
        """

    @abstractmethod
    def redeliver_unacknowledged_messages(self) -> None:
        """Have all unacknowledged messages delivered again. Returns at once; safe to repeat.

        Messages in the queue are also dropped and delivered again. On Exclusive and Failover they come in order, from
        the first unacknowledged one. On Shared they go to any consumer with room, on Key_Shared to the consumer of
        their key.
        """

    @abstractmethod
    def pause(self) -> None:
        """Stop asking for messages, also after reconnecting. Messages on their way still arrive. Safe to repeat."""

    @abstractmethod
    def resume(self) -> None:
        """Ask the broker for messages again. Safe to repeat."""

    @abstractmethod
    async def seek(self, messageid: MessageId | int | Callable[[str], MessageId | int]) -> None:
        """Move the whole subscription to a message, to a time (milliseconds since 1970), or to what a function returns.

        The next message is the one after the given message, or with `start_message_id_inclusive` the given message
        itself. For a time, it is the first message published at that time or later. Returns when the subscription has
        moved and the consumer is subscribed. Acknowledgements made while the seek is under way are dropped; made later,
        they count, even for messages that were taken before the seek. Raises InvalidConfiguration if the argument is
        neither a time nor an id of this topic or while another seek is under way, NotConnected, Timeout and the
        broker's refusals. If the call fails or is cancelled, the subscription may or may not have moved; messages in
        the queue stay if the consumer did not have to subscribe again. Safe to repeat.
        """

    @abstractmethod
    async def unsubscribe(self, force: bool = False) -> None:
        """Delete the subscription with its backlog, and close. `force`: even if it has other consumers.

        Raises NotConnected, Timeout and the broker's refusals. After a refusal, the consumer continues as before.
        """

    @abstractmethod
    async def get_last_message_id(self) -> MessageId:
        """Return the id of the topic's newest message. Ledger and entry are -1 if the topic has no messages.

        Waits while the connection is lost. Raises Timeout, AlreadyClosed, NotConnected if the consumer has failed, and
        the broker's refusals.
        """

    @abstractmethod
    async def has_message_available(self) -> bool:
        """Return whether there is a message to receive. Asks the broker if the queue is empty.

        On Exclusive and Failover it waits until the message has arrived, because a message that is discarded on arrival
        does not count. After the client's operation timeout it returns True. On Shared and Key_Shared it returns the
        broker's answer without waiting, because another consumer may get the message first. It also does not wait if
        the message may not arrive or may go to a listener: while paused, while inactive on Failover, without a queue,
        or with a listener. Raises the errors of `get_last_message_id`. Safe to cancel.
        """

    @abstractmethod
    def _batch_policy(self) -> ConsumerBatchReceivePolicy:
        """Return the policy that decides when a batch receive is complete."""

    @abstractmethod
    def _is_full(self) -> bool:
        """Return whether to complete a batch receive, because no more messages may arrive before some are taken."""

    @abstractmethod
    async def close(self) -> None:
        """Send the collected acks, leave the subscription and drop the queue. Safe to repeat and to cancel.

        Unacknowledged messages go to other consumers, or are delivered again later. Waiting calls raise AlreadyClosed.
        This does not wait for a listener that is running.
        """

    @property
    def state(self) -> ConsumerState:
        """Return the consumer's state."""
        return self._state

    def _interrupted(self) -> None:  # noqa: B027 - most consumers do nothing here
        """Called after a receive was cancelled."""

    async def receive(self, timeout_millis: float | None = None) -> Message:
        """Wait for the next message and return it.

        Waiting calls get messages in the order of the calls. Raises Timeout if no message arrives in time,
        AlreadyClosed if the consumer is closed or closes meanwhile, NotConnected if it has failed, and
        InvalidConfiguration if it has a listener. Safe to cancel: the message then goes to the next receive. Keeps
        waiting while the consumer reconnects.
        """
        if timeout_millis is not None:
            timeout_millis = milliseconds("timeout_millis", timeout_millis)
        self._check_receives()
        try:
            return await self.queue.receive(timeout_millis)
        except asyncio.CancelledError:
            self._interrupted()
            raise

    def receive_async(self) -> asyncio.Future[Message]:
        """Return a future of the next message. Futures are done in the order of the calls.

        A future that is cancelled before it is done takes no message. A future that is done keeps its message, even if
        nobody waits for it any more. Raises the errors of `receive`.
        """
        self._check_receives()
        return self.queue.receive_async()

    def receive_nowait(self) -> Message | None:
        """Return the next message if it is in the queue, else None.

        Raises the errors of `receive`, and InvalidConfiguration with a queue of 0 messages.
        """
        self._check_receives()
        return self.queue.take()

    async def batch_receive(self) -> list[Message]:
        """Return messages as soon as there are enough for the batch receive policy, or when the policy's time is up.

        The list may be empty. A full queue is always enough. Raises the errors of `receive`. If the call is cancelled,
        it takes no message.
        """
        self._check_receives()
        return await self.queue.receive_batch(self._batch_policy(), self._is_full)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """Receive the next message. The iteration ends when the consumer is closed."""
        if self.queue.messages and self.queue.listener is None:
            message = self.queue.take()
            assert message is not None
            return message
        try:
            return await self.receive()
        except AlreadyClosed:
            raise StopAsyncIteration from None

    def _check_receives(self) -> None:
        if self.queue.listener is not None:
            raise InvalidConfiguration("a consumer with a message listener does not take receive calls")
        self._check_usable()

    def _check_usable(self) -> None:
        if not self._state.can_receive:
            if self._state.is_over:
                raise AlreadyClosed(f"the consumer of {self.topic()} is closed")
            raise NotConnected(f"the consumer of {self.topic()} has failed: create a new one")

    def pause_message_listener(self) -> None:
        """Stop calling the listener. A running call continues. Safe to repeat, and from any thread."""
        if self.queue.listener is None:
            raise InvalidConfiguration("the consumer has no message listener to pause")
        self.queue.listener.pause()

    def resume_message_listener(self) -> None:
        """Call the listener again. Safe to repeat; for a coroutine function, only on the event loop."""
        if self.queue.listener is None:
            raise InvalidConfiguration("the consumer has no message listener to resume")
        self.queue.listener.resume()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
