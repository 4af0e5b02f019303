"""`vela.Consumer`: a consumer for threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from vela.aio.consumers.consumer import Consumer as AioConsumer
from vela.blocking.facade import Facade, waits
from vela.blocking.taken_ahead import TakenAhead
from vela.blocking.waiting import Waiter
from vela.core.argument_checks import milliseconds, require_callable
from vela.core.consuming.state import ConsumerState
from vela.errors import AlreadyClosed, Result, VelaError
from vela.message import Message, MessageId

if TYPE_CHECKING:
    import asyncio

    from vela.aio.daemon_thread import DaemonThread
    from vela.blocking.loop_thread import LoopThread
    from vela.core.consuming.statistics import ConsumerStatistics

__all__ = ["Consumer"]

Acked = Message | MessageId | Sequence[Message | MessageId]


class Consumer(Facade[AioConsumer]):
    """A consumer, created by `Client.subscribe`. Any number of threads may use it; each message goes to one of them.

    If KeyboardInterrupt interrupts a call, its message is not lost: the next call returns that message.
    """

    def __init__(
        self,
        aio: AioConsumer,
        thread: LoopThread,
        callbacks: DaemonThread,
        *,
        receipts: bool,
        take_at_a_time: int,
        letters: bool,
        client: object,
    ) -> None:
        """`receipts`: acknowledging waits for the broker. `take_at_a_time`: messages to take from the queue together,
        at least 1. `letters`: a dead-letter or retry-letter topic is configured."""
        super().__init__(aio, thread, client=client)
        self._callbacks = callbacks
        self._receipts = receipts
        self._take_at_a_time = take_at_a_time
        self._has_letters = letters
        self._ahead = TakenAhead()

    # --- names and numbers

    def topic(self) -> str:
        """Return the full name of the topic."""
        return self.aio.topic()

    def subscription_name(self) -> str:
        """Return the subscription's name."""
        return self.aio.subscription_name()

    def consumer_name(self) -> str:
        """Return the name given to `subscribe`, or five random hexadecimal digits. It never changes."""
        return self.aio.consumer_name()

    @property
    def state(self) -> ConsumerState:
        """Return the consumer's state. In a forked process it is CLOSED."""
        return ConsumerState.CLOSED if self._thread.is_forked else self.aio.state

    @property
    def available_permits(self) -> int:
        """Return how many messages the queue has room for; 0 or less = it is full.

        Without a queue, return how many messages were requested and have not arrived.
        """
        return self.aio.available_permits

    def is_connected(self) -> bool:
        """Return whether the consumer is subscribed now. If not, it is reconnecting by itself, closed or failed."""
        return not self._thread.is_forked and self.aio.is_connected()

    def has_reached_end_of_topic(self) -> bool:
        """Return whether the topic is terminated and all its messages are acknowledged: no more will come."""
        return self.aio.has_reached_end_of_topic()

    def statistics(self) -> ConsumerStatistics:
        """Return the consumer's statistics. Cheap, and allowed at any time."""
        return self._thread.call(self.aio.statistics)

    # --- taking messages

    def receive(self, timeout_millis: float | None = None) -> Message:
        """Wait for the next message and return it.

        Without `timeout_millis` it waits until a message arrives. Raises Timeout if none arrives in time, AlreadyClosed
        if the consumer is closed or closes meanwhile, NotConnected if it has failed, and InvalidConfiguration if it has
        a listener. Keeps waiting while the consumer reconnects.
        """
        self._thread.require_own_process()
        if timeout_millis is not None:
            milliseconds("timeout_millis", timeout_millis)
        if self.aio.state.is_over:
            self._ahead.clear()
        message = self._ahead.next()
        if message is not None:
            return message
        waiter: Waiter[Message] = Waiter(self._put_back)
        receives: list[asyncio.Task[Message]] = []
        try:
            self._thread.post(lambda: self._begin(waiter, timeout_millis, receives))
            return waiter.wait()
        except BaseException:
            waiter.abandon()
            self._thread.post_if_open(lambda: [receive.cancel() for receive in receives])
            raise

    def receive_nowait(self) -> Message | None:
        """Return the next message if it is in the queue, else None.

        Raises the errors of `receive`, and InvalidConfiguration with a queue of 0 messages.
        """
        return self._thread.run(
            self._nowait, lambda message: None if message is None else self._put_back(message)
        )

    async def _nowait(self) -> Message | None:
        self._return(self._ahead.clear())
        return self.aio.receive_nowait()

    def _begin(
        self, waiter: Waiter[Message], timeout_millis: float | None, receives: list[asyncio.Task[Message]]
    ) -> None:
        """Give the waiter a message from the queue, or start a task that waits for one. Runs on the event loop."""
        if self._take_at_a_time > 1:
            try:
                message = self._ahead.next() or self.aio.receive_nowait()
            except VelaError as error:
                waiter.fail(error)
                return
            if message is not None:
                if not self._ahead:
                    self._ahead.add(self._more())
                waiter.give(message)
                return
        receives.append(self._thread.start(self.aio.receive(timeout_millis), waiter))

    def _more(self) -> Iterator[Message]:
        waiting = self.aio.queue.messages
        for _ in range(self._take_at_a_time - 1):
            if self._has_letters and waiting and waiting[0].entry.receiver.letters.may_end(waiting[0]):
                return  # once taken, it may become a letter before the application sees it
            message = self.aio.receive_nowait()
            if message is None:
                return
            yield message

    def _put_back(self, message: Message) -> None:
        """Put back a message that an interrupted call has taken. The next call returns this message first.

        If calls wait on other threads, one of them gets it.
        """
        self._ahead.put_first(message)
        self._thread.do(lambda: self._return(self._ahead.clear()))

    def _return(self, messages: list[Message]) -> None:
        """Put back messages that no call has returned, and stop counting them as taken. Runs on the event loop."""
        awaited = [message for message in messages if message.entry.receiver.is_awaited(message)]
        for message in awaited:
            message.entry.receiver.untaken(message)
        self.aio.queue.put_back(awaited)

    def receive_async(self, callback: Callable[[Result, Message | None], object]) -> None:
        """Call `callback(result, message)` with the next message. Callbacks get messages in the order of these calls.

        Returns at once. The client has one thread for callbacks, so callbacks run one at a time. A callback may call
        methods that wait. If the result is not Result.Ok, the message is None. Raises AlreadyClosed if the client is
        closed.
        """
        require_callable("callback", callback)

        def answer(future: asyncio.Future[Message]) -> None:
            error = None if future.cancelled() else future.exception()
            if future.cancelled() or error is not None:
                code = error.code if isinstance(error, VelaError) else Result.Interrupted
                self._callbacks.submit(lambda: callback(code, None))
            else:
                self._callbacks.submit(lambda: callback(Result.Ok, future.result()))

        def begin() -> None:
            self._return(self._ahead.clear())
            try:
                self.aio.receive_async().add_done_callback(answer)
            except VelaError as error:
                code = error.code
                self._callbacks.submit(lambda: callback(code, None))

        self._thread.post(begin)

    def batch_receive(self) -> list[Message]:
        """Return messages as soon as there are enough for the batch receive policy, or when the policy's time is up.

        The list may be empty. A full queue is always enough. Raises the errors of `receive`.
        """
        return self._thread.run(self._batch, lambda batch: self._thread.do(lambda: self._return(batch)))

    async def _batch(self) -> list[Message]:
        self._return(self._ahead.clear())
        return await self.aio.batch_receive()

    def __iter__(self) -> Iterator[Message]:
        """Yield messages until the consumer is closed."""
        while True:
            try:
                message = self.receive()
            except AlreadyClosed:
                self._thread.require_own_process()
                return
            yield message

    # --- acknowledging

    def acknowledge(self, message: Acked, properties: Mapping[str, int] | None = None) -> None:
        """Acknowledge one message, or each of a list, so that the broker does not deliver it again.

        Returns at once; the client collects acknowledgements for `ack_group_time_ms` and sends them together. With
        `ack_receipt_enabled` it returns when the broker has stored them. An empty list acknowledges nothing. Safe to
        repeat. Raises AlreadyClosed, NotConnected for `properties` while the connection is lost, and
        OperationNotSupported for an id that no message has, such as MessageId.earliest and MessageId.latest.
        """
        if type(message) is Message and properties is None and not self._receipts:
            if self.aio.state.is_over:
                raise AlreadyClosed("the consumer is closed: its unacked messages are delivered again")
            self._thread.post(lambda: self.aio.acknowledge(message))
        else:
            self._acknowledge(lambda: self.aio.acknowledge(message, properties))

    def acknowledge_cumulative(
        self, message: Message | MessageId, properties: Mapping[str, int] | None = None
    ) -> None:
        """Acknowledge every message of its topic or partition, up to and including this one.

        Raises CumulativeAcknowledgementNotAllowedError on Shared and Key_Shared subscriptions, and the errors of
        `acknowledge`.
        """
        self._acknowledge(lambda: self.aio.acknowledge_cumulative(message, properties))

    def negative_acknowledge(self, message: Message | MessageId) -> None:
        """Have a message delivered again after `negative_ack_redelivery_delay_ms`. Returns at once.

        On Exclusive and Failover, all unacknowledged messages are delivered again then. Raises AlreadyClosed, and
        OperationNotSupported for an id that no message has.
        """
        self._acknowledge(lambda: self.aio.negative_acknowledge(message))

    reconsume_later = waits(AioConsumer.reconsume_later)

    def _acknowledge(self, function: Callable[[], Awaitable[None]]) -> None:
        if self._receipts:
            self._thread.run(lambda: _awaited(function))
        else:
            self._thread.call(function)

    def redeliver_unacknowledged_messages(self) -> None:
        """Have all unacknowledged messages delivered again. Returns at once; safe to repeat."""
        self._thread.call(self._redeliver)

    def _redeliver(self) -> None:
        self._ahead.clear()
        self.aio.redeliver_unacknowledged_messages()

    # --- pausing

    def pause(self) -> None:
        """Stop asking for messages. Messages on their way still arrive. Safe to repeat."""
        self._thread.call(self.aio.pause)

    def resume(self) -> None:
        """Ask the broker for messages again. Safe to repeat."""
        self._thread.call(self.aio.resume)

    def pause_message_listener(self) -> None:
        """Stop calling the listener. A running call continues. Safe to repeat."""
        self._thread.call(self.aio.pause_message_listener)

    def resume_message_listener(self) -> None:
        """Call the listener again. Safe to repeat."""
        self._thread.call(self.aio.resume_message_listener)

    # --- asking the broker

    get_last_message_id = waits(AioConsumer.get_last_message_id)
    unsubscribe = waits(AioConsumer.unsubscribe)

    def has_message_available(self) -> bool:
        """Return whether there is a message to receive. Asks the broker if the queue is empty.

        `vela.aio.Consumer.has_message_available` explains when it waits for the message. Raises the errors of
        `get_last_message_id`.
        """
        return self._thread.run(self._has_message_available)

    async def _has_message_available(self) -> bool:
        self._return(self._ahead.clear())
        return await self.aio.has_message_available()

    def seek(self, messageid: MessageId | int | Callable[[str], MessageId | int]) -> None:
        """Move the whole subscription to a message, to a time (milliseconds since 1970), or to what a function returns.

        The next message is the one after the given message, or with `start_message_id_inclusive` the given message
        itself. For a time, it is the first message published at that time or later. Raises InvalidConfiguration if the
        argument is neither a time nor an id of this topic, NotConnected, Timeout and the broker's refusals. After an
        error, the subscription may or may not have moved. Safe to repeat.
        """
        self._thread.run(lambda: self._seek(messageid))

    async def _seek(self, messageid: MessageId | int | Callable[[str], MessageId | int]) -> None:
        # Do this before the seek. After it, another thread may already have taken new messages ahead.
        self._return(self._ahead.clear())
        await self.aio.seek(messageid)

    # --- closing

    def close(self) -> None:
        """Send the collected acks, leave the subscription and drop the queue. Safe to repeat.

        Unacknowledged messages go to other consumers, or are delivered again later. Calls that wait on other threads
        raise AlreadyClosed. Does nothing in a forked process.
        """
        if not self._thread.is_forked:
            self._thread.run_unless_stopped(self.aio.close)
            self._ahead.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def _awaited(function: Callable[[], Awaitable[None]]) -> None:
    await function()
