"""Statements that the server refuses: only the guilty topic or subscription suffers."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

import pytest

from broker.core.errors import PersistenceFailed
from broker.storage.connection import Connection
from broker.storage.cursors import cursors
from broker.subscription.storing import flusher as flusher_module
from tests.support.broker_harness import (
    BrokerRun,
    ProducerProbe,
    eventually,
    one_row,
    payload_of,
    rows,
    running,
)
from tests.support.postgres_proxy import Moment

BAD = 77  # PostgreSQL refuses an entry with this many messages


def refuse_bad_entries(run: BrokerRun) -> None:
    """Add a check constraint that one entry will violate."""
    rows(run.database_url, f"ALTER TABLE vela_entry_1 ADD CHECK (messages <> {BAD})")


@pytest.mark.parametrize("payload", [b"", bytes(300_000)], ids=["by statement", "by COPY"])
async def test_a_refused_append_closes_its_producer_and_no_other(run: BrokerRun, payload: bytes) -> None:
    good, bad = await run.producer("good"), await run.producer("bad")
    await good.publish(1)
    await bad.publish(1)
    refuse_bad_entries(run)
    sql = 'COPY "vela_entry_1"' if payload else 'INSERT INTO "vela_entry_1"'
    trap = run.proxy.trap(sql, Moment.HOLD_REQUEST)
    good.send(payload)  # held, so that both topics' next sends share one statement
    await trap.caught.wait()
    second = run.proxy.trap(sql, Moment.HOLD_REQUEST)
    bad.send(payload)
    await second.caught.wait()
    for _ in range(5):
        good.send(payload)
        bad.send(payload, messages=BAD)
        bad.send(payload)
    trap.release()
    second.release()
    await good.has_receipts(7)
    await eventually(lambda: bad.closed, "the bad topic's producer to be closed")
    assert isinstance(bad.closed[0], PersistenceFailed)
    assert len(bad.receipts) == 2
    assert len(bad.failed) == 10
    assert not good.closed
    again = await run.producer("bad")
    await again.publish(2)


async def test_later_sends_of_a_closed_producer_are_not_stored(run: BrokerRun) -> None:
    producer = await run.producer()
    await producer.publish(1)
    refuse_bad_entries(run)
    producer.send(messages=BAD)
    producer.send(b"behind it")
    await eventually(lambda: producer.closed, "the producer to be closed")
    producer.send(b"later")
    await (await run.producer()).publish(1)
    stored = [payload_of(data) for (data,) in rows(run.database_url, "SELECT data FROM vela_entry")]
    assert b"behind it" not in stored
    assert b"later" not in stored


async def test_a_ledger_that_cannot_be_opened_is_refused_and_not_waited_for(broker_url: str) -> None:
    async with running(broker_url, ledger_max_entries=2) as run:
        producer = await run.producer()
        other = await run.producer("other")
        await producer.publish(2)
        await other.publish(1)
        rows(broker_url, "ALTER TABLE vela_ledger ADD CONSTRAINT test_full CHECK (entries_before < 2)")
        producer.send()
        await eventually(lambda: producer.closed, "the producer to be closed")
        await other.publish(1)
        rows(broker_url, "ALTER TABLE vela_ledger DROP CONSTRAINT test_full")
        await (await run.producer()).publish(1)


def refuse_cursor(run: BrokerRun, subscription: str) -> int:
    """Make the database refuse this subscription's cursor from now on, and return the subscription's id."""
    guilty = run.subscription(subscription=subscription).subscription_id
    rows(
        run.database_url,
        f"ALTER TABLE vela_cursor ADD CONSTRAINT test_no CHECK (subscription_id <> {guilty} OR acked_messages = 0)",
    )
    return guilty


async def test_a_repeated_commit_of_an_offset_is_refused_like_the_first_until_it_is_stored(
    run: BrokerRun,
) -> None:
    await (await run.producer()).publish(3)
    topic = run.topic().name
    await run.broker.commit_offset(topic, 0, "g", 0, "127.0.0.1")
    guilty = refuse_cursor(run, "g")
    for offset in (2, 2, 1):
        with pytest.raises(PersistenceFailed, match="test_no"):
            await run.broker.commit_offset(topic, 0, "g", offset, "127.0.0.1")
    rows(run.database_url, "ALTER TABLE vela_cursor DROP CONSTRAINT test_no")
    flusher, subscription = run.broker.flusher, run.subscription(subscription="g")
    await eventually(lambda: flusher.is_settled(subscription), "the cursor to be tried again, by itself")
    with patch.object(cursors, "flush", side_effect=AssertionError("nothing is to be stored")):
        assert await run.broker.commit_offset(topic, 0, "g", 2, "127.0.0.1") == 2
    assert one_row(
        run.database_url, "SELECT acked_messages FROM vela_cursor WHERE subscription_id = %s", guilty
    ) == (2,)


async def test_a_refused_cursor_delays_no_other_and_recovers_by_itself(run: BrokerRun) -> None:
    producer = await run.producer()
    good, bad = (
        await run.consumer(subscription="good", permits=10),
        await run.consumer(subscription="bad", permits=10),
    )
    positions = await producer.publish(3)
    await good.has(3)
    await bad.has(3)
    guilty = refuse_cursor(run, "bad")
    refusal = await bad.ack_durably(positions[0])
    assert isinstance(refusal, PersistenceFailed)
    assert "test_no" in str(refusal)
    assert await good.ack_durably(*positions) is None
    assert isinstance(await bad.ack_durably(positions[1]), PersistenceFailed)
    rows(run.database_url, "ALTER TABLE vela_cursor DROP CONSTRAINT test_no")
    flusher, subscription = run.broker.flusher, run.subscription(subscription="bad")
    await eventually(lambda: flusher.is_settled(subscription), "the cursor to be tried again, by itself")
    assert one_row(
        run.database_url, "SELECT acked_messages FROM vela_cursor WHERE subscription_id = %s", guilty
    ) == (2,)
    assert await bad.ack_durably(positions[2]) is None


async def test_a_refused_cursor_leaves_the_common_flush(run: BrokerRun) -> None:
    """After that, one statement again stores all other cursors, and a flush that waits for all cursors ends."""
    producer = await run.producer()
    names = ["bad", *(f"good {number}" for number in range(8))]
    consumers = [await run.consumer(subscription=name, permits=10) for name in names]
    positions = await producer.publish(2)
    for each in consumers:
        await each.has(2)
    refuse_cursor(run, "bad")
    for each in consumers:
        each.ack(positions[0])
    async with asyncio.timeout(5):
        refused = await run.broker.flusher.flush_now()
    assert [each.name for each in refused] == ["bad"]
    flushed: list[list[int]] = []
    flush = cursors.flush

    async def counting(connection: Connection, **named: Any) -> set[int]:
        flushed.append(sorted(each.subscription_id for each in named["dirty"]))
        return await flush(connection, **named)

    with patch.object(cursors, "flush", counting):
        for each in consumers:
            each.ack(positions[1])
        await run.flushed()
    guilty = run.subscription(subscription="bad").subscription_id
    together = sorted(run.subscription(subscription=name).subscription_id for name in names[1:])
    assert together in flushed
    assert all(each == [guilty] for each in flushed if guilty in each), "it is tried alone"


async def test_a_refused_cursor_is_shown_on_its_page_until_the_database_takes_it(run: BrokerRun) -> None:
    producer = await run.producer()
    consumer = await run.consumer(permits=10)
    positions = await producer.publish(2)
    await consumer.has(2)
    refuse_cursor(run, "s")
    consumer.ack(positions[0])

    def told() -> dict[str, int]:
        ((found,),) = rows(run.database_url, "SELECT problems FROM vela_subscription_summary")
        return dict(found)

    await eventually(lambda: rows(run.database_url, "SELECT 1 FROM vela_subscription_summary"), "a summary")
    await eventually(told, "the refusal to be reported")
    ((text, attempts),) = told().items()
    assert attempts >= 1
    for part in ("since 20", "test_no", "Delivery goes on", "after a restart"):
        assert part in text
    await producer.publish(1)
    await consumer.has(3)
    rows(run.database_url, "ALTER TABLE vela_cursor DROP CONSTRAINT test_no")
    await eventually(lambda: not told(), "the page to be as before")


async def test_many_dirty_cursors_are_several_statements(run: BrokerRun) -> None:
    producer = await run.producer()
    consumers = [await run.consumer(subscription=f"s{number}", permits=10) for number in range(10)]
    (position,) = await producer.publish(1)
    sizes: list[int] = []
    flush = cursors.flush

    async def counting(connection: Connection, **named: Any) -> set[int]:
        sizes.append(len(named["dirty"]))
        return await flush(connection, **named)

    with patch.object(cursors, "flush", counting), patch.object(flusher_module, "MAX_CURSORS", 4):
        async with run.broker.flusher.paused():
            for each in consumers:
                each.ack(position)
        await run.flushed()
    assert sum(sizes) == 10
    assert max(sizes) <= 4
    assert one_row(run.database_url, "SELECT sum(acked_messages)::int FROM vela_cursor") == (10,)


class Breaking(ProducerProbe):
    """A producer whose transport breaks at the first receipt."""

    def on_receipts(self, receipts: object) -> None:
        """Raise an error."""
        raise RuntimeError("the transport broke")


async def test_a_transport_that_breaks_at_a_receipt_stops_no_lane(run: BrokerRun) -> None:
    good = await run.producer()
    broken = await run.open(Breaking())
    for _ in range(4):
        broken.send()
        good.send()
    await good.has_receipts(4)
    await good.publish(10)
