"""A queue of messages for the application, taken by its listener or by its waiting calls."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from vela.aio.own_loop import require_loop
from vela.core.consuming.batch_receiving import BatchMeasure
from vela.core.consuming.pending_receives import PendingReceives
from vela.errors import Timeout, VelaError
from vela.message import Message

if TYPE_CHECKING:
    from vela.aio.deliveries.listener import Listener
    from vela.options import ConsumerBatchReceivePolicy

__all__ = ["ReceiveQueue"]

_MS: Final = 1000


class _Receive:
    """A waiting call of `receive` or `receive_async`."""

    __slots__ = ("future", "is_async")

    def __init__(self, future: asyncio.Future[Message], *, is_async: bool) -> None:
        self.future = future
        # The application has the future itself, so its message is taken as soon as the future is done.
        self.is_async = is_async

    def done(self) -> bool:
        return self.future.done()


class _BatchReceive:
    """A waiting call of `batch_receive`. `enough` wakes it; the call then takes its messages itself."""

    __slots__ = ("enough", "is_full", "policy")

    def __init__(
        self, enough: asyncio.Future[None], policy: ConsumerBatchReceivePolicy, is_full: Callable[[], bool]
    ) -> None:
        self.enough = enough
        self.policy = policy
        self.is_full = is_full

    def done(self) -> bool:
        return self.enough.done()


class ReceiveQueue:
    """A queue of messages, and of calls that wait for them, both in order. It has no limit.

    `taken` is called for each message that the application gets. A waiting call that got a message may be
    cancelled before it continues. The message then goes back to the head of the queue, if `is_current` is still true.
    While calls wait for a single message, the queue is empty.
    """

    __slots__ = (
        "_batches",
        "_error",
        "_loop",
        "_pending",
        "_ran_dry",
        "is_current",
        "listener",
        "messages",
        "taken",
        "taking",
    )

    def __init__(
        self,
        taken: Callable[[Message], None],
        is_current: Callable[[Message], bool],
        ran_dry: Callable[[], None],
    ) -> None:
        """`ran_dry` is called when a call or the listener waits for more messages."""
        self.taken = taken
        """Called on the event loop for each message that the application gets."""
        self.is_current = is_current
        """Tells whether a message is still current."""
        self.listener: Listener | None = None
        """Takes the messages, instead of calls of the application."""
        self.messages: deque[Message] = deque()
        """The messages, in order. Code that pops one must call `taken` for it, as `take` does."""
        self.taking = threading.Lock()
        """Locked to search the queue, to remove messages from its middle, and to take one on a listener's thread."""
        self._ran_dry = ran_dry
        self._loop = asyncio.get_running_loop()
        self._pending: PendingReceives[_Receive] = PendingReceives()
        self._batches: PendingReceives[_BatchReceive] = PendingReceives()
        self._error: VelaError | None = None  # why no more messages will come

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def waiting(self) -> int:
        """Return how many calls wait for one message each."""
        return len(self._pending)

    def put(self, messages: list[Message]) -> None:
        """Add messages that have arrived."""
        if self._error is not None:
            return
        if self._pending:
            messages = self._hand_over(messages)
        self.messages.extend(messages)
        if self._batches:
            self._wake_batches()
        if self.listener is not None:
            self.listener.wake()

    def _hand_over(self, messages: list[Message]) -> list[Message]:
        """Give messages to waiting calls, and return the rest."""
        for index, message in enumerate(messages):
            receive = self._pending.next()
            if receive is None:
                return messages[index:]
            if receive.is_async:
                self.taken(message)
            receive.future.set_result(message)
        return []

    def put_back(self, messages: Sequence[Message]) -> None:
        """Put messages back at the head of the queue, in this order. The application must not have got them."""
        if self._error is not None:
            return
        rest = self._hand_over([message for message in messages if self.is_current(message)])
        self.messages.extendleft(reversed(rest))
        if self._batches:
            self._wake_batches()

    # --- taking

    def take(self) -> Message | None:
        """Remove and return the first message, or return None if there is none."""
        if not self.messages:
            return None
        message = self.messages.popleft()
        self.taken(message)
        return message

    async def receive(self, timeout_ms: float | None) -> Message:
        """Wait for a message and return it. Raises Timeout. Cancelling the call loses no message."""
        if self.messages:
            message = self.messages.popleft()
        else:
            future = self._wait(is_async=False)
            timer = None
            if timeout_ms is not None:
                timer = self._loop.call_later(timeout_ms / _MS, _time_out, future, timeout_ms)
            try:
                message = await future
            except asyncio.CancelledError:
                if future.done() and not future.cancelled() and future.exception() is None:
                    self.put_back([future.result()])
                raise
            finally:
                if timer is not None:
                    timer.cancel()
        self.taken(message)
        return message

    def receive_async(self) -> asyncio.Future[Message]:
        """Return a future of the next message. Cancelling the future before it is done loses no message."""
        if not self.messages:
            return self._wait(is_async=True)
        future: asyncio.Future[Message] = self._loop.create_future()
        message = self.messages.popleft()
        self.taken(message)
        future.set_result(message)
        return future

    def _wait(self, *, is_async: bool) -> asyncio.Future[Message]:
        require_loop(self._loop)
        future: asyncio.Future[Message] = self._loop.create_future()
        if self._error is not None:
            _fail(future, self._error)
        else:
            self._pending.add(_Receive(future, is_async=is_async))
            self._ran_dry()
        return future

    async def receive_batch(
        self, policy: ConsumerBatchReceivePolicy, is_full: Callable[[], bool]
    ) -> list[Message]:
        """Wait until there are enough messages for the policy or its time is up, and return them in order.

        The list may be empty. When `is_full` returns True, the waiting messages are always enough, because no more may
        arrive before some are taken. Messages leave the queue when the call returns. If the call is cancelled, they
        stay in the queue.
        """
        require_loop(self._loop)
        deadline_s = None
        if policy.timeout_ms > 0:
            deadline_s = self._loop.time() + policy.timeout_ms / _MS
        while not self._is_enough(policy, is_full):
            if self._error is not None:
                raise self._error
            batch = _BatchReceive(self._loop.create_future(), policy, is_full)
            self._batches.add(batch)
            self._ran_dry()
            left_s = None if deadline_s is None else deadline_s - self._loop.time()
            if left_s is not None and left_s <= 0:
                batch.enough.cancel()
                break
            timer = None if left_s is None else self._loop.call_later(left_s, _wake, batch.enough)
            try:
                await batch.enough
            finally:
                if timer is not None:
                    timer.cancel()
        return self._take_batch(policy)

    def _take_batch(self, policy: ConsumerBatchReceivePolicy) -> list[Message]:
        measure = BatchMeasure(policy.max_num_message, policy.max_num_bytes)
        batch: list[Message] = []
        while self.messages and measure.add(len(self.messages[0].body.payload)):
            message = self.messages.popleft()
            self.taken(message)
            batch.append(message)
        return batch

    def _is_enough(self, policy: ConsumerBatchReceivePolicy, is_full: Callable[[], bool]) -> bool:
        count = len(self.messages)
        if 0 < policy.max_num_message <= count or (count and is_full()):
            return True
        # Counting again each time is cheap: the queue usually has a few thousand messages at most, and this runs only
        # for deliveries during a batch receive.
        max_bytes = policy.max_num_bytes
        return max_bytes > 0 and sum(len(message.body.payload) for message in self.messages) >= max_bytes

    def delivered(self) -> None:
        """Let batch receives look again: a delivery that brought no message may have been the last for now."""
        if self._batches:
            self._wake_batches()

    def _wake_batches(self) -> None:
        for batch in self._batches.take_all():
            if self._is_enough(batch.policy, batch.is_full):
                _wake(batch.enough)
            else:
                self._batches.add(batch)

    def find(self, is_wanted: Callable[[Message], bool]) -> list[Message]:
        """Return the waiting messages that match. They stay in the queue."""
        with self.taking:
            return [message for message in self.messages if is_wanted(message)]

    def listener_idle(self) -> None:
        """Note that the listener has stopped. If no message waits, it needs more."""
        if not self.messages:
            self._ran_dry()

    # --- removing

    def remove(self, is_unwanted: Callable[[Message], bool]) -> list[Message]:
        """Remove and return the matching messages."""
        with self.taking:
            kept: list[Message] = []
            removed: list[Message] = []
            for message in self.messages:
                (removed if is_unwanted(message) else kept).append(message)
            if removed:
                self.messages.clear()
                self.messages.extend(kept)
        if self.listener is not None:
            self.listener.wake()  # it may have found the queue empty during the removal
        return removed

    def end(self, error: VelaError) -> None:
        """Drop the queue, and fail waiting and later calls with the error."""
        self._error = error
        self.messages.clear()
        for receive in self._pending.take_all():
            _fail(receive.future, error)
        for batch in self._batches.take_all():
            _wake(batch.enough)


def _time_out(future: asyncio.Future[Message], timeout_ms: float) -> None:
    if not future.done():
        _fail(future, Timeout(f"no message came within {timeout_ms:g} ms"))


def _fail(future: asyncio.Future[Message], error: VelaError) -> None:
    future.set_exception(error)
    future.exception()  # mark the error as seen: asyncio must not log it if nobody awaits the future


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
