"""Listeners: the application's function is called with every message, one after the other.

A coroutine function runs as a task of the event loop; any other function on a thread, so that however long it takes the
connection goes on. A listener that raises is logged; its message stays unacknowledged.
"""

from __future__ import annotations

import asyncio
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
"""Messages that a listener is given before another one that is on the same thread."""


class ListenerSource(Protocol):
    """Where a listener's messages come from: a consumer."""

    @property
    def messages(self) -> deque[Message]:
        """What waits, the first to be next."""

    @property
    def taking(self) -> threading.Lock:
        """See `ReceiveQueue.taking`."""

    def taken(self, message: Message) -> None:
        """The listener is about to be called with it. On the event loop."""

    def listener_idle(self) -> None:
        """The listener has returned and finds no further message. On the event loop."""


class Listener(Protocol):
    """Calls the application's function."""

    @property
    def is_busy(self) -> bool:
        """A call runs, or another follows at once."""

    def wake(self) -> None:
        """Messages have come, or `resume` was called."""

    def pause(self) -> None:
        """No call begins until `resume`; the one that runs goes on. Safe to repeat."""

    def resume(self) -> None:
        """Safe to repeat."""

    def close(self) -> None:
        """No call begins any more. Does not wait for the one that runs."""


def start_listener(
    function: Callable[[Any, Message], Awaitable[None] | None],
    consumer: Any,
    source: ListenerSource,
    *,
    name: str,
    view: Callable[[Any, LoopCalls], Any],
    thread: DaemonThread | None = None,
) -> Listener:
    """The listener for this kind of function. On a thread it is given what `view` makes of the consumer."""
    if is_coroutine_function(function):
        return TaskListener(cast("Callable[[Any, Message], Awaitable[None]]", function), consumer, source)
    calls = LoopCalls(asyncio.get_running_loop())
    return ThreadListener(function, view(consumer, calls), source, calls, name=name, thread=thread)


class LoopCalls:
    """Calls that other threads leave for the event loop. Many of them cost one wake-up of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        """Where they are made."""
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._is_scheduled = False

    def post(self, function: Callable[..., object], *args: Any) -> None:
        """Have it called on the loop, after what was posted before; never waits. Vanishes when the loop is closed."""
        self._calls.append((function, args))
        if not self._is_scheduled:
            # The order matters: whoever finds the flag set knows that `_run` has not begun to empty the queue.
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
                logger.exception("a listener failed")


class TaskListener:
    """A coroutine function: one task for as long as messages are there."""

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
        """See `Listener`."""
        if self._task is None and not self._is_paused and self._source.messages:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._source.messages and not self._is_paused:
                message = self._source.messages.popleft()
                self._source.taken(message)
                try:
                    await self._function(self._consumer, message)
                except Exception:
                    logger.exception("the message listener failed; the message stays unacknowledged")
        finally:
            self._task = None
            self._source.listener_idle()

    @property
    def is_busy(self) -> bool:
        """See `Listener`."""
        return self._task is not None

    def pause(self) -> None:
        """See `Listener`."""
        self._is_paused = True

    def resume(self) -> None:
        """See `Listener`."""
        self._is_paused = False
        self.wake()

    def close(self) -> None:
        """See `Listener`."""
        self._is_paused = True


class ThreadListener:
    """Any other function: on a thread, which other listeners may be on too; they take turns."""

    def __init__(
        self,
        function: Callable[[Any, Message], object],
        consumer: Any,
        source: ListenerSource,
        calls: LoopCalls,
        *,
        name: str,
        thread: DaemonThread | None,
    ) -> None:
        """`thread`: None = one of its own, which ends when the listener is closed."""
        self._function = function
        self._consumer = consumer
        self._source = source
        self._calls = calls
        self._thread = thread or DaemonThread(f"listener-{name}")
        self._has_own_thread = thread is None
        self._lock = threading.Lock()  # of the three below: who comes last must see what the other did
        self._is_running = False
        self._is_paused = False
        self._is_closed = False

    def wake(self) -> None:
        """See `Listener`."""
        with self._lock:
            if self._is_running or self._is_paused or self._is_closed or not self._source.messages:
                return
            self._is_running = True
            self._thread.submit(self._run)

    @property
    def is_busy(self) -> bool:
        """See `Listener`."""
        return self._is_running

    def _run(self) -> None:
        try:
            for _ in range(_TURN):
                message = self._next()
                if message is None:
                    return
                self._calls.post(self._source.taken, message)
                try:
                    self._function(self._consumer, message)
                except BaseException:  # SystemExit too, or no message would be taken any more
                    logger.exception("the message listener failed; the message stays unacknowledged")
            self._thread.submit(self._run)  # after the others on this thread
        except Exception:  # taking a message failed: the next delivery begins anew
            with self._lock:
                self._is_running = False
            logger.exception("taking a message for the listener failed")

    def _next(self) -> Message | None:
        """The next message; None = this round ends, and whoever puts the next one in begins another."""
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
        """See `Listener`."""
        with self._lock:
            self._is_paused = True

    def resume(self) -> None:
        """See `Listener`."""
        with self._lock:
            self._is_paused = False
        self.wake()

    def close(self) -> None:
        """See `Listener`."""
        with self._lock:
            self._is_paused = self._is_closed = True
        if self._has_own_thread:
            self._thread.stop(0)
