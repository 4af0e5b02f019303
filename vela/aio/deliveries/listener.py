"""Listeners call the application's function with each message, one after the other.

A coroutine function runs as a task on the event loop. Any other function runs on a thread, so that a slow one does not
block the connection. If a listener raises, the error is logged and the next message follows.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, cast

from vela.aio.daemon_thread import DaemonThread
from vela.core.argument_checks import is_coroutine_function
from vela.message import Message

__all__ = ["Listener", "ListenerSource", "LoopCalls", "TaskListener", "ThreadListener", "start_listener"]

logger = logging.getLogger(__name__)

_TURN: Final = 100
"""Messages that a listener gets before another listener on the same thread has its turn."""


class ListenerSource(Protocol):
    """The queue that a listener takes messages from."""

    @property
    def messages(self) -> deque[Message]:
        """The waiting messages, in order."""

    @property
    def taking(self) -> threading.Lock:
        """The lock to hold while taking a message on a thread."""

    def taken(self, message: Message) -> None:
        """Called on the event loop when a listener takes a message."""

    def listener_idle(self) -> None:
        """Called on the event loop when the listener stops, because no message waits or because it is paused."""


class Listener(Protocol):
    """Calls the application's function with the messages of a consumer."""

    @property
    def is_busy(self) -> bool:
        """Return whether a call is running, or the next one follows at once."""

    def wake(self) -> None:
        """Start calling, if messages wait and the listener is not paused."""

    def pause(self) -> None:
        """Start no call until `resume`. A call that runs, or is just starting, continues. Safe to repeat."""

    def resume(self) -> None:
        """Call the function again. Safe to repeat."""

    def close(self) -> None:
        """Start no more calls. Does not wait for a running call."""


def start_listener(
    function: Callable[[Any, Message], Awaitable[None] | None],
    consumer: Any,
    source: ListenerSource,
    *,
    view: Callable[[Any, LoopCalls], Any],
    thread: DaemonThread,
) -> Listener:
    """Return the listener for this kind of function.

    A plain function runs on `thread`, and gets `view(consumer, …)` instead of the consumer.
    """
    if is_coroutine_function(function):
        return TaskListener(cast("Callable[[Any, Message], Awaitable[None]]", function), consumer, source)
    calls = LoopCalls(asyncio.get_running_loop())
    return ThreadListener(function, view(consumer, calls), source, calls, thread)


class LoopCalls:
    """Calls that other threads queue for the event loop. All queued calls cost one wake-up of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        """The event loop that runs the calls."""
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._is_scheduled = False

    def post(self, function: Callable[..., object], *args: Any) -> None:
        """Call a function on the loop, after those posted earlier. Never waits. Does nothing if the loop is closed."""
        self._calls.append((function, args))
        if not self._is_scheduled:
            # Set the flag first: if `_run` cleared it before it is set, no later call would wake the loop again.
            self._is_scheduled = True
            try:
                self.loop.call_soon_threadsafe(self._run)
            except RuntimeError:  # the loop is closed
                self._calls.clear()

    def _run(self) -> None:
        self._is_scheduled = False
        calls = self._calls
        while calls:
            function, args = calls.popleft()
            try:
                function(*args)
            except Exception:
                logger.exception("a call from a listener's thread failed")


class TaskListener:
    """A `Listener` that calls a coroutine function. One task runs as long as messages wait."""

    def __init__(
        self,
        function: Callable[[Any, Message], Awaitable[None]],
        consumer: Any,
        source: ListenerSource,
    ) -> None:
        self._function = function
        self._consumer = consumer
        self._source = source
        self._is_paused = False
        self._task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        if self._task is None and not self._is_paused and self._source.messages:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._source.messages and not self._is_paused:
                message = self._source.messages.popleft()
                self._source.taken(message)
                try:
                    await self._function(self._consumer, message)
                except (Exception, asyncio.CancelledError) as error:
                    if (
                        isinstance(error, asyncio.CancelledError)
                        and self._task is not None
                        and self._task.cancelling()
                    ):
                        raise  # The event loop ends. Otherwise the listener awaited something that was cancelled.
                    logger.exception("the message listener failed; the next message follows: %r", message)
        finally:
            self._task = None
            self._source.listener_idle()

    @property
    def is_busy(self) -> bool:
        return self._task is not None

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self.wake()

    def close(self) -> None:
        self._is_paused = True


class ThreadListener:
    """A `Listener` that calls a plain function on a thread. Listeners that share the thread take turns."""

    def __init__(
        self,
        function: Callable[[Any, Message], object],
        consumer: Any,
        source: ListenerSource,
        calls: LoopCalls,
        thread: DaemonThread,
    ) -> None:
        self._function = function
        self._consumer = consumer
        self._source = source
        self._calls = calls
        self._thread = thread
        self._lock = threading.Lock()  # for the three flags below, so that no wake-up is lost
        self._is_running = False
        self._is_paused = False
        self._is_closed = False

    def wake(self) -> None:
        with self._lock:
            if self._is_running or self._is_paused or self._is_closed or not self._source.messages:
                return
            self._is_running = True
            self._thread.submit(self._run)

    @property
    def is_busy(self) -> bool:
        return self._is_running

    def _run(self) -> None:
        try:
            for _ in range(_TURN):
                message = self._next()
                if message is None:
                    return
                self._calls.post(self._source.taken, message)
                try:
                    _require_no_coroutine(self._function(self._consumer, message))
                except BaseException:  # SystemExit too: the thread must go on
                    logger.exception("the message listener failed; the next message follows: %r", message)
            self._thread.submit(self._run)  # other listeners on this thread go first
        except Exception:  # taking a message failed: the next delivery starts a new round
            with self._lock:
                self._is_running = False
            logger.exception("taking a message for the listener failed")

    def _next(self) -> Message | None:
        """Return the next message. None ends this round; the next delivery starts another."""
        messages, taking = self._source.messages, self._source.taking
        while True:
            try:
                if not self._is_paused:
                    with taking:
                        return messages.popleft()
            except IndexError:
                pass
            with self._lock:
                if not messages or self._is_paused:
                    self._is_running = False
                    self._calls.post(self._source.listener_idle)
                    return None

    def pause(self) -> None:
        with self._lock:
            self._is_paused = True

    def resume(self) -> None:
        with self._lock:
            self._is_paused = False
        self.wake()

    def close(self) -> None:
        with self._lock:
            self._is_paused = self._is_closed = True


def _require_no_coroutine(outcome: object) -> None:
    """Raise TypeError for a coroutine, which nothing would run: a lambda may have called a coroutine function."""
    if inspect.iscoroutine(outcome):
        outcome.close()
        raise TypeError("the listener returned a coroutine: pass the coroutine function itself, to vela.aio")
