"""Statements that the server refuses: only the guilty topic or subscription suffers (design 5)."""

from __future__ import annotations

from broker.core.errors import PersistenceFailed
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

BAD = 77  # messages of an entry that the table below does not take


def refuse_bad_entries(run: BrokerRun) -> None:
    """A check that one entry will break."""
    rows(run.database_url, f"ALTER TABLE vela_entry_1 ADD CHECK (messages <> {BAD})")


async def test_a_refused_append_closes_its_producer_and_no_other(run: BrokerRun) -> None:
    good, bad = await run.producer("good"), await run.producer("bad")
    await good.publish(1)
    await bad.publish(1)
    refuse_bad_entries(run)
    trap = run.proxy.trap('INSERT INTO "vela_entry_1"', Moment.HOLD_REQUEST)
    good.send()  # held, so that what follows is gathered into one statement of both topics
    await trap.caught.wait()
    second = run.proxy.trap('INSERT INTO "vela_entry_1"', Moment.HOLD_REQUEST)
    bad.send()
    await second.caught.wait()
    for _ in range(5):
        good.send()
        bad.send(messages=BAD)
        bad.send()
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


async def test_what_a_closed_producer_sends_afterwards_does_not_overtake(run: BrokerRun) -> None:
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


async def test_a_refused_cursor_holds_up_no_other(run: BrokerRun) -> None:
    producer = await run.producer()
    good, bad = (
        await run.consumer(subscription="good", permits=10),
        await run.consumer(subscription="bad", permits=10),
    )
    positions = await producer.publish(3)
    await good.has(3)
    await bad.has(3)
    guilty = run.subscription(subscription="bad").subscription_id
    rows(
        run.database_url,
        f"ALTER TABLE vela_cursor ADD CONSTRAINT test_no CHECK (subscription_id <> {guilty} OR acked_messages = 0)",
    )
    assert isinstance(await bad.ack_durably(positions[0]), PersistenceFailed)
    assert await good.ack_durably(*positions) is None
    rows(run.database_url, "ALTER TABLE vela_cursor DROP CONSTRAINT test_no")
    assert await bad.ack_durably(positions[1]) is None
    assert one_row(
        run.database_url, "SELECT acked_messages FROM vela_cursor WHERE subscription_id = %s", guilty
    ) == (2,)


class Breaking(ProducerProbe):
    """Its transport breaks at the first receipt."""

    def on_receipts(self, receipts: object) -> None:
        """Break."""
        raise RuntimeError("the transport broke")


async def test_a_transport_that_breaks_at_a_receipt_stops_no_lane(run: BrokerRun) -> None:
    good = await run.producer()
    broken = await run.open(Breaking())
    for _ in range(4):
        broken.send()
        good.send()
    await good.has_receipts(4)
    await good.publish(10)
