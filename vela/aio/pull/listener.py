"""The listener of a pull consumer. A message is finished when the listener returns."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from vela.aio.pull.thread_calls import for_a_thread
from vela.errors import VelaError

if TYPE_CHECKING:
    from vela.pull_message import PulledMessage

__all__ = ["PullListener"]

logger = logging.getLogger(__name__)


class _Listened(Protocol):
    """The methods of a consumer that its listener calls."""

    async def next_message(self) -> PulledMessage: ...
    def acknowledge(self, message: PulledMessage) -> None: ...
    def negative_acknowledge(self, message: PulledMessage) -> None: ...


C = TypeVar("C", bound=_Listened)


class PullListener(Generic[C]):
    """Calls the application's function with a consumer's messages, in at most `concurrency` calls at the same time."""

    def __init__(
        self,
        consumer: C,
        function: Callable[[C, PulledMessage], Awaitable[None] | None],
        concurrency: int,
    ) -> None:
        self._consumer = consumer
        self._function: Callable[..., Any] = function
        self._concurrency = concurrency
        self._tasks: list[asyncio.Task[None]] = []
        self._threads: ThreadPoolExecutor | None = None
        # A plain function may block, and must not delay the pulls.
        if not inspect.iscoroutinefunction(function):
            self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="vela-listener")

    def start(self) -> None:
        """Start calling the function."""
        self._tasks = [asyncio.create_task(self._listen()) for _ in range(self._concurrency)]

    def runs_here(self) -> bool:
        """Return whether the current task is one of the listener's."""
        return asyncio.current_task() in self._tasks

    async def stop(self) -> None:
        """Wait for running calls after the consumer was closed, except for the call that closes it."""
        others = [task for task in self._tasks if task is not asyncio.current_task()]
        await asyncio.gather(*others, return_exceptions=True)
        if self._threads is not None:
            self._threads.shutdown(wait=False)

    async def _listen(self) -> None:
        while True:
            try:
                message = await self._consumer.next_message()
            except VelaError:  # the consumer is closed, or the broker refuses every pull (already logged)
                return
            try:
                await self._call(message)
            except (Exception, asyncio.CancelledError) as error:
                task = asyncio.current_task()
                if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                    raise  # The event loop ends. Otherwise the listener awaited something that was cancelled.
                logger.exception("the listener failed with %r", message)
                self._consumer.negative_acknowledge(message)
            else:
                self._consumer.acknowledge(message)

    async def _call(self, message: PulledMessage) -> None:
        if self._threads is None:
            await self._function(self._consumer, message)
            return
        loop = asyncio.get_running_loop()
        call = for_a_thread(self._function)
        outcome = await loop.run_in_executor(self._threads, call, self._consumer, message)
        # A lambda may return a coroutine, and the `__call__` of an object may be a coroutine function.
        if inspect.isawaitable(outcome):
            await outcome
