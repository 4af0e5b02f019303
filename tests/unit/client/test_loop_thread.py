"""vela.blocking's bridge between threads and the event loop: order, errors, interrupts, forks, exits."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from tests.support.waiting import wait_until
from vela.aio.daemon_thread import DaemonThread
from vela.blocking.loop_thread import LoopThread
from vela.blocking.waiting import Waiter
from vela.errors import AlreadyClosed, Interrupted, InvalidConfiguration


@pytest.fixture
def loop_thread() -> Iterator[LoopThread]:
    """A loop on a thread, stopped at the end."""
    made = LoopThread("test")
    yield made
    made.stop("the test is over")


async def _double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def _refuse() -> None:
    raise LookupError("no")


def test_an_error_before_the_coroutine_exists_is_raised(loop_thread: LoopThread) -> None:
    def misspelt() -> Coroutine[Any, Any, int]:
        raise TypeError("an unexpected keyword argument")

    raised: list[BaseException] = []

    def run() -> None:
        with pytest.raises(TypeError, match="unexpected keyword") as caught:
            loop_thread.run(misspelt)
        raised.append(caught.value)

    caller = threading.Thread(target=run, daemon=True)
    caller.start()
    caller.join(5)
    assert raised


def test_a_client_may_be_garbage_collected_while_its_loop_takes_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = LoopThread("collecting")

    def collecting() -> deque[Any]:
        made.stop("the client is gone", wait_s=0)  # Python may collect garbage whenever it creates an object
        return deque()

    monkeypatch.setattr("vela.blocking.loop_thread.deque", collecting)
    made.post(lambda: None)
    wait_until(
        lambda: all(each.name != "collecting" for each in threading.enumerate()), "the end of the thread"
    )


async def _forever() -> None:
    await asyncio.Event().wait()


def test_values_and_errors_reach_the_caller(loop_thread: LoopThread) -> None:
    assert loop_thread.run(lambda: _double(4)) == 8
    assert loop_thread.call(lambda: 5) == 5
    with pytest.raises(LookupError, match="no"):
        loop_thread.run(_refuse)
    with pytest.raises(ZeroDivisionError):
        loop_thread.call(lambda: 1 // 0)


def test_calls_from_one_thread_run_in_order(loop_thread: LoopThread) -> None:
    seen: list[tuple[int, int]] = []

    def work(thread: int) -> None:
        for number in range(500):
            loop_thread.post(lambda number=number: seen.append((thread, number)))  # type: ignore[misc]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loop_thread.call(lambda: None)
    assert len(seen) == 4000
    for each in range(8):
        assert [number for thread, number in seen if thread == each] == list(range(500))


def test_a_posted_call_that_fails_does_not_disturb_others(
    loop_thread: LoopThread, caplog: pytest.LogCaptureFixture
) -> None:
    loop_thread.post(lambda: 1 // 0)
    assert loop_thread.call(lambda: 7) == 7
    assert "ZeroDivisionError" in caplog.text


def test_waiting_on_the_loops_own_thread_is_refused(loop_thread: LoopThread) -> None:
    with pytest.raises(InvalidConfiguration, match="own event loop"):
        loop_thread.call(lambda: loop_thread.run(lambda: _double(1)))


def test_stopping_ends_waiting_calls_and_refuses_new_ones(loop_thread: LoopThread) -> None:
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            loop_thread.run(_forever)
        except BaseException as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    wait_until(lambda: loop_thread.call(lambda: len(asyncio.all_tasks())) == 1, "the call to wait")
    loop_thread.stop("closed")
    waiting.join(5)
    assert [type(error) for error in errors] == [Interrupted]
    with pytest.raises(AlreadyClosed, match="closed"):
        loop_thread.post(lambda: None)
    loop_thread.stop("again")


@pytest.mark.row("S0.34")
def test_a_value_after_an_interrupt_is_not_lost() -> None:
    returned: list[int] = []
    before: Waiter[int] = Waiter(returned.append)
    before.give(3)
    before.abandon()
    before.abandon()
    after: Waiter[int] = Waiter(returned.append)
    after.abandon()
    after.give(4)
    assert returned == [3, 4]


def test_an_interrupted_call_is_cancelled_and_its_late_value_is_handed_over(loop_thread: LoopThread) -> None:
    unclaimed: list[str] = []
    is_cancelled = threading.Event()

    async def late() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            is_cancelled.set()
        return "made all the same"

    def interrupt() -> None:
        wait_until(lambda: loop_thread.call(lambda: len(asyncio.all_tasks())) == 1, "the call to wait")
        os.kill(os.getpid(), signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        loop_thread.run(late, unclaimed.append)
    assert is_cancelled.wait(5)
    wait_until(lambda: unclaimed == ["made all the same"], "the value to be passed on")
    interrupting.join()


def test_a_forked_child_must_create_its_own_client(loop_thread: LoopThread) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            loop_thread.post(lambda: None)
        except AlreadyClosed as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    assert b"forked process" in os.read(reading, 1000)
    os.close(reading)
    assert loop_thread.call(lambda: 1) == 1, "the parent's loop works"


_LEAVES_ALL_OPEN = """
import asyncio, sys, threading
from vela.aio.daemon_thread import DaemonThread
from vela.blocking.loop_thread import LoopThread

async def closing():
    print("closed at exit", flush=True)
    await asyncio.Event().wait()

loop_thread = LoopThread("left open")
async def dropping():
    print("dropped", flush=True)

loop_thread.at_the_end(close=closing, drop=dropping)
loop_thread.call(lambda: None)
callbacks = DaemonThread("left busy")
callbacks.submit(threading.Event().wait)
"""


def test_a_program_that_closes_nothing_still_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LEAVES_ALL_OPEN], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "closed at exit\ndropped\n", "")


def test_callbacks_run_in_order_and_a_failing_one_does_not_disturb_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    callbacks, seen = DaemonThread("test"), list[Any]()
    for number in range(100):
        callbacks.submit(lambda number=number: seen.append(number // (number != 50)))  # type: ignore[misc]
    callbacks.stop(5)
    assert seen == [*range(50), *range(51, 100)]
    assert "ZeroDivisionError" in caplog.text
    callbacks.submit(lambda: seen.append("too late"))
    assert seen[-1] == 99


def test_callbacks_may_stop_their_own_thread() -> None:
    callbacks, done = DaemonThread("test"), threading.Event()

    def stop() -> None:
        callbacks.stop(5)
        done.set()

    callbacks.submit(stop)
    assert done.wait(5)


def test_a_callback_that_exits_does_not_end_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    callbacks, done = DaemonThread("test"), threading.Event()
    callbacks.submit(lambda: sys.exit(1))
    callbacks.submit(done.set)
    assert done.wait(5)
    assert "SystemExit" in caplog.text
    callbacks.stop(5)


def test_closing_while_another_thread_stops_the_loop_is_not_an_error(loop_thread: LoopThread) -> None:
    errors: list[BaseException] = []

    def close() -> None:
        try:
            loop_thread.run_unless_stopped(_forever)
        except BaseException as error:
            errors.append(error)

    closing = threading.Thread(target=close)
    closing.start()
    wait_until(lambda: loop_thread.call(lambda: len(asyncio.all_tasks())) == 1, "the call to wait")
    loop_thread.stop("closed")
    closing.join(5)
    assert not closing.is_alive()
    assert errors == []
