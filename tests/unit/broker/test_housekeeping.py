"""Housekeeping does not block the event loop that serves messages."""

from __future__ import annotations

import asyncio

from broker.upkeep.housekeeping import TOPICS_AT_ONCE
from tests.support.memory_broker import memory_broker


async def test_a_round_over_all_topics_lets_the_loop_serve_others_after_each_few() -> None:
    async with memory_broker() as run:
        for number in range(4 * TOPICS_AT_ONCE):
            await run.producer(f"t{number}")
        turns = 0

        async def serve() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        serving = asyncio.create_task(serve())
        for duty in (run.broker._housekeeping._tidy_memory, run.broker._housekeeping._forget_due_times):
            turns = 0
            await duty()
            assert turns >= 3
        serving.cancel()
