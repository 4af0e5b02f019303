"""Trimming, copying and dropping against reads, moves, subscriptions and crashes.

broker/storage/sql/README.md has a table of these races.
"""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from broker.core.position import EARLIEST, Position
from broker.core.subscription.types import SubscriptionType
from broker.storage.connection import Connection
from broker.storage.log import lifetime as store
from tests.support.broker_harness import BrokerRun, eventually, new_run, one_row, rows
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
from tests.support.postgres_proxy import Moment

TRIM = "WHERE l.topic_id = o.topic_id AND l.id <= $"
HOLDS = "FROM vela_bookmark"
MOVE = "UPDATE vela_cursor c SET mark_delete_ledger = $"
READ = "SELECT entry_id, messages, flags"
FLIP = "UPDATE vela_ledger l SET segment_id = $"
COPY = "ON CONFLICT (ledger_id, entry_id) DO NOTHING"


async def test_a_seek_back_while_a_trim_looks_up_the_pins_keeps_its_ledgers(broker_url: str) -> None:
    async with keeping(broker_url) as run:
        positions = await publish_ledgers(await run.producer(), 3)
        await consumed(run, len(positions))
        consumer = await run.consumer(name="seeker")
        trap = run.proxy.trap(HOLDS, Moment.HOLD_ANSWER)
        trimming = asyncio.ensure_future(run.broker.trimmer.trim(run.topic()))
        await trap.caught.wait()
        assert consumer.consumer is not None
        await consumer.consumer.seek_position(positions[ENTRIES], None)
        trap.release()
        assert await trimming > 0
        assert kept(run)[0].ledger_id == positions[ENTRIES].ledger_id
        assert run.subscription().cursor.backlog_messages == 2 * ENTRIES
        await recounted(run)


async def test_a_seek_back_during_the_trim_lands_on_the_first_entry_that_is_left(broker_url: str) -> None:
    async with keeping(broker_url) as run:
        positions = await publish_ledgers(await run.producer(), 3)
        await consumed(run, len(positions))
        consumer = await run.consumer(name="seeker")
        trap = run.proxy.trap(TRIM, Moment.HOLD_REQUEST)
        trimming = asyncio.ensure_future(run.broker.trimmer.trim(run.topic()))
        await trap.caught.wait()
        assert consumer.consumer is not None
        await consumer.consumer.seek_position(EARLIEST, None)
        trap.release()
        await trimming
        assert run.subscription().cursor.backlog_messages == ENTRIES
        await recounted(run)
    async with keeping(broker_url) as again:
        await again.consumer()
        assert again.subscription().cursor.backlog_messages == ENTRIES
        await recounted(again)


async def test_a_seek_under_way_when_the_trim_begins_keeps_its_ledgers(broker_url: str) -> None:
    async with keeping(broker_url) as run:
        positions = await publish_ledgers(await run.producer(), 3)
        await consumed(run, len(positions))
        consumer = await run.consumer(name="seeker")
        trap = run.proxy.trap(MOVE, Moment.HOLD_ANSWER)
        assert consumer.consumer is not None
        seeking = asyncio.ensure_future(consumer.consumer.seek_position(positions[0], None))
        await trap.caught.wait()
        assert await run.broker.trimmer.trim(run.topic()) == 0
        trap.release()
        await seeking
        assert run.subscription().cursor.backlog_messages == 3 * ENTRIES


async def test_a_subscription_made_from_the_earliest_entry_keeps_it(broker_url: str) -> None:
    async with keeping(broker_url) as run:
        positions = await publish_ledgers(await run.producer(), 3)
        await consumed(run, len(positions))
        trap = run.proxy.trap("INSERT INTO vela_subscription", Moment.HOLD_ANSWER)
        subscribing = asyncio.ensure_future(run.consumer(subscription="new", permits=100))
        await trap.caught.wait()
        trimming = asyncio.ensure_future(run.broker.trimmer.trim(run.topic()))
        await asyncio.sleep(0.05)
        trap.release()
        consumer = await subscribing
        assert await trimming == 0
        await consumer.has(len(positions))
        assert consumer.positions == positions


