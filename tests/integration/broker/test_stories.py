"""Delivery stories of real consumers: the rows that the broker stores about redelivered messages."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from broker.core.subscription.story_rows import StoryEvent
from broker.core.subscription.types import SubscriptionType
from broker.process.reports import reporter
from broker.storage.history import stories as store
from broker.subscription.expiry import expire
from broker.upkeep.tasks import history
from broker.upkeep.tasks.schedule import beat_schedule
from tests.support.acting import done
from tests.support.broker_harness import (
    START_MS,
    BrokerRun,
    ConsumerProbe,
    ManualClock,
    new_run,
    rows,
    running,
)
from tests.support.policies import set_policies
from tests.support.postgres_proxy import Moment

EXCLUSIVE, SHARED = SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED
STORED = """
    SELECT r.event, r.consumer_name, r.first_entry, r.last_entry, r.at_ms - %s, r.redelivery_count
    FROM vela_delivery_story r JOIN vela_subscription s ON s.id = r.subscription_id WHERE s.name = 's' ORDER BY r.id"""
HOUR_MS = 3_600_000

Row = tuple[StoryEvent, str, int, int, int, int]


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still until a test moves it."""
    return ManualClock(START_MS)


@pytest.fixture
async def run(
    broker_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[BrokerRun]:
    """A broker that stores rows when the test says so."""
    monkeypatch.setattr(reporter, "INTERVAL_S", 3600.0)
    async with running(broker_url, clock=clock, wheel_enabled=False) as started:
        yield started


async def stored(run: BrokerRun) -> list[Row]:
    """Return every row of the subscription s: event, consumer, first and last entry, ms since the start, count."""
    await run.broker.reporter.stories.write()
    return [(StoryEvent(event), *rest) for event, *rest in rows(run.database_url, STORED, START_MS)]


async def delivered(
    run: BrokerRun, count: int, type_: SubscriptionType = SHARED, ack_timeout_ms: int = 0
) -> ConsumerProbe:
    """Return a consumer c that has this many messages."""
    producer = await run.producer()
    probe = await run.consumer(name="c", type_=type_, permits=100, ack_timeout_ms=ack_timeout_ms)
    await producer.publish(count)
    await probe.has(count)
    return probe


@pytest.mark.parametrize("type_", [EXCLUSIVE, SHARED])
async def test_a_message_that_its_consumer_asks_for_again_has_a_row_for_each_step(
    run: BrokerRun, clock: ManualClock, type_: SubscriptionType
) -> None:
    probe = await delivered(run, 3, type_)
    clock.advance(10)
    probe.ack(probe.positions[0])
    assert probe.consumer is not None
    probe.consumer.redeliver(probe.positions[1:3])
    await probe.has(5)
    clock.advance(10)
    probe.ack(*probe.positions[1:3])
    count = 1 if type_ is SHARED else 0
    assert await stored(run) == [
        (StoryEvent.DELIVERED, "c", 1, 2, 0, 0),
        (StoryEvent.ASKED_AGAIN, "c", 1, 2, 10, 0),
        (StoryEvent.DELIVERED, "c", 1, 2, 10, count),
        (StoryEvent.ACKED, "c", 1, 2, 20, 0),
    ]
    (address,) = rows(run.database_url, "SELECT DISTINCT consumer_address FROM vela_delivery_story")
    assert address == (probe.consumer.identity.address,)


@pytest.mark.parametrize("type_", [EXCLUSIVE, SHARED])
async def test_an_ack_timeout_and_a_negative_ack_each_have_a_row(
    run: BrokerRun, clock: ManualClock, type_: SubscriptionType
) -> None:
    probe = await delivered(run, 1, type_, ack_timeout_ms=1000)
    clock.advance(1100)
    run.broker.deadlines.run_due()
    await probe.has(2)
    assert probe.consumer is not None
    probe.consumer.redeliver_at(probe.positions[:1], clock.now_ms() + 200)
    clock.advance(300)
    run.broker.deadlines.run_due()
    await probe.has(3)
    assert [row[0] for row in await stored(run)] == [
        StoryEvent.DELIVERED,
        StoryEvent.TIMED_OUT,
        StoryEvent.DELIVERED,
        StoryEvent.NEGATIVELY_ACKED,
        StoryEvent.DELIVERED,
    ]


@pytest.mark.parametrize("type_", [EXCLUSIVE, SHARED])
async def test_the_messages_of_a_consumer_that_leaves_have_rows(
    run: BrokerRun, clock: ManualClock, type_: SubscriptionType
) -> None:
    probe = await delivered(run, 2, type_)
    clock.advance(10)
    assert probe.consumer is not None
    probe.consumer.detach()
    other = await run.consumer(name="other", type_=type_, permits=100)
    await other.has(2)
    other.ack(*other.positions)
    assert await stored(run) == [
        (StoryEvent.DELIVERED, "c", 0, 1, 0, 0),
        (StoryEvent.CONSUMER_LEFT, "c", 0, 1, 10, 0),
        (StoryEvent.DELIVERED, "other", 0, 1, 10, 0),
        (StoryEvent.ACKED, "other", 0, 1, 10, 0),
    ]


async def test_a_message_that_an_operator_takes_back_has_a_row(run: BrokerRun) -> None:
    probe = await delivered(run, 1)
    await done(run, "redeliver", {"consumer": "c"})
    await probe.has(2)
    assert [row[0] for row in await stored(run)] == [
        StoryEvent.DELIVERED,
        StoryEvent.TAKEN_BACK,
        StoryEvent.DELIVERED,
    ]


async def test_expired_messages_have_rows(run: BrokerRun, clock: ManualClock) -> None:
    probe = await delivered(run, 5)
    probe.ack(probe.positions[2])
    clock.advance(5000)
    assert await expire(run.subscription(), 1000) == 4
    assert [row[:4] for row in await stored(run)] == [
        (StoryEvent.EXPIRED, "", 0, 1),
        (StoryEvent.EXPIRED, "", 3, 4),
    ]


async def test_a_change_of_the_policy_is_in_force_at_once(run: BrokerRun) -> None:
    probe = await delivered(run, 1)
    await set_policies(run, delivery_story="all", delivery_story_ms=HOUR_MS)
    probe.ack(*probe.positions)
    producer = await run.producer()
    await producer.publish(1)
    await probe.has(2)
    await set_policies(run, delivery_story="off")
    probe.ack(*probe.positions)
    assert [row[:3] for row in await stored(run)] == [
        (StoryEvent.ACKED, "c", 0),
        (StoryEvent.DELIVERED, "c", 1),
    ]
    assert rows(run.database_url, "SELECT DISTINCT expires_ms - until_ms FROM vela_delivery_story") == [
        (HOUR_MS,)
    ]


@pytest.mark.parametrize("moment", [Moment.LOSE_REQUEST, Moment.LOSE_ANSWER])
async def test_rows_whose_answer_is_lost_are_stored_once(run: BrokerRun, moment: Moment) -> None:
    probe = await delivered(run, 3)
    assert probe.consumer is not None
    probe.consumer.redeliver(None)
    await probe.has(6)
    trap = run.proxy.trap("INSERT INTO vela_delivery_story", moment, connection="reporter")
    with pytest.raises(psycopg.OperationalError):
        await run.broker.reporter.stories.write()
    assert trap.caught.is_set()
    probe.ack(probe.positions[0])
    await run.broker.reporter.stories.write()
    assert [row[0] for row in await stored(run)] == [
        StoryEvent.DELIVERED,
        StoryEvent.ASKED_AGAIN,
        StoryEvent.DELIVERED,
        StoryEvent.ACKED,
    ]


async def test_rows_that_were_stored_survive_a_crash(
    broker_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "INTERVAL_S", 3600.0)
    first = await new_run(broker_url, clock=clock)
    await first.start()
    probe = await delivered(first, 1)
    assert probe.consumer is not None
    probe.consumer.redeliver(None)
    before = await stored(first)
    probe.consumer.redeliver(None)
    await first.crash()
    async with running(broker_url, clock=clock) as second:
        other = await second.consumer(name="other", permits=10)
        await other.has(1)
        assert len(before) == 3
        assert await stored(second) == before


async def test_a_stop_stores_the_rows_that_wait(
    broker_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "INTERVAL_S", 3600.0)
    first = await new_run(broker_url, clock=clock)
    await first.start()
    await delivered(first, 1)
    await first.stop()
    events = [StoryEvent(event) for (event, *_) in rows(broker_url, STORED, START_MS)]
    assert events == [StoryEvent.DELIVERED, StoryEvent.CONSUMER_LEFT]


async def test_old_rows_and_those_beyond_the_limit_are_removed(
    run: BrokerRun, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.storage.short_connection.conninfo", lambda: run.database_url)
    probe = await delivered(run, 1)
    await set_policies(run, delivery_story_ms=HOUR_MS)
    assert probe.consumer is not None
    for number in range(2, 5):
        clock.advance(1000)
        probe.consumer.redeliver(None)
        await probe.has(number)
    assert len(await stored(run)) == 7  # the first delivery, then a return and a delivery each time
    assert store.expire(START_MS + HOUR_MS - 1, most_rows=10, budget_s=5) == 0
    assert store.expire(START_MS + HOUR_MS, most_rows=10, budget_s=5) == 1
    monkeypatch.setattr(store, "_EXPIRED_AT_ONCE", 2)
    assert store.expire(START_MS + HOUR_MS, most_rows=1, budget_s=5) == 5
    assert [row[0] for row in await stored(run)] == [StoryEvent.DELIVERED]
    assert history.expire_stories.name in {each["task"] for each in beat_schedule().values()}
    history.expire_stories()
    assert await stored(run) == []  # by the real clock, the last row is old too
