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
    """Made by `Client.subscribe`. May be used from any number of threads.

    Every message is handed to one of them. A call that is broken off by KeyboardInterrupt loses none: what was about to
    be handed over is what the next call returns.
    """

    def __init__(
        self,
        aio: AioConsumer,
        thread: LoopThread,
        callbacks: DaemonThread,
        *,
        receipts: bool,
        ahead: int,
        letters: bool,
        client: object,
    ) -> None:
        """`receipts`: acknowledging waits for the broker. `ahead`: messages taken from the queue at a time, 1 on.
        `letters`: messages may become letters."""
        super().__init__(aio, thread, client=client)
        self._callbacks = callbacks
        self._receipts = receipts
        self._at_a_time = ahead
        self._has_letters = letters
        self._ahead = TakenAhead()

    # --- names and numbers

    def topic(self) -> str:
        """The full name of the topic it consumes."""
        return self.aio.topic()

    def subscription_name(self) -> str:
        """The subscription."""
        return self.aio.subscription_name()

    def consumer_name(self) -> str:
        """The name it was given, or five random hexadecimal digits; the same for its whole life."""
        return self.aio.consumer_name()

    @property
    def state(self) -> ConsumerState:
        """Where it stands."""
        return ConsumerState.CLOSED if self._thread.is_forked else self.aio.state

    @property
    def available_permits(self) -> int:
        """Messages that there is room for: 0 (or less) = the queue is full and nobody receives."""
        return self.aio.available_permits

    def is_connected(self) -> bool:
        """Whether it is subscribed over a connection now. If not, it is coming again by itself, or it is closed."""
        return not self._thread.is_forked and self.aio.is_connected()

    def has_reached_end_of_topic(self) -> bool:
        """Whether the topic is terminated and everything on it acknowledged: nothing will come any more."""
        return self.aio.has_reached_end_of_topic()

    def statistics(self) -> ConsumerStatistics:
        """What it has done so far. Cheap, and allowed at any time."""
        return self._thread.call(self.aio.statistics)

    # --- taking messages

    def receive(self, timeout_millis: float | None = None) -> Message:
        """The next message.

        Waits for one as long as it takes, or for `timeout_millis`. Raises Timeout when none comes in time,
        AlreadyClosed when the consumer is or gets closed, NotConnected when it has failed, InvalidConfiguration with a
        listener.
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
        """The next message if it is there already, else None. Raises as `receive`; not for a queue of 0."""
        return self._thread.run(
            self._nowait, lambda message: None if message is None else self._put_back(message)
        )

    async def _nowait(self) -> Message | None:
        self._return(self._ahead.clear())
        return self.aio.receive_nowait()

    def _begin(
        self, waiter: Waiter[Message], timeout_millis: float | None, receives: list[asyncio.Task[Message]]
    ) -> None:
        """On the loop: what is there already, else a task that waits for it."""
        if self._at_a_time > 1:
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
        for _ in range(self._at_a_time - 1):
            if self._has_letters and waiting and waiting[0].entry.receiver.letters.may_end(waiting[0]):
                return  # taken, it would count as given to the application
            message = self.aio.receive_nowait()
            if message is None:
                return
            yield message

    def _put_back(self, message: Message) -> None:
        """A call was broken off that had taken it: it is the next one in line."""
        self._thread.do(lambda: self._return([message]))

    def _return(self, messages: list[Message]) -> None:
        """On the loop: messages that were taken and not handed over are in the queue again, untaken."""
        for message in messages:
            message.entry.receiver.untaken(message)
        self.aio.queue.put_back(messages)

    def receive_async(self, callback: Callable[[Result, Message | None], object]) -> None:
        """Has `callback(result, message)` called with the next message; calls are served in their order.

        The callback runs on a thread of the client's, one at a time, and may wait for the client. With another result
        than Result.Ok the message is None. Raises AlreadyClosed for a closed client.
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
        """Messages as the batch receive policy says: as soon as there are enough, or when its time is up.

        May be empty. Raises as `receive`.
        """
        return self._thread.run(self._batch, lambda batch: self._thread.do(lambda: self._return(batch)))

    async def _batch(self) -> list[Message]:
        self._return(self._ahead.clear())
        return await self.aio.batch_receive()

    def __iter__(self) -> Iterator[Message]:
        """Messages as they come, until the consumer is closed."""
        while True:
            try:
                message = self.receive()
            except AlreadyClosed:
                self._thread.require_own_process()
                return
            yield message

    # --- acknowledging

    def acknowledge(self, message: Acked, properties: Mapping[str, int] | None = None) -> None:
        """Acknowledge one message, or each of a list: it is not delivered again.

        Returns at once, and acknowledgements are gathered (`ack_group_time_ms`); with `ack_receipt_enabled` it returns
        when the broker has stored them. An empty list acknowledges nothing. Raises AlreadyClosed, and
        OperationNotSupported for an id that no message has, such as MessageId.earliest and MessageId.latest.
        """
        if type(message) is Message and properties is None and not self._receipts:
            if self.aio.state.is_over:
                raise AlreadyClosed("the consumer is closed: its messages are delivered to others")
            self._thread.post(lambda: self.aio.acknowledge(message))
        else:
            self._acknowledge(lambda: self.aio.acknowledge(message, properties))

    def acknowledge_cumulative(
        self, message: Message | MessageId, properties: Mapping[str, int] | None = None
    ) -> None:
        """Acknowledge everything up to this message, itself included.

        Raises CumulativeAcknowledgementNotAllowedError on Shared and Key_Shared subscriptions, else as `acknowledge`.
        """
        self._acknowledge(lambda: self.aio.acknowledge_cumulative(message, properties))

    def negative_acknowledge(self, message: Message | MessageId) -> None:
        """Have a message delivered again, after `negative_ack_redelivery_delay_ms`.

        Raises AlreadyClosed, and OperationNotSupported for an id that no message has.
        """
        self._acknowledge(lambda: self.aio.negative_acknowledge(message))

    reconsume_later = waits(AioConsumer.reconsume_later)

    def _acknowledge(self, function: Callable[[], Awaitable[None]]) -> None:
        if self._receipts:
            self._thread.run(lambda: _awaited(function))
        else:
            self._thread.call(function)

    def redeliver_unacknowledged_messages(self) -> None:
        """Have everything delivered again that is not acknowledged. Safe to repeat."""
        self._thread.call(self._redeliver)

    def _redeliver(self) -> None:
        self._ahead.clear()
        self.aio.redeliver_unacknowledged_messages()

    # --- pausing

    def pause(self) -> None:
        """Ask the broker for no more messages; what is on its way still comes. Safe to repeat."""
        self._thread.call(self.aio.pause)

    def resume(self) -> None:
        """Ask for messages again. Safe to repeat."""
        self._thread.call(self.aio.resume)

    def pause_message_listener(self) -> None:
        """Begin no further call of the listener; the one that runs goes on. Safe to repeat."""
        self._thread.call(self.aio.pause_message_listener)

    def resume_message_listener(self) -> None:
        """Go on calling the listener. Safe to repeat."""
        self._thread.call(self.aio.resume_message_listener)

    # --- asking the broker

    get_last_message_id = waits(AioConsumer.get_last_message_id)
    unsubscribe = waits(AioConsumer.unsubscribe)

    def has_message_available(self) -> bool:
        """See `vela.aio.Consumer.has_message_available`."""
        return self._thread.run(self._has_message_available)

    async def _has_message_available(self) -> bool:
        self._return(self._ahead.clear())
        return await self.aio.has_message_available()

    def seek(self, messageid: MessageId | int | Callable[[str], MessageId | int]) -> None:
        """Move the whole subscription: to a message, to a time (milliseconds since 1970), or to what a function says.

        The next message is the one after the given one, or with `start_message_id_inclusive` that one itself; for a
        time the first published at or after it. Raises NotConnected, Timeout and what the broker refuses with.
        """
        self._thread.run(lambda: self.aio.seek(messageid))
        self._ahead.clear()

    # --- closing

    def close(self) -> None:
        """Send what acks are gathered, leave the subscription, drop what waits. May be called twice.

        What is not acknowledged goes to other consumers, or comes again. Threads that wait get AlreadyClosed. In a
        forked process nothing happens.
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
