"""Make topics with small ledgers, and read which ledgers remain, for tests of trimming."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from broker.core.ledgers.ledger import LedgerInfo
from broker.core.ledgers.message_index import IndexMissing
from broker.core.position import Position
from tests.support.broker_harness import BrokerRun, ManualClock, ProducerProbe, eventually, rows, running

__all__ = [
    "ENTRIES",
    "consumed",
    "keeping",
    "kept",
    "look",
    "publish_ledgers",
    "recounted",
    "settled",
    "stored_ledgers",
]

ENTRIES = 4  # in a full ledger


@asynccontextmanager
async def keeping(
    url: str, *, time_ms: int = 0, size_bytes: int = 0, clock: ManualClock | None = None, **settings: Any
) -> AsyncIterator[BrokerRun]:
    """Run a broker whose ledgers hold a few entries, with this retention. By default, acked ledgers are deleted."""
    settings.setdefault("ledger_max_entries", ENTRIES)
    async with running(
        url, clock=clock, default_retention_ms=time_ms, default_retention_bytes=size_bytes, **settings
    ) as run:
        yield run


async def publish_ledgers(producer: ProducerProbe, count: int, *, messages: int = 1) -> list[Position]:
    """Fill this many ledgers and return the positions. The last ledger is full and still open."""
    positions: list[Position] = []
    for _ in range(count):
        positions += await producer.publish(ENTRIES, messages=messages)
    assert len({position.ledger_id for position in positions}) == count
    return positions


async def consumed(
    run: BrokerRun, count: int, *, topic: str = "t", subscription: str = "s"
) -> list[Position]:
    """Consume and durably ack this many entries, and return their positions. The consumer stays attached."""
    consumer = await run.consumer(topic, subscription, permits=10_000, acks=True, name=f"{subscription}-c")
    await consumer.has(count)
    await settled(run, topic=topic, subscription=subscription)
    return consumer.positions


async def settled(run: BrokerRun, *, topic: str = "t", subscription: str = "s") -> None:
    """Wait until everything is acked, and store the acks. An ack may wait until the counts of its entry are read."""
    cursor = run.subscription(topic, subscription).cursor
    await eventually(lambda: cursor.backlog_messages == 0, "all acked")
    await run.flushed()


async def look(run: BrokerRun, topic: str = "t") -> None:
    """Seal, expire and trim a topic now, as the lifetime task does at its interval."""
    await run.broker.lifetime.look_at(run.topic(topic))


def kept(run: BrokerRun, topic: str = "t") -> list[LedgerInfo]:
    """Return the ledgers that the broker knows."""
    return run.topic(topic).log.ledgers.infos()


def stored_ledgers(url: str) -> list[int]:
    """Return the ids of the ledgers that PostgreSQL has."""
    return [row[0] for row in rows(url, "SELECT id FROM vela_ledger ORDER BY id")]


async def recounted(run: BrokerRun, topic: str = "t") -> None:
    """Check that each subscription's counters equal a recount of the stored minus the acked messages."""
    found = run.topic(topic)
    for subscription in found.subscriptions.values():
        while True:
            try:
                totals = subscription.cursor.recount()
                break
            except IndexMissing as missing:
                await found.reader.load_index(missing.ranges)
        assert totals == subscription.cursor.totals, subscription.name
