"""How long data is kept, and that counts and cursors stay right whatever happens."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.errors import PersistenceFailed
from broker.core.ledgers.message_index import IndexMissing
from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType
from broker.storage import queries
from broker.storage.cursors import cursors
from broker.storage.log import entries
from broker.storage.topics import life
from broker.subscription.expiry import expire
from broker.topics.topic import Topic
from broker.upkeep.disuse import Disuse
from tests.support.broker_harness import ManualClock
from tests.support.memory_broker import MemoryRun, memory_broker
from tests.support.memory_storage import MemoryStorage

EXCLUSIVE, SHARED = SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED
ENTRIES = 3  # in a full ledger
KEEPS_NOTHING: dict[str, Any] = {
    "ledger_max_entries": ENTRIES,
    "default_retention_ms": 0,
    "default_retention_bytes": 0,
}


@pytest.mark.row("S0.47")
async def test_a_subscription_begins_with_new_messages_or_the_first_stored_one() -> None:
    async with memory_broker(**KEEPS_NOTHING) as run:
        producer = await run.producer()
        positions = [await producer.publish(ENTRIES) for _ in range(3)]
        late = await run.consumer(subscription="late", permits=100, earliest=False)
        early = await run.consumer(subscription="early", permits=100)
        await early.has(3 * ENTRIES)
        assert late.deliveries == []
        assert early.positions == list(chain(*positions))
        early.ack(*early.positions)
        await run.flushed()
        await run.broker.trimmer.trim(run.topic())
        after = await run.consumer(subscription="after the trim", permits=100)
        fresh = await producer.publish(1)
        await late.has(1)
        await after.has(ENTRIES + 1)
        assert late.positions == fresh
        assert after.positions == positions[2] + fresh


@pytest.mark.row("S0.48")
async def test_a_cumulative_ack_moves_mark_delete_and_single_acks_do_once_they_adjoin_it() -> None:
    async with memory_broker() as run:
        first, second, third, fourth, fifth = await (await run.producer()).publish(5)
        shared = await run.consumer(subscription="shared", type_=SHARED, permits=10)
        ordered = await run.consumer(subscription="ordered", type_=EXCLUSIVE, permits=10)
        await shared.has(5)
        await ordered.has(5)
        cursor = run.subscription(subscription="shared").cursor
        before = cursor.mark_delete
        shared.ack(third)
        shared.ack(second)
        assert cursor.mark_delete == before
        assert list(cursor.individually_acked()) == [(second.ledger_id, second.entry_id, third.entry_id)]
        shared.ack(first)
        assert cursor.mark_delete == third
        assert not list(cursor.individually_acked())
        ordered.ack(fourth, cumulative=True)
        assert run.subscription(subscription="ordered").cursor.mark_delete == fourth
        assert run.subscription(subscription="ordered").cursor.backlog_messages == 1
        assert cursor.backlog_messages == 2
        shared.ack(fourth, fifth)
        assert cursor.mark_delete == fifth


@pytest.mark.row("S0.49")
async def test_fully_acked_ledgers_are_deleted_and_readable_until_then() -> None:
    async with memory_broker(**KEEPS_NOTHING) as run:
        producer = await run.producer()
        positions = [await producer.publish(ENTRIES) for _ in range(3)]
        other = await run.consumer(subscription="other", permits=100)
        consumer = await run.consumer(type_=EXCLUSIVE, permits=100)
        for each in (other, consumer):
            await each.has(3 * ENTRIES)
        consumer.ack(positions[2][-1], cumulative=True)
        other.ack(*positions[0])
        await run.flushed()
        for kept in (3, 2):
            assert consumer.consumer is not None
            await consumer.consumer.seek_position(positions[0][0], None)
            consumer = await run.consumer(type_=EXCLUSIVE, permits=100)
            await consumer.has(kept * ENTRIES)
            assert consumer.positions == list(chain(*positions[3 - kept :]))
            consumer.ack(positions[2][-1], cumulative=True)
            await run.flushed()
            await run.broker.trimmer.trim(run.topic())


@pytest.mark.row("I19")
async def test_young_and_needed_ledgers_and_those_with_unstored_acks_stay() -> None:
    storage, clock = MemoryStorage(), ManualClock()
    settings = {**KEEPS_NOTHING, "default_retention_ms": 1000, "default_retention_bytes": -1}
    async with memory_broker(storage, clock=clock, flushes=False, **settings) as run:
        producer = await run.producer()
        positions = [await producer.publish(ENTRIES) for _ in range(4)]
        consumer = await run.consumer(permits=100)
        await consumer.has(4 * ENTRIES)
        clock.advance(1000)
        consumer.ack(*chain(*positions))
        assert await run.broker.trimmer.trim(run.topic()) == 0, "as old as retention keeps"
        clock.advance(1)
        assert await run.broker.trimmer.trim(run.topic()) == 0, "a crash would bring the cursor back"
        await run.flushed()
        storage.holds = [positions[1][0]]
        storage.bookmarks = [positions[2][0]]
        assert await run.broker.trimmer.trim(run.topic()) > 0
        assert {position.ledger_id for position in storage.entries} == {
            ledger[0].ledger_id for ledger in positions[1:]
        }
        storage.holds = []
        await run.broker.trimmer.trim(run.topic())
        assert run.topic().log.ledgers.first_position() == positions[2][0], "bookmarked"


@dataclass(slots=True)
class Published:
    """An entry, as the model remembers it."""

    position: Position
    messages: int
    append_ms: int


@dataclass(slots=True)
class World:
    """The model with which the broker's state must agree."""

    log: list[Published] = field(default_factory=list)
    acked: dict[str, set[int]] = field(default_factory=dict)  # by subscription: indexes into `log`
    stored: dict[str, set[int]] = field(default_factory=dict)  # the acks that would survive a crash
    gone: int = 0  # how many entries were trimmed from the beginning of the log
    segment: int = 1

    def backlog(self, name: str) -> int:
        return sum(each.messages for at, each in enumerate(self.log) if at not in self.acked[name])


