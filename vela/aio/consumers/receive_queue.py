"""Messages that wait for the application, and the application's calls that wait for messages."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

from vela.aio.own_loop import require_loop
from vela.core.consuming.batch_receiving import BatchMeasure
from vela.core.consuming.pending_receives import PendingReceives
from vela.errors import Timeout, VelaError
from vela.message import Message

if TYPE_CHECKING:
    from vela.core.acks.batch_acks import Position
    from vela.options import ConsumerBatchReceivePolicy

__all__ = ["ReceiveQueue"]

_MS: Final = 1000


class _Receive:
    """One call of receive that waits."""

    __slots__ = ("future", "is_async")

    def __init__(self, future: asyncio.Future[Message], *, is_async: bool) -> None:
        self.future = future
        self.is_async = (
            is_async  # the application holds the future itself: it is served with no one looking on
        )

    def done(self) -> bool:
        return self.future.done()


class _BatchReceive:
    """One call of batch receive that waits; `enough` only wakes it, it takes its messages itself."""

    __slots__ = ("enough", "max_bytes", "max_messages")

    def __init__(self, enough: asyncio.Future[None], max_messages: int, max_bytes: int) -> None:
        self.enough = enough
        self.max_messages = max_messages
        self.max_bytes = max_bytes

    def done(self) -> bool:
        return self.enough.done()


class ReceiveQueue:
    """First in, first out, for messages and for those who wait. It grows as it must.

    `taken` is called when the application gets a message, for each exactly once. Between a hand-over and the moment in
    which the waiting call goes on, that call may be cancelled: the message comes back to the head of the queue then,
    untaken, if `is_current` still. While anyone waits the queue is empty.
    """

    __slots__ = ("_batches", "_error", "_is_current", "_loop", "_pending", "_taken", "messages", "taking")

    def __init__(self, taken: Callable[[Message], None], is_current: Callable[[Message], bool]) -> None:
        self.messages: deque[Message] = deque()
        """Those nobody waits for. Who takes from it calls what `take` calls."""
        self.taking = threading.Lock()
        """Held where messages are removed from the middle, and by a taker on another thread than the loop's."""
        self._taken = taken
        self._is_current = is_current
        self._loop = asyncio.get_running_loop()
        self._pending: PendingReceives[_Receive] = PendingReceives()
        self._batches: PendingReceives[_BatchReceive] = PendingReceives()
        self._error: VelaError | None = None  # nothing comes any more

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def waiting(self) -> int:
        """Calls that wait for one message each."""
        return len(self._pending)

    def put(self, messages: list[Message]) -> None:
        """Messages have come."""
        if self._error is not None:
            return
        if self._pending:
            messages = self._hand_over(messages)
        self.messages.extend(messages)
        if self._batches:
            self._wake_batches()

    def _hand_over(self, messages: list[Message]) -> list[Message]:
        """Serves those who wait; the rest of the messages."""
        for index, message in enumerate(messages):
            receive = self._pending.next()
            if receive is None:
                return messages[index:]
            if receive.is_async:
                self._taken(message)
            receive.future.set_result(message)
        return []

    def put_back(self, messages: Sequence[Message]) -> None:
        """Handed over and not taken after all: the next ones in line, in this order."""
        if self._error is not None:
            return
        rest = self._hand_over([message for message in messages if self._is_current(message)])
        self.messages.extendleft(reversed(rest))

    # --- taking

    def take(self) -> Message | None:
        """The first message, None when there is none."""
        if not self.messages:
            return None
        message = self.messages.popleft()
        self._taken(message)
        return message

    async def receive(self, timeout_ms: float | None) -> Message:
        """The first message, once there is one. Raises Timeout; cancelled, it loses none."""
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
        self._taken(message)
        return message

    def receive_async(self) -> asyncio.Future[Message]:
        """As `receive`, with a future that the application holds. Cancelled before it is done, it loses none."""
        if not self.messages:
            return self._wait(is_async=True)
        future: asyncio.Future[Message] = self._loop.create_future()
        message = self.messages.popleft()
        self._taken(message)
        future.set_result(message)
        return future

    def _wait(self, *, is_async: bool) -> asyncio.Future[Message]:
        require_loop(self._loop)
        future: asyncio.Future[Message] = self._loop.create_future()
        if self._error is not None:
            _fail(future, self._error)
        else:
            self._pending.add(_Receive(future, is_async=is_async))
        return future

    async def receive_batch(self, policy: ConsumerBatchReceivePolicy, full: int) -> list[Message]:
        """What has come when the policy is fulfilled, in order; empty when its time is up and nothing has come.

        `full` messages are enough whatever the policy says: more will not come before some are taken. Messages leave
        the queue when the call returns; cancelled, it leaves them there.
        """
        require_loop(self._loop)
        deadline_s = None
        if policy.timeout_ms > 0:
            deadline_s = self._loop.time() + policy.timeout_ms / _MS
        max_messages = min(policy.max_num_message, full) if policy.max_num_message > 0 else full
        max_bytes = policy.max_num_bytes
        while not self._is_enough(max_messages, max_bytes):
            if self._error is not None:
                raise self._error
            batch = _BatchReceive(self._loop.create_future(), max_messages, max_bytes)
            self._batches.add(batch)
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
            self._taken(message)
            batch.append(message)
        return batch

    def _is_enough(self, max_messages: int, max_bytes: int) -> bool:
        count = len(self.messages)
        if 0 < max_messages <= count:
            return True
        # Counted afresh: the queue holds at most a few thousand messages, and this runs once for each delivery that
        # finds a batch receive waiting.
        return max_bytes > 0 and sum(len(message.body.payload) for message in self.messages) >= max_bytes

    def _wake_batches(self) -> None:
        for batch in self._batches.take_all():
            if self._is_enough(batch.max_messages, batch.max_bytes):
                _wake(batch.enough)
            else:
                self._batches.add(batch)

    def find(self, is_wanted: Callable[[Message], bool]) -> list[Message]:
        """Those of the messages that wait; they stay."""
        with self.taking:
            return [message for message in self.messages if is_wanted(message)]

    # --- removing

    def clear(self) -> list[Message]:
        """Forget what nobody took; the messages that were."""
        return self.remove_where(lambda _: True)

    def remove(self, positions: Collection[Position]) -> list[Message]:
        """Forget the messages of these entries; those they were."""
        return self.remove_where(
            lambda message: (message.entry.ledger_id, message.entry.entry_id) in positions
        )

    def remove_where(self, is_unwanted: Callable[[Message], bool]) -> list[Message]:
        """Forget these messages; those they were. A listener has to be woken afterwards: it may have found nothing."""
        with self.taking:
            kept: list[Message] = []
            removed: list[Message] = []
            for message in self.messages:
                (removed if is_unwanted(message) else kept).append(message)
            if removed:
                self.messages.clear()
                self.messages.extend(kept)
        return removed

    def end(self, error: VelaError) -> None:
        """Nothing comes any more: whoever waits, and whoever will, is told why. What is in the queue is dropped."""
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
    future.exception()  # whoever waited may be gone: that a consumer is closed is no news for the log


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
