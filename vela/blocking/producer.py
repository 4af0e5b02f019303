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
from vela.errors import InvalidConfiguration, Result, VelaError
from vela.message import MessageId

if TYPE_CHECKING:
    from vela.aio.daemon_thread import DaemonThread
    from vela.blocking.loop_thread import LoopThread
    from vela.core.producing.statistics import ProducerStatistics

__all__ = ["Producer"]

SendCallback = Callable[[Result, MessageId], object]


class Producer(Facade[AioProducer]):
    """Made by `Client.create_producer`. May be used from any number of threads.

    The messages of one thread leave in the order of its calls.
    """

    def __init__(
        self,
        aio: AioProducer,
        thread: LoopThread,
        callbacks: DaemonThread,
        *,
        room: int | None,
        client: object,
    ) -> None:
        """`room`: messages without a receipt beyond which `send_async` waits; None = it never does."""
        super().__init__(aio, thread, client=client)
        self._callbacks = callbacks
        self._room = None if room is None else threading.BoundedSemaphore(room)
        self._answered: list[Callable[[], object]] = []

    def topic(self) -> str:
        """The topic's full name."""
        return self.aio.topic()

    def producer_name(self) -> str:
        """Its name: the one given, or the one that the broker made."""
        return self.aio.producer_name()

    def last_sequence_id(self) -> int:
        """The highest sequence id with a receipt, also of an earlier producer of this name; -1 = none."""
        return self.aio.last_sequence_id()

    def is_connected(self) -> bool:
        """Whether what is sent now leaves at once; otherwise it waits for the connection to come back."""
        return not self._thread.is_forked and self.aio.is_connected()

    def statistics(self) -> ProducerStatistics:
        """What it has done so far. Cheap, and allowed at any time."""
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
        """Publishes a message and has `callback(result, message_id)` called once it is stored, or has failed.
        With None nobody is told; `flush` raises what went wrong with what was sent before it.

        Callbacks run on a thread of the client's, one at a time, and may wait for the client. They come in the order of
        the sends (of a partition; with key-based batches, of a key), but for what is refused before it is sent: that is
        told at once. When as many messages as `max_pending_messages` wait for their receipt the result is
        ProducerQueueIsFull, or with `block_if_queue_full` this call waits. After a failure the id is `MessageId()`.

        Raises AlreadyClosed for a closed client, InvalidConfiguration for a wrong argument or a callback that is none,
        and what the schema raises for content that it does not take. Arguments are those of `send`.
        """
        if callback is not None and not callable(callback):
            raise InvalidConfiguration(
                f"callback is called with result and message id, {callback!r} cannot be"
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
            self.aio.send_outgoing(message, future)

        try:
            self._thread.post(submit)
        except BaseException:
            self._release()
            raise

    def _answer(self, callback: SendCallback | None, future: asyncio.Future[MessageId]) -> None:
        """On the loop: the receipts that come together are handed to the callbacks' thread together."""
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
        """Waits for what was sent, no longer than the operation timeout, then closes. May be called twice."""
        self._thread.run_unless_stopped(self.aio.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
