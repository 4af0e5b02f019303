"""Threads for handlers that are plain functions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import NamedTuple

__all__ = ["CallThreads"]


class _Job(NamedTuple):
    call: Callable[[], object]
    done: asyncio.Future[None]
    loop: asyncio.AbstractEventLoop


class CallThreads:
    """Runs at most `count` calls at once, in daemon threads.

    At exit, Python would wait for the threads of a ThreadPoolExecutor, even if a call never returns.
    """

    def __init__(self, count: int, name: str) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._count = count
        for number in range(count):
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True).start()

    async def run(self, call: Callable[[], object]) -> None:
        """Run `call` in a free thread. If the call fails, raises its exception.

        Cancelling does not stop the call. SystemExit becomes a RuntimeError, because SystemExit would end the event
        loop.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._jobs.put(_Job(call, done, loop))
        await done

    def end(self) -> None:
        """Let the threads finish all requested calls and then end. Returns without waiting."""
        for _ in range(self._count):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            error: Exception | None = None
            try:
                job.call()
            except StopIteration as stop:  # A future rejects StopIteration
                error = RuntimeError(f"raised {stop!r}")
            except Exception as raised:
                error = raised
            except BaseException as raised:
                error = RuntimeError(f"raised {raised!r}")
            with suppress(RuntimeError):  # The loop may be closed
                job.loop.call_soon_threadsafe(_settle, job.done, error)


def _settle(done: asyncio.Future[None], error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
