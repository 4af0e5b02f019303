"""`vela.Client`: the client for threads."""

from __future__ import annotations

import asyncio
import functools
import inspect
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from vela.aio.client import Client as AioClient
from vela.aio.consumers.consumer import Consumer as AioConsumer
from vela.aio.consumers.options import DEFAULT_RECEIVER_QUEUE_SIZE, ConsumerEvents
from vela.aio.daemon_thread import DaemonThread
from vela.aio.producers.producer import Producer as AioProducer
from vela.aio.readers.reader import Reader as AioReader
from vela.aio.readers.table_view import TableView as AioTableView
from vela.blocking.consumer import Consumer
from vela.blocking.facade import Facade, waits
from vela.blocking.loop_thread import LoopThread
from vela.blocking.producer import Producer
from vela.blocking.reader import Reader
from vela.blocking.table_view import TableView
from vela.core.argument_checks import require_methods, require_plain_function
from vela.message import Message

__all__ = ["Client"]

P = ParamSpec("P")
R = TypeVar("R")
Given = dict[str, Any]
A = TypeVar("A", AioProducer, AioConsumer, AioReader, AioTableView)
Listener = Callable[[Any, Message], object]

_CALLBACKS_S: Final = 5.0
"""How long `close` waits for callbacks that are already due."""
_MOST_AT_A_TIME: Final = 64
_running: set[asyncio.Task[None]] = set()


def _same_arguments(
    method: Callable[Concatenate[AioClient, P], object],
) -> Callable[[Callable[[Client, Given], R]], Callable[Concatenate[Client, P], R]]:
    """Decorate a function to take the arguments of `method`. The function gets them as a dict from name to value."""
    signature = inspect.signature(method)

    def decorate(make: Callable[[Client, Given], R]) -> Callable[Concatenate[Client, P], R]:
        @functools.wraps(method)
        def call(client: Client, /, *args: P.args, **kwargs: P.kwargs) -> R:
            bound = signature.bind(None, *args, **kwargs)
            bound.apply_defaults()
            return make(client, {name: value for name, value in bound.arguments.items() if name != "self"})

        return call

    return decorate


