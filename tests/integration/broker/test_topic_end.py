"""Unloading and deleting topics."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.core.errors import NotAllowed, TopicFenced, TopicNotFound
from broker.core.topic_name import TopicName
from broker.storage import queries
from broker.storage.connection import connect
from broker.storage.topics import life
from broker.storage.topics import topics as topic_store
from broker.topics.ending import TopicBusy
from tests.support.broker_harness import BrokerRun, eventually, one_row, payload_of, rows, running
from tests.support.postgres_proxy import Moment

T = TopicName.parse("t")
REFERS = ("topic_id", "subscription_id", "cursor_id")


async def partitioned(url: str, name: str, partitions: int) -> None:
    """Create a partitioned topic."""
    connection = await connect(url, name="test")
    await topic_store.create_topic(connection, TopicName.parse(name), partitions=partitions, policies={})
    await connection.close()


async def test_unload_keeps_receipts_acks_and_messages(run: BrokerRun) -> None:
    producer = await run.producer()
    consumer = await run.consumer(permits=10)
    positions = await producer.publish(5)
    await consumer.has(5)
    consumer.ack(*positions[:3])
    producer.send(b"last")
    assert await run.broker.endings.unload([T]) == 1
    assert producer.closed == [None]
    assert len(consumer.closed) == 1
    assert T.full not in run.broker.topics.loaded
    again = await run.consumer(permits=10)
    await again.has(len(producer.receipts) - 3)
    assert again.positions[:2] == positions[3:]


async def test_unloading_a_topic_that_is_not_loaded_does_nothing(run: BrokerRun) -> None:
    assert await run.broker.endings.unload([T]) == 0


async def test_sends_during_an_unload_are_stored_once_or_sent_again(run: BrokerRun) -> None:
    producer = await run.producer()
    await producer.publish(1)
    trap = run.proxy.trap('INSERT INTO "vela_entry_1"', Moment.HOLD_REQUEST)
    producer.send(b"under way")
    await trap.caught.wait()
    producer.send(b"waits")
    unloading = asyncio.ensure_future(run.broker.endings.unload([T]))
    await eventually(lambda: run.topic().log.is_paused, "the topic to stand still")
    trap.release()
    await unloading
    assert len(producer.receipts) == 2
    assert producer.closed == [None]
    stored = rows(run.database_url, "SELECT data FROM vela_entry ORDER BY ledger_id, entry_id")
    assert [payload_of(data) for (data,) in stored] == [b"0", b"under way"]


async def test_a_consumer_that_comes_during_an_unload_waits_for_stored_acks(run: BrokerRun) -> None:
    producer = await run.producer()
    consumer = await run.consumer(permits=10)
    positions = await producer.publish(3)
    await consumer.has(3)
    await run.flushed()
    trap = run.proxy.trap("UPDATE vela_cursor c SET mark_delete_ledger = u.", Moment.HOLD_REQUEST)
    consumer.ack(*positions)
    unloading = asyncio.ensure_future(run.broker.endings.unload([T]))
    await eventually(lambda: consumer.closed, "the consumer to be let go")
    coming = asyncio.ensure_future(run.consumer(permits=10))
    await trap.caught.wait()
    assert not coming.done()
    trap.release()
    await unloading
    again = await coming
    assert run.subscription().cursor.backlog_messages == 0
    assert not again.deliveries


async def test_delete_refuses_clients_then_subscriptions_and_changes_nothing(run: BrokerRun) -> None:
    producer = await run.producer()
    await producer.publish(2)
    with pytest.raises(TopicBusy, match="1 producer and 0 consumers"):
        await run.broker.endings.delete(T, force=False)
    consumer = await run.consumer()
    assert producer.producer is not None
    producer.producer.detach()
    with pytest.raises(TopicBusy, match="0 producers and 1 consumer"):
        await run.broker.endings.delete(T, force=False)
    assert consumer.consumer is not None
    consumer.consumer.detach()
    with pytest.raises(TopicBusy, match="1 subscription:"):
        await run.broker.endings.delete(T, force=False)
    assert run.topic().is_open
    again = await run.consumer(permits=5)
    await again.has(2)


async def test_delete_removes_every_row_and_a_topic_of_that_name_starts_empty(run: BrokerRun) -> None:
    producer = await run.producer()
    consumer = await run.consumer(permits=10)
    positions = await producer.publish(4)
    await consumer.has(4)
    consumer.ack(positions[1])
    await run.flushed()
    other = await run.producer("other")
    await other.publish(1)
    await eventually(
        lambda: rows(run.database_url, "SELECT 1 FROM vela_pending_ack"), "the report", timeout_s=5
    )
    (topic_id,) = one_row(run.database_url, "SELECT id FROM vela_topic WHERE name = %s", T.full)
    (subscription_id,) = one_row(run.database_url, "SELECT id FROM vela_subscription")
    rows(run.database_url, "INSERT INTO vela_parked_pulls VALUES (%s, 1, '[]', 0)", topic_id)
    rows(
        run.database_url,
        "INSERT INTO vela_insight_hour (topic_id, hour_ms, messages, size_bytes, keyed_messages, keys, top_keys,"
        " letters, subscriptions, poison, computed_at)"
        " VALUES (%s, 0, 1, 1, 0, 0, '[]', '[]', '[]', '[]', now())",
        topic_id,
    )
    figures = await run.broker.endings.delete_figures(T)
    assert (figures.producers, figures.consumers, figures.subscriptions) == (1, 1, ((T.full, "s"),))
    await run.broker.endings.delete(T, force=True)
    assert len(producer.closed) == len(consumer.closed) == 1
    for table, column in columns_that_refer(run.database_url):
        ident = topic_id if column == "topic_id" else subscription_id
        assert rows(run.database_url, f"SELECT * FROM {table} WHERE {column} = {ident}") == [], table
    with pytest.raises(TopicNotFound):
        await run.broker.endings.delete(T, force=True)
    assert await (await run.producer()).publish(1)
    fresh = await run.consumer(permits=10)
    await fresh.has(1)
    assert fresh.payloads == [b"0"]
    await other.publish(1)


def columns_that_refer(url: str) -> list[tuple[str, str]]:
    """Return (table, column) of every reference to a topic or a subscription in rows that do not expire.

    The points of charts are left out: they stay, because the sums over all topics need them, and ids are not used
    again. The firings of alerts are left out too: they are history, and the next round ends those that are open.
    """
    return rows(
        url,
        "SELECT c.table_name, c.column_name FROM information_schema.columns c"
        " JOIN pg_tables t ON t.tablename = c.table_name"
        " WHERE c.table_schema = 'public' AND c.column_name = ANY(%s)"
        " AND NOT starts_with(c.table_name, 'vela_stats_point_') AND c.table_name <> 'vela_alert_firing'"
        " ORDER BY 1, 2",
        list(REFERS),
    )


def test_the_delete_knows_every_table_that_refers_to_a_topic(broker_url: str) -> None:
    text = (Path(queries.__file__).parent / "sql" / "topic_life.sql").read_text(encoding="utf-8")
    left = {table for table, _ in columns_that_refer(broker_url) if f" {table} " not in text}
    # A topic's stories may be millions of rows, and they expire. The row of a file says that the file is still to be
    # deleted. The broker sweeps the surveys of compactions, because their keys may be millions of rows too.
    assert left == {"vela_delivery_story", "vela_ledger_file", "vela_compaction_survey"}


async def test_delete_of_a_partitioned_topic_takes_all_or_nothing(run: BrokerRun) -> None:
    await partitioned(run.database_url, "p", 3)
    producer = await run.producer("p-partition-1")
    await producer.publish(1)
    with pytest.raises(NotAllowed, match="is a partition of persistent://public/default/p"):
        await run.broker.endings.delete(TopicName.parse("p-partition-1"), force=True)
    with pytest.raises(TopicBusy):
        await run.broker.endings.delete(TopicName.parse("p"), force=False)
    assert one_row(run.database_url, "SELECT count(*) FROM vela_topic") == (4,)
    figures = await run.broker.endings.delete(TopicName.parse("p"), force=True)
    assert len(figures.topics) == 3
    assert one_row(run.database_url, "SELECT count(*) FROM vela_topic") == (0,)


async def test_a_delete_whose_answer_is_lost_is_done(run: BrokerRun) -> None:
    await (await run.producer()).publish(1)
    trap = run.proxy.trap("DELETE FROM vela_ledger", Moment.LOSE_ANSWER)
    await run.broker.endings.delete(T, force=True)
    assert trap.taken
    assert one_row(run.database_url, "SELECT count(*) FROM vela_topic") == (0,)


async def test_a_late_delete_spares_the_topic_that_was_made_since(run: BrokerRun) -> None:
    await (await run.producer()).publish(1)
    trap = run.proxy.trap("DELETE FROM vela_ledger", Moment.LATE_REQUEST)
    await run.broker.endings.delete(T, force=True)
    await (await run.producer()).publish(2)
    trap.release()
    await trap.passed.wait()
    assert one_row(run.database_url, "SELECT count(*) FROM vela_entry") == (2,)


async def test_a_delete_of_a_topic_that_another_broker_took_deletes_nothing(run: BrokerRun) -> None:
    await (await run.producer()).publish(1)
    rows(run.database_url, "UPDATE vela_topic_owner SET owner_epoch = owner_epoch + 5, owner_token = 1")
    with pytest.raises(TopicFenced):
        await run.broker.endings.delete(T, force=True)
    assert one_row(run.database_url, "SELECT count(*) FROM vela_entry") == (1,)


async def test_an_act_written_while_a_topic_is_deleted_does_not_stop_it(run: BrokerRun) -> None:
    await (await run.producer()).publish(1)
    await run.consumer()
    trap = run.proxy.trap("DELETE FROM vela_ledger", Moment.HOLD_REQUEST)
    deleting = asyncio.ensure_future(run.broker.endings.delete(T, force=True))
    await trap.caught.wait()
    rows(
        run.database_url,
        "INSERT INTO vela_act (kind, state, topic_id, subscription_id, topic_name, subscription_name, parameters,"
        " error, who, origin, reason, created_at, requested_at) SELECT 'clear', 'planned', t.id, s.id, t.name, s.name,"
        " '{}', '', 'me', 'test', '', now(), now() FROM vela_topic t JOIN vela_subscription s ON s.topic_id = t.id",
    )
    trap.release()
    await deleting
    assert rows(run.database_url, "SELECT topic_id, subscription_id, topic_name FROM vela_act") == [
        (None, None, T.full)
    ]


async def test_a_client_that_comes_during_a_delete_gets_the_new_topic(broker_url: str) -> None:
    async with running(broker_url) as run:
        await (await run.producer()).publish(3)
        trap = run.proxy.trap("DELETE FROM vela_ledger", Moment.HOLD_REQUEST)
        deleting = asyncio.ensure_future(run.broker.endings.delete(T, force=True))
        await trap.caught.wait()
        coming = asyncio.ensure_future(run.producer())
        await asyncio.sleep(0)
        assert not coming.done()
        trap.release()
        await deleting
        await (await coming).publish(1)
        assert one_row(broker_url, "SELECT count(*) FROM vela_entry") == (1,)


async def test_a_topic_that_another_act_deleted_meanwhile_is_not_found(run: BrokerRun) -> None:
    name = TopicName.parse("persistent://public/default/twice")
    await run.broker.creation.make(name, 3)
    first, second = await asyncio.gather(
        run.broker.endings.delete(name, force=False),
        run.broker.endings.delete(name, force=False),
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in (first, second)) == ["DeleteFigures", "TopicNotFound"]


async def test_topics_are_taken_without_those_that_are_gone(run: BrokerRun) -> None:
    name = TopicName.parse("persistent://public/default/taken")
    await run.broker.creation.make(name, 2)
    async with run.broker.pool.use() as connection:
        members = await life.members(connection, name.full)
        taken = await topic_store.take_topics(connection, [*members, -7], token=5)
    assert taken == dict.fromkeys(members, 1)