@pytest.mark.parametrize("moment", [Moment.LOSE_REQUEST, Moment.LOSE_ANSWER, Moment.LATE_REQUEST])
async def test_a_trim_whose_statement_is_lost_is_repeated(broker_url: str, moment: Moment) -> None:
    async with keeping(broker_url) as run:
        producer = await run.producer()
        await publish_ledgers(producer, 3)
        await consumed(run, 3 * ENTRIES)
        trap = run.proxy.trap(TRIM, moment)
        await look(run)
        assert trap.caught.is_set()
        fresh = await publish_ledgers(producer, 1)
        trap.release()
        if moment is Moment.LATE_REQUEST:
            await trap.passed.wait()
        assert stored_ledgers(broker_url) == [info.ledger_id for info in kept(run)]
        assert kept(run)[-1].ledger_id == fresh[0].ledger_id


async def test_a_crash_between_memory_and_rows_only_delays_the_trim(broker_url: str) -> None:
    run = await new_run(
        broker_url, ledger_max_entries=ENTRIES, default_retention_ms=0, default_retention_bytes=0
    )
    await run.start()
    await publish_ledgers(await run.producer(), 3)
    await consumed(run, 3 * ENTRIES)
    trap = run.proxy.trap(TRIM, Moment.HOLD_REQUEST)
    trimming = asyncio.ensure_future(run.broker.trimmer.trim(run.topic()))
    await trap.caught.wait()
    await run.crash()
    trimming.cancel()
    await asyncio.gather(trimming, return_exceptions=True)
    assert len(stored_ledgers(broker_url)) == 3
    async with keeping(broker_url) as again:
        await again.consumer()
        assert len(kept(again)) == 3
        await recounted(again)
        await look(again)
        assert len(stored_ledgers(broker_url)) == 1
        await recounted(again)


async def test_a_reader_whose_ledger_is_trimmed_during_its_read_continues_after_it(broker_url: str) -> None:
    async with keeping(broker_url, tail_cache_bytes=0) as run:
        positions = await publish_ledgers(await run.producer(), 3)
        trap = run.proxy.trap(READ, Moment.HOLD_REQUEST)
        reader = await run.consumer(
            type_=SubscriptionType.EXCLUSIVE, durable=False, start=EARLIEST, permits=100
        )
        await trap.caught.wait()
        await look(run)
        trap.release()
        await reader.has(ENTRIES)
        assert reader.positions[-ENTRIES:] == positions[2 * ENTRIES :]
        assert run.subscription().gap == ""
        assert run.subscription().cursor.backlog_messages == ENTRIES


async def closed_segment(run: BrokerRun) -> int:
    """Close the open segment, so that later entries go to the next one. Return the closed segment's id."""
    segments = run.broker.segments
    closing = segments.open_id
    await segments._open_next()
    await run.broker.segments._refresh_views()
    rows(run.database_url, "UPDATE vela_segment SET state = 'closed', closed_ms = 1 WHERE id = %s", closing)
    return closing


async def straggling(run: BrokerRun) -> tuple[int, list[Position]]:
    """Return a closed segment, and the positions in it that a subscription without acks keeps alive."""
    producer = await run.producer("slow")
    await run.consumer("slow", "never")
    positions = await publish_ledgers(producer, 2)
    busy = await run.producer("busy")
    await publish_ledgers(busy, 40)
    await consumed(run, 40 * ENTRIES, topic="busy")
    segment = await closed_segment(run)
    for topic in ("slow", "busy"):
        await look(run, topic)
    return segment, positions