RETENTION_MS = 50
WHO = st.sampled_from(["a", "b", "c"])
AT = st.integers(0, 40)
STEP = st.one_of(
    st.tuples(st.just("publish"), st.integers(1, 4), st.integers(1, 3)),
    st.tuples(st.just("ack"), WHO, AT),
    st.tuples(st.just("ack"), WHO, AT),
    st.tuples(st.just("ack_through"), WHO, AT),
    st.tuples(st.just("seek"), WHO, AT),
    st.tuples(st.just("expire"), WHO, st.integers(0, 100)),
    st.tuples(st.just("wait"), st.integers(1, 60), st.just(0)),
    st.tuples(
        st.sampled_from(["flush", "trim", "trim", "segment", "forget", "crash"]), st.just(0), st.just(0)
    ),
)


@pytest.mark.row("I5", "I19")
@settings(max_examples=120, deadline=None)
@given(steps=st.lists(STEP, min_size=5, max_size=40))
@pytest.mark.parametrize("time_ms", [0, RETENTION_MS])
def test_counts_stay_exact_and_needed_data_stays_in_every_order_of_events(
    time_ms: int, steps: list[tuple[str, int | str, int]]
) -> None:
    asyncio.run(_live(time_ms, steps))


async def _live(time_ms: int, steps: list[tuple[str, int | str, int]]) -> None:
    world, storage, clock = World(), MemoryStorage(), ManualClock()
    at = 0
    while at < len(steps):
        async with memory_broker(
            storage,
            clock=clock,
            flushes=False,
            ledger_max_entries=ENTRIES,
            default_retention_ms=time_ms,
            default_retention_bytes=-1,
        ) as run:
            run.broker.segments.open_id = world.segment
            world.acked = {name: set(acked) for name, acked in world.stored.items()}
            await run.producer()
            while at < len(steps):
                kind, first, second = steps[at]
                at += 1
                if kind == "crash":
                    break
                await _step(run, world, kind, first, second, time_ms)
                await _agrees(run, world)


