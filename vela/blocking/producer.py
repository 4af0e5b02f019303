"""`vela.Producer`: a producer for threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from vela.aio.producers.producer import Producer as AioProducer
from vela.blocking.facade import Facade, waits
from vela.errors import InvalidConfiguration, Result, UnknownError, VelaError
from vela.message import MessageId

if TYPE_CHECKING:
    from vela.aio.daemon_thread import DaemonThread
    from vela.blocking.loop_thread import LoopThread
    from vela.core.producing.statistics import ProducerStatistics

__all__ = ["Producer"]

SendCallback = Callable[[Result, MessageId], object]


class Producer(Facade[AioProducer]):
    """A producer, created by `Client.create_producer`. Any number of threads may use it.

    The messages of one thread are sent in the order of its calls.
    """

    def __init__(
        self,
        aio: AioProducer,
        thread: LoopThread,
        callbacks: DaemonThread,
        *,
        most_pending: int,
        client: object,
    ) -> None:
        """`most_pending`: the number of messages without a receipt at which `send_async` waits; 0 = never."""
        super().__init__(aio, thread, client=client)
        self._callbacks = callbacks
        self._room = threading.BoundedSemaphore(most_pending) if most_pending else None
        self._answered: list[Callable[[], object]] = []

    def topic(self) -> str:
        """Return the topic's full name."""
        return self.aio.topic()

    def producer_name(self) -> str:
        """Return the name that the application or the broker gave the producer. Reconnecting does not change it."""
        return self.aio.producer_name()

    def last_sequence_id(self) -> int:
        """Return the highest sequence id with a receipt, also of earlier producers with this name; -1 = none."""
        return self.aio.last_sequence_id()

    def is_connected(self) -> bool:
        """Return whether the producer is connected. If not, messages wait until it has reconnected."""
        return not self._thread.is_forked and self.aio.is_connected()

    def statistics(self) -> ProducerStatistics:
        """Return the producer's statistics. Cheap, and allowed at any time."""
        return self._thread.call(self.aio.statistics)

    send = waits(AioProducer.send)

    def send_async(
        self,
        content: Any,
        callback: SendCallback | None,
        properties: Mapping[str, str] | None = None,
        partition_key: str | None = None,
        ordering_key: str | bytes | None = None,
        sequence_id: int | None = None,
        replication_clusters: Sequence[str] | None = None,
        disable_replication: bool = False,
        event_timestamp: int | None = None,
        deliver_at: int | None = None,
        deliver_after: timedelta | None = None,
    ) -> None:
        """Publish a message and call `callback(result, message_id)` when it is stored or has failed.

        Returns at once, unless it waits for room. The arguments are those of `send`. Without a callback, you learn of a
        failure only if `flush` waits for the message at that time. After a failure the id is `MessageId()`.

        The client has one thread for callbacks, so callbacks run one at a time. A callback may call methods that wait.
        Callbacks for one partition, or for one key with key-based batches, run in the order of the sends. Only a
        message that the client refuses before sending it is answered at once. If `max_pending_messages` wait for their
        receipts, the result is ProducerQueueIsFull; with `block_if_queue_full`, this call waits for room instead.

        Raises AlreadyClosed if the client is closed, InvalidConfiguration for a wrong argument, and the schema's
        TypeError or ValueError for content that the schema does not accept.
        """
        if callback is not None and not callable(callback):
            raise InvalidConfiguration(
                f"callback must be a function of result and message id, not {callback!r}"
            )
        self._thread.require_own_process()
        message = self.aio.prepare(
            content,
            properties,
            partition_key,
            ordering_key,
            sequence_id,
            replication_clusters,
            disable_replication,
            event_timestamp,
            deliver_at,
            deliver_after,
        )
        if self._room is not None:
            self._room.acquire()

        def submit() -> None:
            future: asyncio.Future[MessageId] = asyncio.get_running_loop().create_future()
            future.add_done_callback(lambda done: self._answer(callback, done))
            try:
                self.aio.send_outgoing(message, future)
            except Exception as error:  # raised by the application's message_router
                is_known = isinstance(error, VelaError)
                future.set_exception(error if is_known else UnknownError(f"message_router failed: {error!r}"))

        try:
            self._thread.post(submit)
        except BaseException:
            self._release()
            raise

    def _answer(self, callback: SendCallback | None, future: asyncio.Future[MessageId]) -> None:
        """Queue the callback of a message that was answered. Runs on the event loop.

        Answers that arrive together go to the callbacks' thread together, in order.
        """
        self._release()
        error = None if future.cancelled() else future.exception()
        if callback is None:
            return
        if future.cancelled() or error is not None:
            code = error.code if isinstance(error, VelaError) else Result.Interrupted
            answer: Callable[[], object] = lambda: callback(code, MessageId())  # noqa: E731
        else:
            message_id = future.result()
            answer = lambda: callback(Result.Ok, message_id)  # noqa: E731
        if not self._answered:
            future.get_loop().call_soon(self._pass_on)
        self._answered.append(answer)

    def _pass_on(self) -> None:
        answered, self._answered = self._answered, []
        for answer in answered:
            self._callbacks.submit(answer)

    def _release(self) -> None:
        if self._room is not None:
            self._room.release()

    flush = waits(AioProducer.flush)

    def close(self) -> None:
        """Wait at most the operation timeout for the answers to sent messages, then close. Safe to repeat.

        Messages without an answer fail with AlreadyClosed.
        """
        self._thread.run_unless_stopped(self.aio.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