async def test_the_last_living_ledgers_are_copied_out_of_a_segment_which_is_then_dropped(
    broker_url: str,
) -> None:
    async with keeping(broker_url) as run:
        segment, positions = await straggling(run)
        await run.broker.lifetime.look_at_segments()
        assert rows(broker_url, "SELECT to_regclass(%s)", f"vela_entry_{segment}") == [(None,)]
        assert one_row(broker_url, "SELECT count(*) FROM vela_entry") == (len(positions),)
        assert rows(
            broker_url,
            "SELECT DISTINCT long_lived FROM vela_segment s JOIN vela_ledger l ON l.segment_id = s.id",
        ) == [(True,)]
        run.topic("slow").log.cached.clear()
        consumer = await run.consumer("slow", "never", permits=100, name="late")
        await consumer.has(len(positions))
        assert consumer.positions == positions
    async with keeping(broker_url) as again:
        consumer = await again.consumer("slow", "never", permits=100)
        await consumer.has(len(positions))
        assert consumer.payloads == [b"%d" % number for number in range(len(positions))]


async def test_a_read_that_finds_its_segment_dropped_looks_where_the_ledger_is_now(broker_url: str) -> None:
    async with keeping(broker_url, tail_cache_bytes=0) as run:
        segment, positions = await straggling(run)
        consumer = await run.consumer("slow", "never", name="late")
        trap = run.proxy.trap(READ, Moment.HOLD_REQUEST)
        consumer.flow(100)
        await trap.caught.wait()
        await run.broker.lifetime.look_at_segments()
        assert rows(broker_url, "SELECT to_regclass(%s)", f"vela_entry_{segment}") == [(None,)]
        trap.release()
        await consumer.has(len(positions))
        assert consumer.positions == positions
        assert run.subscription("slow", "never").gap == ""


async def test_appends_and_trims_go_on_while_a_ledger_is_copied(broker_url: str) -> None:
    async with keeping(broker_url) as run:
        _, positions = await straggling(run)
        trap = run.proxy.trap(COPY, Moment.HOLD_REQUEST)
        copying = asyncio.ensure_future(run.broker.lifetime.look_at_segments())
        await trap.caught.wait()
        fresh = await publish_ledgers(await run.producer("slow"), 2)
        consumer = await run.consumer("slow", "never", permits=100, acks=True, name="late")
        await consumer.has(len(positions) + len(fresh))
        await settled(run, topic="slow", subscription="never")
        await look(run, "slow")
        trap.release()
        await copying
        assert {info.ledger_id for info in kept(run, "slow")} == {fresh[-1].ledger_id}
        assert await eventually(
            lambda: (
                not rows(
                    broker_url,
                    "SELECT FROM vela_ledger l JOIN vela_segment s ON s.id = l.segment_id WHERE s.state <> 'open'",
                )
            ),
            "no ledger in a closed segment",
        )
        await recounted(run, "slow")


@pytest.mark.parametrize("statement", [COPY, FLIP, "SELECT vela_drop_segment_v1"])
@pytest.mark.parametrize("moment", [Moment.LOSE_REQUEST, Moment.LOSE_ANSWER])
async def test_a_crash_at_any_step_of_a_copy_loses_and_doubles_nothing(
    broker_url: str, statement: str, moment: Moment
) -> None:
    run = await new_run(
        broker_url, ledger_max_entries=ENTRIES, default_retention_ms=0, default_retention_bytes=0
    )
    await run.start()
    segment, positions = await straggling(run)
    trap = run.proxy.trap(statement, moment)
    copying = asyncio.ensure_future(run.broker.lifetime.look_at_segments())
    await trap.caught.wait()
    await run.crash()
    copying.cancel()
    await asyncio.gather(copying, return_exceptions=True)
    assert one_row(broker_url, "SELECT count(*) FROM vela_entry") == (len(positions),)
    async with keeping(broker_url) as again:
        await again.broker.lifetime.look_at_segments()
        assert rows(broker_url, "SELECT to_regclass(%s)", f"vela_entry_{segment}") == [(None,)]
        assert one_row(broker_url, "SELECT count(*) FROM vela_entry") == (len(positions),)
        consumer = await again.consumer("slow", "never", permits=100)
        await consumer.has(len(positions))
        assert consumer.positions == positions


