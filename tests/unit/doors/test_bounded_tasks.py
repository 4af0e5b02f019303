"""Bounded tasks run in order, at most a few at once, and never hang at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from broker.doors.websocket.consumer import bounded_tasks
from broker.doors.websocket.consumer.bounded_tasks import BoundedTasks
from tests.unit.doors.wire_client import settle


class Work:
    """Pieces that end when the test says so."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.ended: list[int] = []
        self.gates: dict[int, asyncio.Event] = {}

    def piece(self, number: int) -> Callable[[], Coroutine[Any, Any, None]]:
        async def run() -> None:
            self.begun.append(number)
            self.gates[number] = asyncio.Event()
            await self.gates[number].wait()
            self.ended.append(number)

        return run


async def test_no_more_than_the_limit_run_and_the_rest_begins_in_order() -> None:
    tasks, work = BoundedTasks(2), Work()
    for number in range(5):
        tasks.start(work.piece(number))
    await settle()
    assert work.begun == [0, 1]
    work.gates[1].set()
    await settle()
    assert work.begun == [0, 1, 2]
    work.gates[0].set()
    work.gates[2].set()
    await settle()
    assert work.begun == [0, 1, 2, 3, 4]
    await tasks.finish(0)


async def test_waiting_tasks_can_be_dropped_and_running_ones_are_given_time() -> None:
    tasks, work = BoundedTasks(1), Work()
    for number in range(3):
        tasks.start(work.piece(number))
    await settle()
    tasks.drop_waiting()
    finishing = asyncio.ensure_future(tasks.finish(5))
    await settle()
    work.gates[0].set()
    await finishing
    assert (work.begun, work.ended) == ([0], [0])


async def test_slow_tasks_are_cancelled() -> None:
    tasks, work = BoundedTasks(1), Work()
    tasks.start(work.piece(0))
    await settle()
    await tasks.finish(0.01)
    await settle()
    assert (work.begun, work.ended) == ([0], [])


async def test_has_room_waits_while_too_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_tasks, "_ROOM", 2)
    tasks, work = BoundedTasks(1), Work()
    for number in range(3):
        tasks.start(work.piece(number))
    await asyncio.wait_for(tasks.has_room(), 1)
    tasks.start(work.piece(3))
    waiting = asyncio.ensure_future(tasks.has_room())
    await settle()
    assert not waiting.done()
    work.gates[0].set()
    await asyncio.wait_for(waiting, 1)
    tasks.drop_waiting()
    await tasks.finish(0)
