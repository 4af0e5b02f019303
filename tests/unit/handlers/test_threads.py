"""Plain handlers run in threads that do not delay the end of the process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from broker.handlers.threads import CallThreads
from config.environment import PROJECT_DIR

STUCK = """
import asyncio, threading
from broker.handlers.threads import CallThreads

async def main():
    threads, began = CallThreads(1, "handler"), threading.Event()
    call = asyncio.ensure_future(threads.run(lambda: (began.set(), threading.Event().wait())))
    while not began.is_set():
        await asyncio.sleep(0.01)
    call.cancel()
    threads.end()

asyncio.run(main())
"""


async def test_as_many_calls_run_at_once_as_there_are_threads() -> None:
    threads, meeting = CallThreads(2, "handler"), threading.Barrier(2, timeout=10)
    await asyncio.gather(threads.run(meeting.wait), threads.run(meeting.wait))
    threads.end()


async def test_calls_of_one_thread_run_in_their_order() -> None:
    threads, called = CallThreads(1, "handler"), list[int]()
    await asyncio.gather(*(threads.run(lambda number=number: called.append(number)) for number in range(5)))  # type: ignore[misc]
    assert called == [0, 1, 2, 3, 4]
    threads.end()


@pytest.mark.parametrize(
    ("error", "raised"),
    [(KeyError("x"), KeyError), (StopIteration(), RuntimeError), (SystemExit(1), RuntimeError)],
)
async def test_the_error_of_a_call_is_raised_and_the_thread_continues(
    error: BaseException, raised: type[Exception]
) -> None:
    def call() -> None:
        raise error

    threads = CallThreads(1, "handler")
    with pytest.raises(raised):
        await threads.run(call)
    await threads.run(lambda: None)
    threads.end()


async def test_a_cancelled_wait_leaves_the_call_alone() -> None:
    threads, goes_on, ended = CallThreads(1, "handler"), threading.Event(), threading.Event()

    def call() -> None:
        goes_on.wait(10)
        ended.set()

    waiting = asyncio.ensure_future(threads.run(call))
    await asyncio.sleep(0)
    waiting.cancel()
    goes_on.set()
    await threads.run(lambda: None)
    assert ended.is_set()
    threads.end()


def test_a_call_that_never_returns_does_not_keep_the_process() -> None:
    ended = subprocess.run([sys.executable, "-c", STUCK], cwd=PROJECT_DIR, timeout=30, check=False)
    assert ended.returncode == 0