async def test_a_piece_that_a_lost_connection_copied_late_is_no_damage(
    broker_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    copy_piece = store.copy_piece

    async def copied_before(connection: Connection, **piece: int) -> int:
        await copy_piece(connection, **piece)  # a statement that a lost connection left on the server
        return await copy_piece(connection, **piece)

    monkeypatch.setattr(store, "copy_piece", copied_before)
    async with keeping(broker_url) as run:
        segment, positions = await straggling(run)
        await run.broker.lifetime.look_at_segments()
        assert rows(broker_url, "SELECT to_regclass(%s)", f"vela_entry_{segment}") == [(None,)]
        assert one_row(broker_url, "SELECT count(*) FROM vela_entry") == (len(positions),)
    assert [each for each in caplog.records if each.levelname == "CRITICAL"] == []


async def test_a_segment_that_has_lost_a_row_is_kept_after_a_restart_too(
    broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with keeping(broker_url) as run:
        segment, positions = await straggling(run)
        lost = positions[1]
        rows(
            broker_url,
            f"DELETE FROM vela_entry_{segment} WHERE ledger_id = %s AND entry_id = 1",
            lost.ledger_id,
        )
        await run.broker.lifetime.look_at_segments()
    async with keeping(broker_url) as again:
        await again.broker.lifetime.look_at_segments()
        assert rows(broker_url, "SELECT segment_id FROM vela_ledger WHERE id = %s", lost.ledger_id) == [
            (segment,)
        ]
    assert sum(f"segment {segment} lacks an entry" in each.message for each in caplog.records) == 2


async def test_a_page_inside_a_transaction_postpones_a_drop_and_delays_no_append(broker_url: str) -> None:
    async with keeping(broker_url) as run:
        segment, _ = await straggling(run)
        with psycopg.connect(broker_url) as page:
            page.execute("SELECT count(*) FROM vela_entry")
            await run.broker.lifetime.look_at_segments()
            assert rows(broker_url, "SELECT to_regclass(%s)::text", f"vela_entry_{segment}") == [
                (f"vela_entry_{segment}",)
            ]
            await (await run.producer("busy")).publish(2)
        await run.broker.lifetime.look_at_segments()
        assert rows(broker_url, "SELECT to_regclass(%s)", f"vela_entry_{segment}") == [(None,)]


@pytest.mark.parametrize("moment", [Moment.HOLD_REQUEST, Moment.HOLD_ANSWER, Moment.LATE_REQUEST])
async def test_a_seal_and_an_append_that_rolls_the_same_ledger_agree(broker_url: str, moment: Moment) -> None:
    async with keeping(broker_url, time_ms=-1, size_bytes=-1, ledger_max_entries=1000) as run:
        producer = await run.producer()
        positions = await producer.publish(3)
        await closed_segment(run)
        trap = run.proxy.trap("THEN l.segment_id END", moment)
        sealing = asyncio.ensure_future(look(run))
        await trap.caught.wait()
        positions += await producer.publish(2)
        trap.release()
        await sealing
        if moment is Moment.LATE_REQUEST:
            await trap.passed.wait()
        positions += await producer.publish(1)
        assert [info.entries for info in kept(run)] == [3, 3]
        assert rows(broker_url, "SELECT state, entries FROM vela_ledger ORDER BY id") == [
            ("sealed", 3),
            ("open", 0),
        ]
    async with keeping(broker_url) as again:
        consumer = await again.consumer(permits=100)
        await consumer.has(len(positions))
        assert consumer.positions == positions


async def test_a_segment_in_which_a_ledger_lies_is_never_dropped(broker_url: str) -> None:
    async with keeping(broker_url) as run:
        segment, positions = await straggling(run)
        async with run.broker.pool.use() as connection:
            assert not await store.drop_segment(connection, segment, lock_timeout_ms=200, read_role="")
            assert not await store.drop_segment(
                connection, run.broker.segments.open_id, lock_timeout_ms=200, read_role=""
            )
        assert one_row(broker_url, "SELECT count(*) FROM vela_entry") == (len(positions),)