class Client(Facade[AioClient]):
    """A client of one Vela (or Pulsar) installation. Any number of threads may use it and everything created with it.

    A `vela.aio` client does the work on an event loop in a separate thread; callbacks run on other threads. `close` the
    client, or use it in `with`. A program that does not close it still ends, but unsent messages may be lost, and
    messages whose acknowledgement was not sent are delivered again. In a forked process, create a new client. The old
    client is unusable there: every call that needs its event loop raises AlreadyClosed, `close` and `shutdown` do
    nothing, and `is_connected` returns False.
    """

    @_same_arguments(AioClient.__init__)
    def __init__(self, given: Given) -> None:
        thread = LoopThread("vela-client")
        try:
            super().__init__(thread.call(lambda: AioClient(**given)), thread)
        except BaseException:
            thread.stop("the client could not be created")
            raise
        self._callbacks = DaemonThread("vela-callbacks")
        thread.at_the_end(close=self.aio.close, drop=functools.partial(_drop, self.aio))
        self._abandoned = weakref.finalize(self, _abandon, thread, self._callbacks)
        self._abandoned.atexit = False  # LoopThread closes the client when the interpreter exits

    @_same_arguments(AioClient.create_producer)
    def create_producer(self, given: Given) -> Producer:
        """Create a producer. Arguments and errors are those of `vela.aio.Client.create_producer`."""
        most_pending = given["max_pending_messages"] if given["block_if_queue_full"] else 0
        return self._made(
            lambda: self.aio.create_producer(**given),
            lambda aio: Producer(aio, self._thread, self._callbacks, most_pending=most_pending, client=self),
        )

    @_same_arguments(AioClient.subscribe)
    def subscribe(self, given: Given) -> Consumer:
        """Subscribe a consumer. Arguments and errors are those of `vela.aio.Client.subscribe`."""
        made: Future[Consumer] = Future()
        given["message_listener"] = _listening("message_listener", given["message_listener"], made)
        if (events := given["consumer_event_listener"]) is not None:
            require_methods("consumer_event_listener", events, "became_active", "became_inactive")
            given["consumer_event_listener"] = _Events(events, made)
        return self._made(
            lambda: self.aio.subscribe(**given),
            lambda aio: Consumer(
                aio,
                self._thread,
                self._callbacks,
                receipts=given["ack_receipt_enabled"],
                take_at_a_time=_take_at_a_time(given),
                letters=given["dead_letter_policy"] is not None or given["retry_enable"],
                client=self,
            ),
            made,
        )

    @_same_arguments(AioClient.create_reader)
    def create_reader(self, given: Given) -> Reader:
        """Create a reader. Arguments and errors are those of `vela.aio.Client.create_reader`."""
        made: Future[Reader] = Future()
        given["reader_listener"] = _listening("reader_listener", given["reader_listener"], made)
        return self._made(
            lambda: self.aio.create_reader(**given), lambda aio: Reader(aio, self._thread, client=self), made
        )

    @_same_arguments(AioClient.create_table_view)
    def create_table_view(self, given: Given) -> TableView:
        """Create a table view. Arguments and errors are those of `vela.aio.Client.create_table_view`."""
        return self._made(
            lambda: self.aio.create_table_view(**given),
            lambda aio: TableView(aio, self._thread, self._callbacks, client=self),
        )

    get_topic_partitions = waits(AioClient.get_topic_partitions)
    get_schema = waits(AioClient.get_schema)

    @property
    def is_closed(self) -> bool:
        """Return whether `close` or `shutdown` was called."""
        return self.aio.is_closed

    def _made(
        self,
        make: Callable[[], Coroutine[Any, Any, A]],
        wrap: Callable[[A], R],
        made: Future[R] | None = None,
    ) -> R:
        """Create an object of `vela.aio` with `make`, wrap it, and hand the result to listeners that wait for `made`.

        If the call fails or is interrupted, close what was created and cancel `made`: a listener that waited for ever
        would block all listeners on its thread.
        """

        def close(aio: A) -> None:
            self._thread.post_if_open(lambda: _keep_running(aio.close()))

        try:
            wrapped = wrap(self._thread.run(make, close))
        except BaseException:
            if made is not None:
                made.cancel()
            raise
        if made is not None:
            made.set_result(wrapped)
        return wrapped

    def close(self) -> None:
        """Close all producers, consumers and connections.

        Calls that are waiting on other threads raise AlreadyClosed or Interrupted. Safe to repeat. Waits at most the
        operation timeout for the broker's answers, then at most 5 s for callbacks that are due.
        """
        if self._thread.is_forked:
            return
        self._thread.run_unless_stopped(self.aio.close)
        self._thread.stop("the client is closed")
        self._callbacks.stop(_CALLBACKS_S)

    def shutdown(self) -> None:
        """Drop all connections without waiting for answers. Unanswered requests fail."""
        if self._thread.is_forked:
            return
        self._thread.post_if_open(self.aio.shutdown)
        self._thread.stop("the client is shut down")
        self._callbacks.stop(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _listening(
    name: str, listener: Callable[[Any, Message], object] | None, made: Future[R]
) -> Listener | None:
    """Return a listener that waits for `made` and passes its result to the application's listener.

    The first message can arrive before `subscribe` or `create_reader` returns.
    """
    if listener is None:
        return None
    require_plain_function(name, listener)

    def listen(_: Any, message: Message) -> object:
        return listener(made.result(), message)

    return listen


class _Events:
    """Calls the application's `consumer_event_listener`, with the consumer that `subscribe` returns."""

    def __init__(self, events: ConsumerEvents, made: Future[Consumer]) -> None:
        self._events = events
        self._made = made

    def became_active(self, _: Any, partition: int) -> None:
        self._events.became_active(self._made.result(), partition)

    def became_inactive(self, _: Any, partition: int) -> None:
        self._events.became_inactive(self._made.result(), partition)


def _take_at_a_time(given: Given) -> int:
    """Return how many messages `receive` takes from the queue at a time.

    Later calls return the rest without waking the event loop. `receive` takes one at a time if the application could
    notice the difference: with an ack timeout, which starts when a message is taken, or with a queue of 0 messages.
    """
    if given["unacked_messages_timeout_ms"] or given["enable_zero_queue_consumer"]:
        return 1
    size = given["receiver_queue_size"]
    return max(1, min(_MOST_AT_A_TIME, (DEFAULT_RECEIVER_QUEUE_SIZE if size is None else size) // 16))


def _keep_running(coroutine: Coroutine[Any, Any, None]) -> None:
    task = asyncio.get_running_loop().create_task(coroutine)
    _running.add(task)
    task.add_done_callback(_running.discard)


async def _drop(aio: AioClient) -> None:
    """Close the connections. After `shutdown`, also fail unanswered sends, because threads may wait for room."""
    await (aio.close() if aio.is_closed else aio.pool.close())


def _abandon(thread: LoopThread, callbacks: DaemonThread) -> None:
    """Stop the threads of a client that was garbage-collected. Any thread may call this, so it must not wait."""
    thread.stop("the client is gone", wait_s=0)
    callbacks.stop(0)
