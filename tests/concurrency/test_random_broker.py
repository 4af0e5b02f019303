"""The broker over a real PostgreSQL under random clients, lost connections and crashes.

The seed is in the test's name. VELA_SOAK_SEEDS=200 runs that many seeds, each with 600 steps instead of 250.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import pytest

from broker.core.errors import BrokerError
from broker.core.subscription.types import SubscriptionType
from broker.log import writer
from broker.log.scheduling import topic_limit
from broker.storage.log import entries
from broker.subscription.subscription import Subscription
from tests.concurrency.random_client import CheckingConsumer, SubscriptionModel
from tests.support.broker_harness import (
    BrokerRun,
    ProducerProbe,
    eventually,
    new_run,
    one_row,
    payload_of,
    rows,
)
from tests.support.postgres_proxy import Moment

SOAK_SEEDS = int(os.environ.get("VELA_SOAK_SEEDS", "0"))
STEPS = 600 if SOAK_SEEDS else 250
PATIENCE_S = 15.0
LONGEST_DELAY_MS = 400  # of each delayed message; one in four is delayed
SLOTS = (None, 300, 9_000, 21_000, 33_000, 47_000, 61_000)  # six keys, and no key
T = TypeVar("T")
STATEMENTS = (
    'INSERT INTO "vela_entry_',
    'COPY "vela_entry_',
    "UPDATE vela_cursor c SET",
    "UPDATE vela_topic_owner o",
    "INSERT INTO vela_ledger",
    "SELECT entry_id, messages, flags",
    "SELECT entry_id, cumulative_messages",
    "INSERT INTO vela_topic_owner",
    "pg_try_advisory_lock",
)
LOSSES = (Moment.LOSE_REQUEST, Moment.LOSE_ANSWER, Moment.LATE_REQUEST)


class World:
    """One database, one broker at a time, a subscription of each type, some clients."""

    def __init__(self, url: str, chance: random.Random, *, has_delays: bool) -> None:
        self.url = url
        self.has_delays = has_delays
        self.chance = chance
        self.models = tuple(SubscriptionModel(name=type_.value, type=type_) for type_ in SubscriptionType)
        self.receipts: dict[bytes, tuple[int, int]] = {}
        self.sent = 0
        self.mark_deletes: dict[str, tuple[int, int]] = {}
        self.producer: ProducerProbe
        self.run: BrokerRun

    async def begin(self) -> None:
        """Start a broker and connect."""
        self.run = await new_run(
            self.url,
            ledger_max_entries=self.chance.choice((7, 25, 1000)),
            tail_cache_bytes=self.chance.choice((0, 5_000, 1 << 20)),
            failover_delay_ms=self.chance.choice((0, 5, 50)),
            key_shared_consistent_hashing=self.chance.random() < 0.8,
        )
        await self.run.start()
        self.producer = await self.patiently(self.run.producer, "a producer")
        for model in self.models:
            await self.join(model)

    async def patiently(self, call: Callable[[], Awaitable[T]], what: str) -> T:
        """Repeat a call, as a client does, as long as the broker says that a later attempt may succeed."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + PATIENCE_S
        while True:
            try:
                return await call()
            except BrokerError as error:
                if not error.retriable or loop.time() > deadline_s:
                    raise AssertionError(f"{what}: {error!r}") from error
                await asyncio.sleep(0.01)

    async def join(self, model: SubscriptionModel) -> None:
        """Add a consumer."""
        consumer = CheckingConsumer(model)
        name = f"c{self.chance.random()}"
        priority = self.chance.randint(0, 2)
        await self.patiently(
            lambda: self.run.attach(consumer, "t", model.name, model.type, name=name, priority=priority),
            f"joining {model.name}",
        )
        if not consumer.closed:
            model.consumers.append(consumer)
            consumer.grant(self.chance.randint(1, 30))

    def collect(self) -> None:
        """Record the receipts of the producer."""
        for receipt in self.producer.receipts:
            self.receipts[b"%d" % receipt.sequence_id] = (receipt.ledger_id, receipt.entry_id)

    async def step(self) -> None:
        """Do one random thing."""
        chance = self.chance
        kind = chance.choices(
            ("publish", "flow", "ack", "partly", "nack", "leave", "join", "cut", "lose", "crash", "breathe"),
            (30, 25, 30, 6, 8, 8, 12, 1.5, 4, 0.8, 30),
        )[0]
        await getattr(self, f"do_{kind}")()

    async def do_publish(self) -> None:
        """Publish some entries, some of them batches."""
        if self.producer.closed:
            self.collect()
            self.producer = await self.patiently(self.run.producer, "a producer")
        self.producer.next_sequence_id = self.sent
        for _ in range(self.chance.randint(1, 12)):
            delay_ms = self.chance.choice((0, 0, 0, self.chance.randint(1, LONGEST_DELAY_MS)))
            if not self.has_delays:
                delay_ms = 0
            self.producer.send(
                messages=self.chance.choice((1, 1, 1, 5)),
                deliver_at_ms=self.run.clock.now_ms() + delay_ms if delay_ms else 0,
                slot=self.chance.choice(SLOTS),
            )
        self.sent = self.producer.next_sequence_id

    def pick(self) -> CheckingConsumer | None:
        """Choose a connected consumer."""
        everybody = [each for model in self.models for each in model.consumers]
        return self.chance.choice(everybody) if everybody else None

    async def do_flow(self) -> None:
        """Grant permits."""
        if consumer := self.pick():
            consumer.grant(self.chance.randint(1, 40))

    async def do_ack(self) -> None:
        """Ack whole entries, with or without a receipt."""
        consumer = self.pick()
        if consumer is not None and consumer.held:
            some = self.chance.sample(sorted(consumer.held), self.chance.randint(1, len(consumer.held)))
            consumer.acknowledge(some, None, receipt=self.chance.random() < 0.5)

    async def do_partly(self) -> None:
        """Ack some members of a batch."""
        consumer = self.pick()
        if consumer is not None:
            batches = [each for each, delivery in consumer.held.items() if delivery.entry.messages > 1]
            if batches:
                remaining = self.chance.randint(1, 31)
                consumer.acknowledge([self.chance.choice(batches)], remaining, receipt=True)

    async def do_nack(self) -> None:
        """Ask for one entry again, or for all."""
        consumer = self.pick()
        if consumer is not None and consumer.held:
            one = [self.chance.choice(sorted(consumer.held))]
            consumer.give_back(None if self.chance.random() < 0.3 else one)

    async def do_leave(self) -> None:
        """End a connection."""
        if consumer := self.pick():
            consumer.leave()

    async def do_join(self) -> None:
        """Attach a consumer: up to three on a subscription, one on Exclusive. Unused subscriptions come first."""
        model = min(self.models, key=lambda each: (len(each.consumers), self.chance.random()))
        if len(model.consumers) < (1 if model.type is SubscriptionType.EXCLUSIVE else 3):
            await self.join(model)

    async def do_cut(self) -> None:
        """Cut connections to PostgreSQL."""
        self.run.proxy.cut(self.chance.choice(("", "writer", "flusher", "work", "lock")))

    async def do_lose(self) -> None:
        """Lose or delay the next statement of a random kind."""
        moment = self.chance.choice(LOSSES)
        trap = self.run.proxy.trap(self.chance.choice(STATEMENTS), moment)
        if moment is Moment.LATE_REQUEST:
            asyncio.get_running_loop().call_later(self.chance.random() * 0.5, trap.release)

    async def do_crash(self) -> None:
        """Crash the broker as with kill -9, and start the next one."""
        self.collect()
        await self.run.crash()
        for model in self.models:
            for consumer in model.consumers:
                consumer.is_gone = True
            model.consumers.clear()
        self.check_mark_delete()
        await self.begin()

    async def do_breathe(self) -> None:
        """Let the event loop run for a while."""
        await asyncio.sleep(self.chance.choice((0, 0, 0.001, 0.02)))

    def check_mark_delete(self) -> None:
        """Check that mark-delete never moves back."""
        for name, *position in rows(
            self.url,
            "SELECT s.name, c.mark_delete_ledger, c.mark_delete_entry"
            " FROM vela_cursor c JOIN vela_subscription s ON s.id = c.subscription_id",
        ):
            now = (int(position[0]), int(position[1]))
            assert self.mark_deletes.get(name, (-1, -1)) <= now
            self.mark_deletes[name] = now

    async def drain(self) -> None:
        """Start a last broker, undisturbed, and check that everything unacked arrives and can be acked."""
        await self.do_crash()
        stored = {
            (ledger, entry): payload_of(data)
            for ledger, entry, data in rows(self.url, "SELECT ledger_id, entry_id, data FROM vela_entry")
        }
        assert len(set(stored.values())) == len(stored), "an entry was stored twice"
        for data, position in self.receipts.items():
            assert stored.get(position) == data, f"{position} had a receipt and is not there"
        for model in self.models:
            subscription = self.run.subscription(subscription=model.name)
            assert await recount(subscription) == subscription.cursor.totals
            while subscription.cursor.backlog_messages:
                if not model.consumers:
                    await self.join(model)
                consumer = model.consumers[0]
                consumer.grant(500)
                await eventually(partial(has_something, consumer, subscription), f"the rest of {model.name}")
                if consumer.held:
                    consumer.acknowledge(sorted(consumer.held), None, receipt=True)
            assert {tuple(position) for position in model.seen} == set(stored), f"{model.name} missed entries"
        await self.run.flushed()
        total = one_row(self.url, "SELECT coalesce(max(cumulative_messages), 0) FROM vela_entry")[0]
        assert rows(self.url, "SELECT DISTINCT acked_messages FROM vela_cursor") == [(total,)]
        self.check_mark_delete()


