"""Opening that is cancelled at any moment leaves nothing at the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from broker.doors.binary.wire import events
from tests.integration.client.consumer.desk import TOPIC, desk_running
from tests.support.waiting import until
from vela.aio.client import Client

TURNS = 80  # of the event loop; opening takes fewer turns

Opening = Callable[[Client], Awaitable[object]]


@pytest.mark.parametrize(
    ("opening", "opened", "closed"),
    [
        (lambda client: client.subscribe(TOPIC, "s"), events.Subscribe, events.CloseConsumer),
        (lambda client: client.create_producer(TOPIC), events.OpenProducer, events.CloseProducer),
    ],
    ids=["subscribe", "create_producer"],
)
async def test_opening_cancelled_at_any_turn_of_the_loop_leaves_nothing_at_the_broker(
    opening: Opening, opened: type[events.Event], closed: type[events.Event]
) -> None:
    async with desk_running() as desk:
        await desk.client.partitions(TOPIC)  # so that the client is connected
        finished = 0
        for turns in range(TURNS):
            task = asyncio.ensure_future(opening(desk.client))
            for _ in range(turns):
                await asyncio.sleep(0)
            if task.done():
                finished += 1
            task.cancel()
            await asyncio.wait([task])
        await until(
            lambda: desk.peer.count(opened) == desk.peer.count(closed) + finished,
            "all that were cancelled to be closed",
        )
        assert desk.peer.count(closed) > 0, "no cancellation came after the request to the broker"
        assert finished > 0, "opening takes more turns: raise TURNS"
