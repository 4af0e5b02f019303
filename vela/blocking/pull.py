"""`vela.PullConsumer`: the pull consumer for threads."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self, TypedDict, Unpack, cast

from vela.aio.pull.consumer import PullConsumer as AioPullConsumer
from vela.aio.pull.consumer import QueuePosition
from vela.aio.pull.offsets import OffsetStore
from vela.aio.pull.thread_calls import for_a_thread
from vela.authentication import Authentication
from vela.blocking.facade import Facade, waits
from vela.blocking.loop_thread import LoopThread
from vela.core.argument_checks import milliseconds, require_plain_function
from vela.core.consuming.pull_loop import PullLimits
from vela.errors import AlreadyClosed, InvalidConfiguration
from vela.options import InitialPosition
from vela.pull_message import PulledMessage

__all__ = ["BlockingOffsetStore", "PullConsumer"]


class PullOptions(TypedDict, total=False):
    """The optional arguments of a pull consumer, which `vela.aio.PullConsumer` documents."""

    initial_position: InitialPosition
    queues: Sequence[int] | None
    tags: str
    property_filter: str
    listener_concurrency: int
    negative_ack_redelivery_delay_ms: int
    max_reconsume_times: int
    max_messages: int
    pull_interval_ms: int
    hold_ms: int | None
    request_timeout_ms: int
    limits: PullLimits | None
    commit_interval_ms: int
    authentication: Authentication | None
    tls_trust_certs_file_path: str | None
    tls_allow_insecure_connection: bool
    tls_validate_hostname: bool


class BlockingOffsetStore(Protocol):
    """The blocking form of `vela.aio.OffsetStore`. Its plain methods run on threads and may wait."""

    def load(self, topic: str, queue: int) -> int | None:
        """Return the offset saved last for a queue; None = nothing was saved yet."""

    def save(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Store offsets by queue. The offsets must be durable when this returns."""


class PullConsumer(Facade[AioPullConsumer]):
    """A consumer that pulls one topic over HTTP. Any number of threads may use it. Its event loop has its own thread.

        with PullConsumer("http://localhost:8080", "orders", "billing") as consumer:
            for message in consumer:
                ...
                consumer.acknowledge(message)

    If KeyboardInterrupt interrupts a call, its message is not lost: the next call returns that message.
    """

    def __init__(
        self,
        service_url: str,
        topic: str,
        subscription_name: str | None = None,
        *,
        offset_store: OffsetStore | BlockingOffsetStore | None = None,
        message_listener: Callable[[PullConsumer, PulledMessage], object] | None = None,
        **options: Unpack[PullOptions],
    ) -> None:
        """Take the arguments of `vela.aio.PullConsumer`. A listener is a plain function, which runs on a thread."""
        require_plain_function("message_listener", message_listener)
        self._returned: deque[PulledMessage] = deque()  # taken by interrupted calls
        self._listening = threading.local()

        def listen(_: AioPullConsumer, message: PulledMessage) -> None:
            self._listening.now = True
            if message_listener is not None:
                message_listener(self, message)

        thread = LoopThread("vela-pull")
        try:
            aio = thread.call(
                lambda: AioPullConsumer(
                    service_url,
                    topic,
                    subscription_name,
                    offset_store=None if offset_store is None else _awaitable(offset_store),
                    message_listener=None if message_listener is None else listen,
                    **options,
                )
            )
        except BaseException:
            thread.stop("the consumer could not be created")
            raise
        super().__init__(aio, thread)
        thread.at_the_end(close=aio.close, drop=aio.close)

    start = waits(AioPullConsumer.start)
    commit = waits(AioPullConsumer.commit)

    def receive(self, timeout_millis: int | None = None) -> PulledMessage:
        """Wait for the next message and return it. Raises the errors of `vela.aio.PullConsumer.receive`."""
        self._thread.require_own_process()
        if timeout_millis is not None:
            milliseconds("timeout_millis", timeout_millis)
        if self._returned:
            try:
                return self._returned.popleft()
            except IndexError:
                pass  # another thread was faster
        return self._thread.run(lambda: self.aio.receive(timeout_millis), self._returned.appendleft)

    def __iter__(self) -> Iterator[PulledMessage]:
        """Yield messages until the consumer is closed."""
        while True:
            try:
                yield self.receive()
            except AlreadyClosed:
                self._thread.require_own_process()
                return

    def acknowledge(self, message: PulledMessage) -> None:
        """Mark a message as finished, without waiting. Raises AlreadyClosed."""
        self._thread.post(lambda: self.aio.acknowledge(message))

    def negative_acknowledge(self, message: PulledMessage) -> None:
        """Deliver a message again after the delay, without waiting. Raises AlreadyClosed."""
        self._thread.post(lambda: self.aio.negative_acknowledge(message))

    def pause(self) -> None:
        """Start no more pulls until `resume`."""
        self._thread.call(self.aio.pause)

    def resume(self) -> None:
        """Pull again after `pause`."""
        self._thread.call(self.aio.resume)

    def positions(self) -> Mapping[int, QueuePosition]:
        """Return the progress of each queue, by its number."""
        return self._thread.call(self.aio.positions)

    def close(self) -> None:
        """Stop pulling, wait for running listeners, and save the offsets. Safe to repeat.

        Raises the store's errors, and InvalidConfiguration if the listener calls this method, which waits for the
        listener.
        """
        if getattr(self._listening, "now", False):
            raise InvalidConfiguration(
                "close the consumer from another thread: it waits for its listener, which runs on this thread"
            )
        try:
            self._thread.run_unless_stopped(self.aio.close)
        finally:
            self._thread.stop("the consumer is closed")

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _InThread:
    """An `OffsetStore` that runs the methods of a blocking store on threads."""

    def __init__(self, store: BlockingOffsetStore) -> None:
        self._store = store

    async def load(self, topic: str, queue: int) -> int | None:
        return await asyncio.to_thread(for_a_thread(self._store.load), topic, queue)

    async def save(self, topic: str, offsets: Mapping[int, int]) -> None:
        await asyncio.to_thread(for_a_thread(self._store.save), topic, offsets)


def _awaitable(store: OffsetStore | BlockingOffsetStore) -> OffsetStore:
    if inspect.iscoroutinefunction(store.load) and inspect.iscoroutinefunction(store.save):
        return cast(OffsetStore, store)
    return _InThread(cast(BlockingOffsetStore, store))
