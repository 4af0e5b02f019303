"""Background tasks, and work that outlives its caller."""

from __future__ import annotations

import asyncio
import gc

import pytest

from broker.core.errors import TopicNotFound
from broker.tasks import BackgroundTasks
from tests.support.broker_harness import eventually


async def test_a_kept_task_outlives_its_last_reference() -> None:
    tasks, done = BackgroundTasks(), asyncio.Event()

    async def work() -> None:
        await asyncio.sleep(0)
        done.set()

    tasks.keep(asyncio.create_task(work()))
    gc.collect()
    await asyncio.wait_for(done.wait(), 2)


async def test_work_goes_on_to_its_end_when_its_caller_is_cancelled() -> None:
    tasks, go_on, ended = BackgroundTasks(), asyncio.Event(), asyncio.Event()

    async def work() -> int:
        await go_on.wait()
        ended.set()
        return 7

    caller = asyncio.create_task(tasks.finish(work()))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert len(tasks) == 1
    go_on.set()
    await asyncio.wait_for(ended.wait(), 2)


async def test_work_gives_its_result_and_is_forgotten() -> None:
    tasks = BackgroundTasks()

    async def work() -> int:
        return 7

    assert await tasks.finish(work()) == 7
    assert not len(tasks)


async def test_a_refusal_after_the_caller_has_left_is_logged_as_a_refusal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "broker.tasks")
    tasks, go_on = BackgroundTasks(), asyncio.Event()

    async def work() -> None:
        await go_on.wait()
        raise TopicNotFound("there is none")

    caller = asyncio.create_task(tasks.finish(work()))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    go_on.set()
    (line,) = await eventually(lambda: caplog.records, "a line in the log")
    assert line.levelname == "INFO"
    assert "there is none" in line.getMessage()


async def test_a_stop_ends_running_tasks() -> None:
    tasks = BackgroundTasks()
    endless = asyncio.create_task(asyncio.Event().wait())
    tasks.keep(endless)
    await tasks.stop()
    assert endless.cancelled()
