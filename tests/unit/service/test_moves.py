"""Moves of a cursor under connected consumers."""

from __future__ import annotations

from tests.model.operator import Operator
from tests.support.memory_broker import memory_broker
from tests.support.memory_storage import MemoryStorage


async def test_i8_a_skip_that_ends_inside_a_batch_takes_what_it_passed_off_the_unacked_count() -> None:
    storage = MemoryStorage()
    async with memory_broker(storage, max_unacked_per_consumer=5) as run:
        consumer = await run.consumer(permits=10)
        whole, inside = await (await run.producer()).publish(2, messages=4)
        await consumer.has(2)
        operator = Operator("t", "s")
        planned = await operator.plan(run, "skip", set, {"messages": 6})
        assert await operator.apply(run, planned)
        subscription = run.subscription()
        assert subscription.cursor.mark_delete == whole
        assert subscription.cursor.remaining_of(inside) == 0b1100
        assert consumer.consumer is not None
        assert (subscription.dispatcher.unacked_messages, consumer.consumer.dispatch.unacked_messages) == (
            2,
            2,
        )
        assert not consumer.consumer.dispatch.blocked
