"""Moves of a cursor under connected consumers."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

import psycopg
import pytest

from broker.acts.kinds.cursors.change import with_index
from broker.core.position import LATEST
from broker.log.reader import GapInLog
from broker.storage.acts import acts as act_store
from broker.storage.log import entries as log_store
from tests.model.operator import Operator
from tests.support.memory_broker import memory_broker
from tests.support.memory_storage import MemoryStorage
from tests.unit.broker.test_receiving import settled


@pytest.mark.row("I8")
async def test_a_skip_that_ends_inside_a_batch_reduces_the_unacked_count() -> None:
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


@pytest.mark.row("I8")
async def test_a_pending_entry_that_is_skipped_is_no_longer_pending_nor_redelivered() -> None:
    storage = MemoryStorage()
    async with memory_broker(storage) as run:
        consumer = await run.consumer(permits=100)
        first, poison, third = await (await run.producer()).publish(3, messages=4)
        await consumer.has(3)
        operator = Operator("t", "s")
        planned = await operator.plan(run, "skip_one", set, {"id": str(poison)})
        assert await operator.apply(run, planned)
        dispatcher = run.subscription().dispatcher
        assert dispatcher.unacked_messages == 8
        assert consumer.consumer is not None
        consumer.consumer.redeliver(None)
        await consumer.has(5)
        assert consumer.positions[3:] == [first, third]
        for position in (first, poison, third):
            await consumer.ack_durably(position)
        assert (dispatcher.unacked_messages, len(consumer.consumer.dispatch.pending)) == (0, 0)


@pytest.mark.row("I8")
async def test_an_entry_skipped_while_it_waits_to_be_delivered_again_is_not_delivered() -> None:
    storage = MemoryStorage()
    async with memory_broker(storage) as run:
        consumer = await run.consumer(permits=2)
        first, poison = await (await run.producer()).publish(2)
        await consumer.has(2)
        assert consumer.consumer is not None
        consumer.consumer.redeliver(None)
        operator = Operator("t", "s")
        planned = await operator.plan(run, "skip_one", set, {"id": str(poison)})
        assert await operator.apply(run, planned)
        consumer.flow(10)
        await consumer.has(3)
        await settled(run)
        assert consumer.positions[2:] == [first]
        assert run.subscription().dispatcher.replay_entries == 0


async def test_acks_after_an_undo_that_could_not_be_stored_count_for_the_next_one() -> None:
    storage = MemoryStorage()
    async with memory_broker(storage) as run:
        consumer = await run.consumer(permits=10)
        positions = await (await run.producer()).publish(4)
        await consumer.has(4)
        operator = Operator("t", "s")
        skip = await operator.plan(run, "skip", set, {"messages": 4})
        assert await operator.apply(run, skip)
        undo = await operator.plan(run, "undo", set, {}, undo_of=skip.act_id)
        with patch.object(act_store, "apply_to_cursor", side_effect=psycopg.DataError("no")):
            await operator._ask(run, undo, is_apply=True)
        assert storage.acts[undo.act_id].state == "refused"
        assert await (await run.consumer(name="again")).ack_durably(positions[1]) is None
        undo = await operator.plan(run, "undo", set, {}, undo_of=skip.act_id)
        assert await operator.apply(run, undo)
        assert run.subscription().cursor.backlog_messages == 3
        assert run.subscription().cursor.is_acked(positions[1])


async def test_an_act_that_waited_while_its_subscription_was_deleted_does_not_close_the_topic() -> None:
    storage = MemoryStorage()
    async with memory_broker(storage) as run:
        await (await run.producer()).publish(2)
        other = await run.consumer(subscription="other")
        await run.consumer()
        moves, operator = run.subscription().moves, Operator("t", "s")
        planned = await operator.plan(run, "skip", set, {"messages": 1})
        async with moves.idle():
            removal = asyncio.create_task(moves.remove("an operator deleted it"))
            act = asyncio.create_task(operator.apply(run, planned))
            await settled(run)
        await removal
        assert not await act
        assert "was deleted" in storage.acts[planned.act_id].error
        assert run.topic().is_open
        assert other.closed == []


async def test_counts_that_a_move_needs_are_not_evicted_while_it_loads_others() -> None:
    """Housekeeping keeps the counts of only a few ledgers, but a move that needs more of them must still end."""
    storage = MemoryStorage()
    async with memory_broker(storage, ledger_max_entries=2) as run:
        consumer = await run.consumer(permits=100)
        producer = await run.producer()
        ledgers = [await producer.publish(2) for _ in range(8)]
        await consumer.has(16)
        assert await consumer.ack_durably(*(first for first, _ in ledgers[1:])) is None
        index = run.topic().log.index
        index.evict(LATEST, 1)
        reads = 0

        async def read_and_evict(*given: Any, **named: Any) -> object:
            nonlocal reads
            reads += 1
            assert reads < 100, "the counts of every ledger are read again and again"
            found = await storage._read_counts(*given, **named)
            index.evict(LATEST, 1)
            return found

        with patch.object(log_store, "read_counts", read_and_evict):
            await with_index(run.topic().reader, run.subscription().cursor.recount)
        assert run.subscription().cursor.recount() == run.subscription().cursor.totals


async def test_a_lost_row_shifts_no_counts_of_other_entries() -> None:
    """The counts of the other entries are needed to move the cursor past the lost one."""
    storage = MemoryStorage()
    async with memory_broker(storage, ledger_max_entries=10) as run:
        producer = await run.producer()
        positions = await producer.publish(10)
        await producer.publish(1)
        log, reader = run.topic().log, run.topic().reader
        log.index.evict(LATEST, 1)
        assert log.index.messages_through(positions[6]) is None
        lost = positions[5]
        del storage.entries[lost]
        await reader.load_index(log.index.unknown(lost))
        assert [log.index.messages_through(each) for each in positions] == [1, 2, 3, 4, 5, None, 7, 8, 9, 10]
        with pytest.raises(GapInLog, match=f"entry {lost} is missing"):
            await with_index(reader, lambda: log.index.require_messages_in(lost))
        with pytest.raises(GapInLog, match=f"entry {lost} is missing"):
            await with_index(reader, lambda: log.index.require_messages_in(positions[6]))