async def _step(run: MemoryRun, world: World, kind: str, first: int | str, second: int, time_ms: int) -> None:
    topic, clock = run.topic(), run.clock
    if kind == "publish":
        producer = next(iter(topic.producers.values())).sink
        now_ms = clock.now_ms()
        for position in await producer.publish(int(first), messages=second):  # type: ignore[attr-defined]
            world.log.append(Published(position, second, now_ms))
    elif kind == "wait":
        clock.advance(int(first))  # type: ignore[attr-defined]
    elif kind == "flush":
        await run.flushed()
        world.stored = {name: set(acked) for name, acked in world.acked.items()}
    elif kind == "forget":
        topic.log.index.evict(topic.log.ledgers.last_position(), 0)
    elif kind == "segment":
        world.segment += 1
        run.broker.segments.open_id = world.segment
        await run.broker.lifetime.look_at(topic)
        _trimmed(run, world, time_ms)
    elif kind == "trim":
        await run.broker.trimmer.trim(topic)
        _trimmed(run, world, time_ms)
    else:
        await _move(run, world, kind, str(first), second)


async def _move(run: MemoryRun, world: World, kind: str, name: str, at: int) -> None:
    topic = run.topic()
    if name not in topic.subscriptions:
        await run.consumer(subscription=name, type_=SHARED)
        world.acked[name] = set(range(world.gone))
        world.stored[name] = set(range(world.gone))
    subscription = topic.subscriptions[name]
    cursor, acked = subscription.cursor, world.acked[name]
    if kind == "expire":
        await expire(subscription, at)
        acked |= {n for n, each in enumerate(world.log) if each.append_ms < run.clock.now_ms() - at}
        return
    if not world.log:
        return
    at = min(at, len(world.log) - 1)
    position = world.log[at].position
    if kind == "seek":
        seeker = await run.consumer(subscription=name, type_=SHARED)
        assert seeker.consumer is not None
        await seeker.consumer.seek_position(position, None)
        world.acked[name] = set(range(max(at, world.gone)))
        world.stored[name] = set(world.acked[name])
        return

    def ack() -> None:
        if kind == "ack":
            cursor.ack(position)
        elif at >= world.gone:
            cursor.ack_through(position)

    await subscription.moves.with_index(ack)
    run.broker.flusher.mark(subscription)
    if kind == "ack":
        acked.add(at)
    elif at >= world.gone:
        acked |= set(range(at + 1))


def _trimmed(run: MemoryRun, world: World, time_ms: int) -> None:
    """Check that each trimmed entry was durably acked by every subscription, and that its retention time was over."""
    ledgers = run.topic().log.ledgers
    before, world.gone = world.gone, sum(not ledgers.contains(each.position) for each in world.log)
    assert all(not ledgers.contains(each.position) for each in world.log[: world.gone]), "from the oldest on"
    for at in range(before, world.gone):
        assert run.clock.now_ms() - world.log[at].append_ms > time_ms
        for name in world.acked:
            assert at in world.acked[name]
            assert at in world.stored[name]


async def _agrees(run: MemoryRun, world: World) -> None:
    topic = run.topic()
    assert topic.log.ledgers.total_messages == sum(each.messages for each in world.log)
    assert topic.subscriptions.keys() == world.acked.keys()
    for name, subscription in topic.subscriptions.items():
        assert subscription.cursor.backlog_messages == world.backlog(name), name
        while True:
            try:
                assert subscription.cursor.recount() == subscription.cursor.totals
                break
            except IndexMissing as missing:
                await topic.reader.load_index(missing.ranges)


def test_nothing_is_kept_of_segments_that_were_dropped() -> None:
    """A broker that stores 20 MB a second opens 1,700 segments a day."""
    for segment_id in range(3000):
        queries.for_segment("read", segment_id)
        entries._statement(segment_id, ("append",))
    assert queries.for_segment.cache_info().currsize < 2000
    assert entries._statement.cache_info().currsize < 2000


