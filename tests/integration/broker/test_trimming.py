"""Which ledgers are trimmed, and when. Every count and every cursor stays right."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker.core.ledgers.retention import Retention
from broker.core.position import EARLIEST, Position
from broker.core.subscription.types import SubscriptionType
from broker.storage.connection import connect
from broker.storage.log.lifetime import undo_pins
from tests.support.acting import answered, ask
from tests.support.broker_harness import BrokerRun, ManualClock, eventually, rows
from tests.support.lifetime import (
    ENTRIES,
    consumed,
    keeping,
    kept,
    look,
    publish_ledgers,
    recounted,
    settled,
    stored_ledgers,
)

EXCLUSIVE = SubscriptionType.EXCLUSIVE
DAY_MS = 24 * 3600 * 1000


@pytest.mark.row("S0.47")
async def test_earliest_gives_all_stored_messages_and_latest_only_later_ones(
    broker_url: str,
) -> None:
    async with keeping(broker_url) as run:
        producer = await run.producer()
        positions = await publish_ledgers(producer, 3)
        earliest = await run.consumer(subscription="first", permits=100)
        latest = await run.consumer(subscription="late", permits=100, earliest=False)
        await earliest.has(3 * ENTRIES)
        assert earliest.positions == positions
        assert latest.deliveries == []
        earliest.ack(*positions)
        await settled(run, subscription="first")
        await look(run)
        again = await run.consumer(subscription="after trimming", permits=100)
        await again.has(ENTRIES)
        fresh = await producer.publish(1)
        for probe in (again, latest):
            await eventually(lambda probe=probe: fresh[0] in probe.positions, "the new message")  # type: ignore[misc]
        assert again.positions == positions[2 * ENTRIES :] + fresh
        assert latest.positions == fresh


@pytest.mark.row("S0.49")
async def test_fully_acked_ledgers_are_deleted_and_a_seek_back_starts_at_the_first_kept_one(
    broker_url: str,
) -> None:
    async with keeping(broker_url) as run:
        producer = await run.producer()
        positions = await publish_ledgers(producer, 4)
        slow = await run.consumer(subscription="slow", type_=EXCLUSIVE, permits=100)
        await slow.has(len(positions))
        await consumed(run, len(positions))
        await look(run)
        assert len(kept(run)) == 4, "the slow consumer has acked nothing"
        slow.ack(positions[2 * ENTRIES - 1], cumulative=True)
        await run.flushed()
        await look(run)
        assert [info.ledger_id for info in kept(run)] == stored_ledgers(broker_url)
        assert [info.ledger_id for info in kept(run)] == sorted({p.ledger_id for p in positions})[2:]
        assert slow.consumer is not None
        await slow.consumer.seek_position(positions[0], None)
        again = await run.consumer(subscription="slow", type_=EXCLUSIVE, permits=100)
        await again.has(2 * ENTRIES)
        assert again.positions == positions[2 * ENTRIES :]
        await recounted(run)


@pytest.mark.row("I19")
async def test_nothing_is_deleted_that_is_young_unacked_or_acked_in_memory_only(broker_url: str) -> None:
    clock = ManualClock()
    async with keeping(broker_url, time_ms=DAY_MS, size_bytes=-1, clock=clock) as run:
        producer = await run.producer()
        positions = await publish_ledgers(producer, 3)
        consumer = await run.consumer(permits=100)
        await consumer.has(len(positions))
        clock.advance(2 * DAY_MS)
        await run.broker.flusher._flushing.acquire()  # acks stay in memory
        consumer.ack(*positions)
        assert run.subscription().cursor.backlog_messages == 0
        await look(run)
        assert len(kept(run)) == 3, "a crash would bring the cursor back to where it is stored"
        run.broker.flusher._flushing.release()
        await run.flushed()
        await publish_ledgers(producer, 1)
        await look(run)
        assert len(kept(run)) == 1, "the fourth ledger is open, the others are old and acked"
        clock.advance(DAY_MS)
        await producer.publish(1)
        consumer.ack(*consumer.positions)
        await run.flushed()
        await look(run)
        assert len(kept(run)) == 2, "a day old is not older than a day"


@pytest.mark.row("I5")
@pytest.mark.parametrize("remembers", [True, False])
async def test_backlogs_stay_exact_through_acks_resets_skips_and_trims(
    broker_url: str, remembers: bool
) -> None:
    async with keeping(broker_url) as run:
        producer = await run.producer()
        positions = await publish_ledgers(producer, 5, messages=3)
        fast = await run.consumer(subscription="fast", permits=1000)
        slow = await run.consumer(subscription="slow", permits=1000)
        await slow.has(len(positions))
        await fast.has(len(positions))
        fast.ack(*positions)
        slow.ack(*positions[: 2 * ENTRIES + 1], *positions[3 * ENTRIES : 3 * ENTRIES + 2])
        await run.flushed()
        backlog = 3 * (len(positions) - 2 * ENTRIES - 3)
        for _ in range(2):
            await look(run)
            assert len(kept(run)) == 3
            assert run.subscription(subscription="slow").cursor.backlog_messages == backlog
            assert run.subscription(subscription="fast").cursor.backlog_messages == 0
            if not remembers:
                run.topic().log.index.evict(positions[-1], 0)
            await recounted(run)
        assert slow.consumer is not None
        await slow.consumer.seek_position(EARLIEST, None)
        assert run.subscription(subscription="slow").cursor.backlog_messages == 3 * 3 * ENTRIES
        await recounted(run)


async def test_counts_survive_a_restart_after_every_ledger_is_trimmed(broker_url: str) -> None:
    async with keeping(broker_url) as run:
        producer = await run.producer()
        await publish_ledgers(producer, 2, messages=2)
        await consumed(run, 2 * ENTRIES)
        run.broker.segments.open_id += 1000  # as if the last ledger's segment had been closed
        await look(run)
        run.broker.segments.open_id -= 1000
        (last,) = kept(run)
        assert (last.sealed, last.entries, last.messages_before) == (True, 0, 4 * ENTRIES)
        assert rows(broker_url, "SELECT segment_id, entries, messages_before, state FROM vela_ledger") == [
            (None, 0, 4 * ENTRIES, "sealed")
        ]
        assert run.topic().log.ledgers.total_messages == 4 * ENTRIES
        assert run.subscription().cursor.backlog_messages == 0
    async with keeping(broker_url) as run:
        late = await run.consumer(subscription="late", permits=10, earliest=False)
        consumer = await run.consumer(permits=10)
        producer = await run.producer()
        (position,) = await producer.publish(1, messages=2)
        await consumer.has(1)
        await late.has(1)
        assert run.topic().log.ledgers.total_messages == 4 * ENTRIES + 2
        assert run.subscription().cursor.backlog_messages == 2
        assert run.subscription(subscription="late").cursor.backlog_messages == 2
        assert position.ledger_id > last.ledger_id
        await recounted(run)
        consumer.ack(position)
        late.ack(position)
        await run.flushed()
        await look(run)
        assert [info.ledger_id for info in kept(run)] == [position.ledger_id]


async def test_a_reader_keeps_no_ledger_and_continues_at_the_first_entry_that_is_left(
    broker_url: str,
) -> None:
    async with keeping(broker_url) as run:
        producer = await run.producer()
        positions = await publish_ledgers(producer, 3)
        reader = await run.consumer(
            subscription="reader", type_=EXCLUSIVE, durable=False, start=EARLIEST, permits=2
        )
        await reader.has(2)
        await look(run)
        assert [info.ledger_id for info in kept(run)] == [positions[-1].ledger_id]
        assert run.subscription(subscription="reader").cursor.backlog_messages == ENTRIES
        await recounted(run)
        reader.flow(100)
        await reader.has(2 + ENTRIES)
        assert reader.positions == positions[:2] + positions[2 * ENTRIES :]


async def test_truncating_frees_all_but_the_open_ledger_despite_retention(broker_url: str) -> None:
    async with keeping(broker_url, time_ms=-1, size_bytes=-1) as run:
        producer = await run.producer()
        await publish_ledgers(producer, 3)
        await consumed(run, 3 * ENTRIES)
        await look(run)
        assert len(kept(run)) == 3
        oldest = kept(run)[:2]
        freed = await run.broker.trimmer.trim(run.topic(), retention=Retention(time_ms=0, size_bytes=0))
        assert len(kept(run)) == 1
        assert freed == sum(info.size_bytes for info in oldest) > 0


async def applied(run: BrokerRun, kind: str, parameters: dict[str, Any], **request: Any) -> int:
    """Plan and apply an act, and return its id."""
    act_id = await ask(run, kind, parameters, **request)
    assert (await answered(run, act_id))[0] == "planned"
    rows(
        run.database_url,
        "UPDATE vela_act SET state = 'apply_requested', requested_at = now() WHERE id = %s",
        act_id,
    )
    rows(run.database_url, "SELECT pg_notify('vela_act', '')")
    state, _, _, error = await answered(run, act_id)
    assert (state, error) == ("applied", "")
    return act_id


async def test_messages_for_an_open_undo_window_are_kept_until_it_closes(broker_url: str) -> None:
    async with keeping(broker_url) as run:
        producer = await run.producer()
        positions = await publish_ledgers(producer, 3)
        consumer = await run.consumer(permits=100)
        await consumer.has(len(positions))
        consumer.ack(*positions[:ENTRIES])
        await run.flushed()
        skipped = await applied(run, "clear", {})
        await look(run)
        assert kept(run)[0].ledger_id == positions[ENTRIES].ledger_id, (
            "messages that the skip passed are kept"
        )
        assert len(kept(run)) == 2
        await applied(run, "undo", {}, undo_of=skipped)
        assert run.subscription().cursor.backlog_messages == 2 * ENTRIES
        await recounted(run)
        rows(broker_url, "UPDATE vela_act SET undo_until = now() WHERE undo_until IS NOT NULL")
        again = await run.consumer(permits=100, name="again")
        await again.has(2 * ENTRIES)
        again.ack(*positions)
        await run.flushed()
        await look(run)
        assert len(kept(run)) == 1


async def test_the_act_that_was_applied_last_is_held_although_it_was_planned_first(broker_url: str) -> None:
    async with keeping(broker_url) as run:
        positions = await publish_ledgers(await run.producer(), 2)
        await run.consumer(permits=100)
        first = await applied(run, "skip", {"messages": ENTRIES})
        await applied(run, "clear", {})
        rows(broker_url, "UPDATE vela_act SET finished_at = now() WHERE id = %s", first)
        connection = await connect(broker_url, name="test")
        assert await undo_pins(connection, run.topic().topic_id) == [
            Position(positions[0].ledger_id, -1),
        ]
        await connection.close()


async def test_a_bookmark_pins_its_message_and_later_ones_but_not_beyond_the_quota(
    broker_url: str,
) -> None:
    async with keeping(broker_url) as run:
        producer = await run.producer()
        positions = await publish_ledgers(producer, 4)
        await consumed(run, len(positions))
        rows(
            broker_url,
            "INSERT INTO vela_bookmark (topic_id, name, ledger_id, entry_id, until, who, created_at)"
            " VALUES (%s, 'here', %s, 0, NULL, 'op', now())",
            run.topic().topic_id,
            positions[ENTRIES].ledger_id,
        )
        await look(run)
        assert [info.ledger_id for info in kept(run)] == sorted({p.ledger_id for p in positions})[1:]
        rows(
            broker_url,
            "UPDATE vela_namespace SET policies = policies || %s",
            json.dumps({"backlog_quota_bytes": kept(run)[1].size_bytes + kept(run)[2].size_bytes}),
        )
        run.broker.topics.loaded.clear()
        await run.broker.topics.open_named("persistent://public/default/t")
        await look(run)
        assert len(kept(run)) == 2, "this size is within the quota"
        rows(broker_url, "UPDATE vela_bookmark SET until = now()")
        await look(run)
        assert len(kept(run)) == 1
