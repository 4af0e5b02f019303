"""The event loop of one blocking client, on a separate thread."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from vela.blocking.waiting import Waiter
from vela.errors import AlreadyClosed, Interrupted, InvalidConfiguration

__all__ = ["LoopThread"]

T = TypeVar("T")

logger = logging.getLogger(__name__)

_EXIT_S: Final = 2.0
"""How long the interpreter waits at exit for the close of each client that is still open."""
_STOP_S: Final = 2.0
"""How long `stop` waits for the thread to end."""
_FORKED: Final = "a client does not work in a forked process: create a new one there"


class LoopThread:
    """An event loop on its own thread. It runs calls from all threads, in the order in which the calls were made.

    The thread is a daemon, so a program can end without closing its client. Calls are queued, and the loop is woken
    once for all queued calls, because waking it costs more than most calls.
    """

    def __init__(self, name: str) -> None:
        # Reentrant: Python may collect an abandoned client while a thread holds the lock, and its `stop` locks again.
        self._guard = threading.RLock()
        self._queue: deque[Callable[[], object]] = deque()
        self._is_woken = False
        self._refusal: str | None = None  # why `post` refuses calls; None = the loop runs
        self._close: Callable[[], Coroutine[Any, Any, None]] | None = None
        self._drop: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.is_forked = False
        """True in a child process after a fork. The child has no such thread, and locks may be locked for ever."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()
        _living.add(self)

    # --- from any thread

    def post(self, function: Callable[[], object]) -> None:
        """Call `function` on the loop without waiting. Logs an error in the function. Raises AlreadyClosed."""
        with self._guard:
            if self._refusal is not None:
                raise AlreadyClosed(self._refusal)
            self._queue.append(function)
            if not self._is_woken:
                self._loop.call_soon_threadsafe(self._drain)
                # Set it after the call: an interrupt between the two lines then wakes the loop twice instead of never.
                self._is_woken = True

    def require_own_process(self) -> None:
        """Raise AlreadyClosed in a forked process."""
        if self.is_forked:
            raise AlreadyClosed(_FORKED)

    def do(self, function: Callable[[], object]) -> None:
        """Call `function` at once on the loop's thread. On any other thread, do the same as `post_if_open`."""
        if threading.current_thread() is self._thread:
            function()
        else:
            self.post_if_open(function)

    def post_if_open(self, function: Callable[[], object]) -> None:
        """Do the same as `post`, or nothing if the loop is stopped."""
        with contextlib.suppress(AlreadyClosed):
            self.post(function)

    def call(self, function: Callable[[], T]) -> T:
        """Call `function` on the loop and return its result. Raises its error, or AlreadyClosed."""
        waiter: Waiter[T] = Waiter()
        self._require_other_thread()
        self.post(lambda: _settle(waiter, function))
        return waiter.wait()

    def run(
        self, make: Callable[[], Coroutine[Any, Any, T]], unclaimed: Callable[[T], None] | None = None
    ) -> T:
        """Run a coroutine on the loop and return its result.

        Raises its error, AlreadyClosed, or Interrupted if the loop stops meanwhile. If the wait is interrupted, the
        coroutine is cancelled. If it still returns a value, `unclaimed` gets the value, on this thread or the loop's.
        """
        self._require_other_thread()
        waiter: Waiter[T] = Waiter(unclaimed)
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            try:
                coroutine = make()
            except BaseException as error:  # for example, `make` got an unexpected argument
                waiter.fail(error)
            else:
                tasks.append(self.start(coroutine, waiter))

        try:
            self.post(begin)
            return waiter.wait()
        except BaseException:
            waiter.abandon()
            self.post_if_open(lambda: [task.cancel() for task in tasks])
            raise

    def run_unless_stopped(self, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do the same as `run`, or nothing if the loop is stopped. For `close`, which must be safe to repeat."""
        if self._refusal is None:
            try:
                self.run(make)
            except AlreadyClosed:
                pass
            except Interrupted:
                if self._refusal is None:
                    raise  # Otherwise another thread has stopped the loop.

    def stop(self, refusal: str, *, wait_s: float = _STOP_S) -> None:
        """Stop the loop after the posted calls, and cancel remaining tasks. Wait at most `wait_s`. Safe to repeat."""
        with self._guard:
            if self._refusal is not None:
                return
            self._refusal = refusal
            self._loop.call_soon_threadsafe(self._drain_and_stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(wait_s)

    def at_the_end(
        self,
        *,
        close: Callable[[], Coroutine[Any, Any, None]],
        drop: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """Set `drop`, which runs when the loop stops, and `close`, which runs first if the interpreter exits."""
        self._close, self._drop = close, drop

    def _require_other_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise InvalidConfiguration(
                "this call runs on the client's own event loop, where waiting would never end: "
                "use vela.aio, or call from another thread"
            )

    # --- on the loop's thread

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            if self._drop is not None:
                self._loop.run_until_complete(self._drop())
            _cancel_all(self._loop)  # including tasks that have begun to reconnect
        finally:
            self._loop.close()

    def _drain(self) -> None:
        with self._guard:
            queue, self._queue = self._queue, deque()
            self._is_woken = False
        # Queue these calls behind callbacks that are already due. A listener's thread announces each message that it
        # takes with such a callback, which must run before the calls that the listener makes about the message.
        self._loop.call_soon(self._make, queue)

    def _make(self, queue: deque[Callable[[], object]]) -> None:
        for function in queue:
            try:
                function()
            except Exception:
                logger.exception("a call on the client's event loop failed")

    def _drain_and_stop(self) -> None:
        self._drain()
        self._loop.call_soon(self._loop.stop)

    def start(self, coroutine: Coroutine[Any, Any, T], waiter: Waiter[T]) -> asyncio.Task[T]:
        """Start a task and pass its outcome to the waiter. Call it on the loop."""
        task = self._loop.create_task(coroutine)
        task.add_done_callback(lambda done: _settle(waiter, done.result))
        return task

    # --- when the process forks or ends

    def forked(self) -> None:
        """Refuse calls in the child process, which does not have the thread. The parent still uses the connections."""
        self._guard = threading.RLock()
        self.is_forked = True
        self._refusal = _FORKED

    def ended(self) -> None:
        """Close the client at the interpreter's exit, then stop the loop."""
        close = self._close
        if self._refusal is None and close is not None:
            done = threading.Event()
            with contextlib.suppress(AlreadyClosed):
                self.post(lambda: self._loop.create_task(close()).add_done_callback(lambda _: done.set()))
                done.wait(_EXIT_S)
        self.stop("the interpreter ends")


def _settle(waiter: Waiter[T], outcome: Callable[[], T]) -> None:
    try:
        value = outcome()
    except asyncio.CancelledError:
        waiter.fail(Interrupted("the client was closed meanwhile"))
    except BaseException as error:
        waiter.fail(error)
    else:
        waiter.give(value)


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())


_living: weakref.WeakSet[LoopThread] = weakref.WeakSet()


def _after_fork() -> None:
    for each in list(_living):
        each.forked()
    _living.clear()


def _at_exit() -> None:
    for each in list(_living):
        each.ended()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