async def test_a_topic_that_could_not_be_loaded_is_closed() -> None:
    """Otherwise its delayed messages would stay in memory until they are due, once for each client that tried."""
    storage = MemoryStorage()
    loaded: list[Topic] = []

    async def unreadable(topic: Topic) -> None:
        loaded.append(topic)
        raise PersistenceFailed("the file of a ledger cannot be read")

    async with memory_broker(storage) as run:
        await (await run.producer()).publish(1)
    storage.policies = {"deduplication": True}
    async with memory_broker(storage) as run:
        with patch.object(run.broker.deduplication, "load", unreadable), pytest.raises(PersistenceFailed):
            await run.producer()
        (topic,) = loaded
        assert not topic.is_open
        assert not run.broker.topics.loaded
        await (await run.producer()).publish(1)


async def test_a_quota_forgets_subscriptions_that_were_deleted() -> None:
    storage, clock = MemoryStorage(), ManualClock()
    storage.policies = {"backlog_quota_ms": 1000}
    async with memory_broker(storage, clock=clock) as run:
        await (await run.producer()).publish(1)
        for name in ("a", "b", "c"):
            await run.consumer(subscription=name)
        clock.advance(5000)
        quota = run.topic().quota
        await quota.check()
        assert sorted(quota._oldest) == ["a", "b", "c"]
        for name in ("a", "c"):
            await run.subscription(subscription=name).moves.remove("an operator deleted it")
        await quota.check()
        assert list(quota._oldest) == ["b"]


async def test_an_inactive_topic_that_gets_a_message_while_its_deletion_begins_stays() -> None:
    storage, clock = MemoryStorage(), ManualClock()
    storage.policies = {
        "delete_inactive_topics": True,
        "inactive_topic_ms": 1000,
        "inactive_topic_mode": "delete_when_subscriptions_caught_up",
    }
    async with memory_broker(storage, clock=clock) as run:
        consumer = await run.consumer()
        assert consumer.consumer is not None
        consumer.consumer.detach()
        clock.advance(5000)
        topic, asked = run.topic(), 0

        async def members(_: object, name: str) -> dict[int, str]:
            nonlocal asked
            asked += 1
            if asked == 2:  # the deletion has begun
                producer = await run.producer()
                await producer.publish(1)
                assert producer.producer is not None
                producer.producer.detach()
            return {topic.topic_id: name}

        disuse = Disuse(
            run.broker.topics, run.broker.endings, pool=run.broker.pool, clock=clock, defaults=topic.policies
        )
        with patch.object(life, "members", members), patch.object(life, "delete") as delete:
            assert not await disuse.delete_if_inactive(topic)
        assert asked == 2
        delete.assert_not_called()
        await (await run.consumer(permits=1)).has(1)


async def test_an_expired_subscription_that_is_used_while_others_are_removed_stays() -> None:
    storage, clock = MemoryStorage(), ManualClock()
    storage.policies = {"subscription_expiry_ms": 1000}
    async with memory_broker(storage, clock=clock) as run:
        for name in ("a", "b"):
            consumer = await run.consumer(subscription=name)
            assert consumer.consumer is not None
            consumer.consumer.detach()
        clock.advance(5000)
        topic = run.topic()

        async def delete(*_: object, **named: Any) -> bool:
            if "a" in topic.subscriptions:
                consumer = await run.consumer(subscription="b")
                assert consumer.consumer is not None
                consumer.consumer.detach()
            return await storage._delete_subscription(None, **named)

        disuse = Disuse(
            run.broker.topics, run.broker.endings, pool=run.broker.pool, clock=clock, defaults=topic.policies
        )
        with patch.object(cursors, "delete_subscription", delete):
            await disuse.expire_subscriptions(topic)
        assert list(topic.subscriptions) == ["b"]
