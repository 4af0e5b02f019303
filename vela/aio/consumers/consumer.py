"""What every consumer can do, of one topic or of several: an application's whole view of it."""

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
    from vela.aio.consumers.listener import Listener
    from vela.aio.consumers.receive_queue import ReceiveQueue
    from vela.core.consuming.statistics import ConsumerStatistics
    from vela.options import ConsumerBatchReceivePolicy

__all__ = ["Consumer"]


class Consumer(ABC):
    """Made by `Client.subscribe`.

    Messages are taken with `receive`, `receive_async`, `batch_receive`, by `async for`, or by a listener. Each is
    handed out once on a connection; after the connection was lost, what is not acknowledged comes again.
    """

    queue: ReceiveQueue
    """What was delivered and not taken."""
    _state: ConsumerState
    _listener: Listener | None

    @abstractmethod
    def topic(self) -> str:
        """The full name of the topic it consumes."""

    @abstractmethod
    def subscription_name(self) -> str:
        """The subscription."""

    @abstractmethod
    def consumer_name(self) -> str:
        """The name it was given, or five random hexadecimal digits; the same for its whole life (S0.35)."""

    @abstractmethod
    def is_connected(self) -> bool:
        """Whether it is subscribed over a connection now. If not, it is coming again by itself, or it is closed."""

    @abstractmethod
    def has_reached_end_of_topic(self) -> bool:
        """Whether the topic is terminated and everything on it acknowledged: nothing will come any more."""

    @property
    @abstractmethod
    def available_permits(self) -> int:
        """Messages that there is room for: 0 (or less) = the queue is full and nobody receives (S0.46)."""

    @abstractmethod
    def statistics(self) -> ConsumerStatistics:
        """What it has done so far. Cheap, and allowed at any time."""

    @abstractmethod
    def acknowledge(
        self,
        message: Message | MessageId | Sequence[Message | MessageId],
        properties: Mapping[str, int] | None = None,
    ) -> Awaitable[None]:
        """Acknowledge one message, or each of a list: it is not delivered again. See `AckSide.acknowledge`."""

    @abstractmethod
    def acknowledge_cumulative(
        self, message: Message | MessageId, properties: Mapping[str, int] | None = None
    ) -> Awaitable[None]:
        """Acknowledge everything up to this message, itself included. See `AckSide.acknowledge_cumulative`."""

    @abstractmethod
    def negative_acknowledge(self, message: Message | MessageId) -> Awaitable[None]:
        """Have a message delivered again, after `negative_ack_redelivery_delay_ms`. Returns at once.

        See `AckSide.negative_acknowledge`.
        """

    @abstractmethod
    async def reconsume_later(
        self, message: Message, delay: timedelta | int, properties: Mapping[str, str] | None = None
    ) -> None:
        """Put a message off: it is copied to the retry-letter topic and comes from there after `delay`.

        `delay` is a timedelta, or milliseconds; `properties` are added to the copy's. Returns when the copy is stored;
        only then is the message acknowledged. One put off more often than the dead-letter policy allows (16 times
        without one) becomes a dead letter. Raises InvalidConfiguration without `retry_enable`, AlreadyClosed, and what
        publishing raises: the message is then delivered again. Cancelled, the copy is written all the same.
        Mirrors semantics 3.9.
        """

    @abstractmethod
    def redeliver_unacknowledged_messages(self) -> None:
        """Have everything delivered again that is not acknowledged. Returns at once; safe to repeat.

        What waits in the queue is dropped and comes again too. On Exclusive and Failover in order, from the first
        unacknowledged message (S4.24); on Shared and Key_Shared to whichever consumer has room.
        """

    @abstractmethod
    def pause(self) -> None:
        """Ask the broker for no more messages; what is on its way still comes. Safe to repeat, over reconnects too."""

    @abstractmethod
    def resume(self) -> None:
        """Ask for messages again, for those taken meanwhile too. Safe to repeat."""

    @abstractmethod
    async def seek(self, messageid: MessageId | int | Callable[[str], MessageId | int]) -> None:
        """Move the whole subscription: to a message, to a time (milliseconds since 1970), or to what a function says.

        The next message is the one after the given one, or with `start_message_id_inclusive` that one itself; for a
        time the first published at or after it. Returns when the consumer is subscribed again at the new place.
        Messages taken before are delivered again or not, as they lie; acknowledging them has no effect.
        Raises InvalidConfiguration for what is no message id of this topic and no time, NotConnected, Timeout and what
        the broker refuses with. When it fails or is cancelled, the subscription may have been moved or not; what was
        waiting is kept if the link was. May be called again.
        """

    @abstractmethod
    async def unsubscribe(self, force: bool = False) -> None:
        """Delete the subscription with its backlog, and close. `force`: even while other consumers are on it.

        Raises NotConnected, Timeout and what the broker refuses with; the consumer goes on as before then.
        """

    @abstractmethod
    async def get_last_message_id(self) -> MessageId:
        """The newest message of the topic; -1 for ledger and entry when it holds none.

        Waits for a connection that is lost. Raises Timeout, AlreadyClosed and what the broker refuses with.
        """

    @abstractmethod
    async def has_message_available(self) -> bool:
        """Whether there is a message to receive, asking the broker when none waits here.

        On Exclusive and Failover it waits for what the broker still has, up to the client's operation timeout: what
        is thrown away on arrival is no message. On Shared and Key_Shared others may get it first, and with a listener,
        paused, without a queue or under a memory limit nothing comes unasked: there the broker's word is the answer.
        Raises as `get_last_message_id`. Safe to cancel.
        """

    @abstractmethod
    def _batch_policy(self) -> tuple[ConsumerBatchReceivePolicy, int]:
        """What a batch receive waits for, and how many messages the queue has room for."""

    @abstractmethod
    async def close(self) -> None:
        """Send what acks are gathered, leave the subscription, drop what waits. May be called twice and cancelled.

        What is not acknowledged goes to other consumers, or comes again. Calls that wait get AlreadyClosed. A
        listener's call that runs is not waited for.
        """

    @property
    def state(self) -> ConsumerState:
        """Where it stands."""
        return self._state

    def _before_waiting(self) -> None:  # noqa: B027 - most have nothing to do here
        """The application wants a message and none is there."""

    def _interrupted(self) -> None:  # noqa: B027
        """A receive was cancelled."""

    async def receive(self, timeout_millis: float | None = None) -> Message:
        """The next message.

        Waiting receives are served in the order of their calls. Raises Timeout when none comes in time, AlreadyClosed
        when the consumer is or gets closed, NotConnected when it has failed, InvalidConfiguration with a listener. May
        be cancelled: the message goes to the next receive then, none is lost. Works while the connection is being made
        again. Mirrors semantics S0.21 to S0.34.
        """
        if timeout_millis is not None:
            timeout_millis = milliseconds("timeout_millis", timeout_millis)
        self._check_receives()
        if not self.queue.messages:
            self._before_waiting()
        try:
            return await self.queue.receive(timeout_millis)
        except asyncio.CancelledError:
            self._interrupted()
            raise

    def receive_async(self) -> asyncio.Future[Message]:
        """As `receive`, without waiting: a future of the message. Futures are done in the order of their calls.

        A future that is cancelled before it is done takes no message. One that is done holds its message: whoever
        stops awaiting it still finds it there.
        """
        self._check_receives()
        if not self.queue.messages:
            self._before_waiting()
        return self.queue.receive_async()

    def receive_nowait(self) -> Message | None:
        """The next message if it is there already, else None. Raises as `receive`; not for a queue of 0 (S2.14)."""
        self._check_receives()
        return self.queue.take()

    async def batch_receive(self) -> list[Message]:
        """Messages as the batch receive policy says: as soon as there are enough, or when its time is up.

        May be empty. Waits no longer than for a full queue, whatever the policy says. Raises as `receive`; cancelled,
        it takes no message.
        """
        self._check_receives()
        policy, full = self._batch_policy()
        return await self.queue.receive_batch(policy, full)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """As `receive`; the iteration ends when the consumer is closed."""
        if self.queue.messages and self._listener is None:
            message = self.queue.take()
            assert message is not None
            return message
        try:
            return await self.receive()
        except AlreadyClosed:
            raise StopAsyncIteration from None

    def _check_receives(self) -> None:
        if self._listener is not None:
            raise InvalidConfiguration("a consumer with a message listener does not receive by hand")
        if not self._state.can_receive:
            if self._state.is_over:
                raise AlreadyClosed(f"the consumer of {self.topic()} is closed")
            raise NotConnected(f"the consumer of {self.topic()} has failed: make another")

    def pause_message_listener(self) -> None:
        """Begin no further call of the listener; the one that runs goes on. Safe to repeat, and from any thread."""
        if self._listener is None:
            raise InvalidConfiguration("the consumer has no message listener to pause")
        self._listener.pause()

    def resume_message_listener(self) -> None:
        """Go on calling the listener. Safe to repeat, and from any thread."""
        if self._listener is None:
            raise InvalidConfiguration("the consumer has no message listener to resume")
        self._listener.resume()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