async def recount(subscription: Subscription) -> object:
    """Return the totals of a subscription's cursor, counted from its bitmaps alone."""
    found: list[object] = []
    await subscription.moves.with_index(lambda: found.append(subscription.cursor.recount()))
    return found[-1]


def has_something(consumer: CheckingConsumer, subscription: Subscription) -> bool:
    """Return whether a drain can continue."""
    return bool(consumer.held or consumer.closed or not subscription.cursor.backlog_messages)


# A crash leaves sockets half-open. Here the garbage collector closes them, which pytest would report as an error.
@pytest.mark.row("I1", "I3", "I9", "I11", "I12")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("seed", range(SOAK_SEEDS or 5))
async def test_random_clients_lost_connections_and_crashes_break_no_promise(
    broker_url: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Appends of at least COPY_BYTES use COPY. 300 bytes are about six of these entries, so both kinds of append occur.
    # Every second seed tests copying ahead. Its run has no delayed messages, because they cannot be copied, and its
    # statements are small, so that sends have to wait for the next one.
    copies_ahead = seed % 2 == 1
    monkeypatch.setattr(entries, "COPY_BYTES", 100 if copies_ahead else 300)
    if copies_ahead:
        small = topic_limit.Size(3, 1 << 20)
        for module in (topic_limit, writer):
            monkeypatch.setattr(module, "STATEMENT", small)
    world = World(broker_url, random.Random(seed), has_delays=not copies_ahead)
    await world.begin()
    try:
        for _ in range(STEPS):
            await world.step()
            assert [each for model in world.models for each in model.violations] == []
        await world.drain()
        assert [each for model in world.models for each in model.violations] == []
        assert world.sent
    finally:
        await world.run.crash()
        del world
        gc.collect()
