"""The state of a subscription, which the broker derives from real traffic and stores for the console's lists."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from broker.core.subscription.standing import SubscriptionState
from broker.core.topic_name import TopicName
from broker.process.reports import reporter
from broker.subscription.subscription import Subscription
from tests.support.acting import done
from tests.support.broker_harness import (
    BrokerRun,
    ManualClock,
    ProducerProbe,
    eventually,
    one_row,
    rows,
    running,
)

OF_SUBSCRIPTION = """
    SELECT y.state, y.state_since_ms, y.drain_s FROM vela_subscription_summary y
    JOIN vela_subscription s ON s.id = y.subscription_id WHERE s.name = %s"""
OF_TOPIC = """
    SELECT y.state, y.state_since_ms FROM vela_topic_summary y
    JOIN vela_topic t ON t.id = y.topic_id WHERE t.name = %s"""
T = TopicName.parse("t")


@pytest.fixture
def clock() -> ManualClock:
    """The broker's time."""
    return ManualClock()


@pytest.fixture
async def run(
    broker_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[BrokerRun]:
    """A broker that reports when the test says so."""
    monkeypatch.setattr(reporter, "INTERVAL_S", 3600.0)
    async with running(broker_url, clock=clock) as started:
        yield started


async def pass_time(run: BrokerRun, clock: ManualClock, seconds: int) -> list[SubscriptionState]:
    """Report each second, and return the stored states of `s`, one for each change."""
    seen: list[SubscriptionState] = []
    for _ in range(seconds):
        clock.advance(1000)
        await run.broker.reporter._report()
        state = state_of(run, "s")
        if seen[-1:] != [state]:
            seen.append(state)
    return seen


def state_of(run: BrokerRun, name: str) -> SubscriptionState:
    """Return the stored state of a subscription."""
    return SubscriptionState(one_row(run.database_url, OF_SUBSCRIPTION, name)[0])


def worst(run: BrokerRun) -> SubscriptionState:
    """Return the stored state of the topic."""
    return SubscriptionState(one_row(run.database_url, OF_TOPIC, T.full)[0])


async def steadily(
    run: BrokerRun, clock: ManualClock, producer: ProducerProbe, seconds: int
) -> list[SubscriptionState]:
    """Publish two messages each second, and return the states that `s` has meanwhile."""
    seen: list[SubscriptionState] = []
    for _ in range(seconds):
        await producer.publish(2)
        for state in await pass_time(run, clock, 1):
            if seen[-1:] != [state]:
                seen.append(state)
    return seen


async def test_a_steady_flow_keeps_one_state_and_a_stopped_consumer_makes_it_stuck(
    run: BrokerRun, clock: ManualClock
) -> None:
    consumer = await run.consumer(permits=1000, acks=True)
    producer = await run.producer()
    assert await steadily(run, clock, producer, 34) == [
        SubscriptionState.WATCHING,
        SubscriptionState.KEEPING_UP,
    ]
    _, since_ms, _ = one_row(run.database_url, OF_SUBSCRIPTION, "s")
    assert await steadily(run, clock, producer, 60) == [SubscriptionState.KEEPING_UP]
    assert one_row(run.database_url, OF_SUBSCRIPTION, "s") == (SubscriptionState.KEEPING_UP, since_ms, None)
    assert worst(run) is SubscriptionState.KEEPING_UP

    consumer.acks = False
    assert (await steadily(run, clock, producer, 35))[-1] is SubscriptionState.STUCK
    assert worst(run) is SubscriptionState.STUCK
    assert await pass_time(run, clock, 100) == [SubscriptionState.STUCK]
    _, since_ms, _ = one_row(run.database_url, OF_SUBSCRIPTION, "s")
    assert one_row(run.database_url, OF_TOPIC, T.full) == (SubscriptionState.STUCK, since_ms)

    consumer.ack(*consumer.positions[-40:])
    assert await pass_time(run, clock, 1) == [SubscriptionState.WATCHING]


async def test_time_alone_makes_a_subscription_stuck_and_then_ends_the_checks(
    run: BrokerRun, clock: ManualClock
) -> None:
    producer = await run.producer()
    consumer = await run.consumer()
    assert consumer.consumer is not None
    consumer.consumer.detach()
    await producer.publish(3)
    assert await pass_time(run, clock, 29) == [SubscriptionState.WATCHING]
    assert await pass_time(run, clock, 3) == [SubscriptionState.WATCHING, SubscriptionState.STUCK]
    assert not run.broker.reporter.standings._look_at_ms
    before = rows(run.database_url, "SELECT xmin::text FROM vela_subscription_summary")
    await pass_time(run, clock, 5)
    assert rows(run.database_url, "SELECT xmin::text FROM vela_subscription_summary") == before


async def test_an_idle_subscription_costs_nothing(run: BrokerRun, clock: ManualClock) -> None:
    await run.consumer(permits=10)
    assert await pass_time(run, clock, 40) == [SubscriptionState.WATCHING, SubscriptionState.IDLE]
    standings = run.broker.reporter.standings
    assert not standings._look_at_ms
    assert list(standings._known.values()) == [None]


async def test_delayed_messages_count_only_when_they_are_due(run: BrokerRun, clock: ManualClock) -> None:
    producer = await run.producer()
    consumer = await run.consumer()
    assert consumer.consumer is not None
    consumer.consumer.detach()
    producer.send(deliver_at_ms=clock.now_ms() + 400_000)
    await producer.has_receipts(1)
    assert await pass_time(run, clock, 200) == [SubscriptionState.WATCHING, SubscriptionState.IDLE]
    looks = run.broker.reporter.standings._look_at_ms
    assert list(looks.values()) > [clock.now_ms() + 1000]
    clock.advance(200_000)
    run.topic().delayed.run_due(clock.now_ms())
    assert await pass_time(run, clock, 35) == [SubscriptionState.IDLE, SubscriptionState.STUCK]


async def test_a_changing_topic_without_consumers_is_checked_every_few_seconds(
    run: BrokerRun, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = await run.consumer()
    assert consumer.consumer is not None
    consumer.consumer.detach()
    producer = await run.producer()
    assert (await steadily(run, clock, producer, 40))[-1] is SubscriptionState.STUCK
    standings = run.broker.reporter.standings
    looks = 0
    judge = standings._is_news

    def counted(each: Subscription, now_ms: int) -> bool:
        nonlocal looks
        looks += 1
        return judge(each, now_ms)

    monkeypatch.setattr(standings, "_is_news", counted)
    assert await steadily(run, clock, producer, 20) == [SubscriptionState.STUCK]
    assert 2 <= looks <= 4


async def test_a_delayed_backlog_is_searched_for_ready_messages_once_while_nothing_happens(
    run: BrokerRun, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run.consumer()
    producer = await run.producer()
    producer.send(deliver_at_ms=clock.now_ms() + 400_000)
    await producer.has_receipts(1)
    subscription, delayed = run.subscription(), run.topic().delayed
    assert subscription.waiting_messages == 0
    with monkeypatch.context() as patch:
        patch.setattr(type(delayed), "next_ready", None)
        assert subscription.waiting_messages == 0
    clock.advance(400_000)
    delayed.run_due(clock.now_ms())
    assert subscription.waiting_messages == 1


async def test_pause_and_resume_show_at_once(run: BrokerRun, clock: ManualClock) -> None:
    await run.consumer(permits=10)
    await pass_time(run, clock, 1)
    await done(run, "pause")
    assert await pass_time(run, clock, 1) == [SubscriptionState.PAUSED]
    await done(run, "resume")
    assert await pass_time(run, clock, 1) == [SubscriptionState.WATCHING]


async def test_a_topic_shows_the_worst_state_of_its_subscriptions_and_forgets_deleted_ones(
    run: BrokerRun, clock: ManualClock
) -> None:
    await run.consumer(permits=1000, acks=True)
    await run.consumer(subscription="lost")
    producer = await run.producer()
    await steadily(run, clock, producer, 40)
    assert state_of(run, "lost") is SubscriptionState.STUCK
    assert worst(run) is SubscriptionState.STUCK
    await done(run, "delete_subscription", {"force": True}, subscription="lost")
    await pass_time(run, clock, 1)
    assert worst(run) is SubscriptionState.KEEPING_UP


async def test_subscriptions_of_an_earlier_broker_are_judged_without_a_client(
    broker_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "INTERVAL_S", 3600.0)
    monkeypatch.setattr(reporter, "_JUDGED_AT_ONCE", 1)
    async with running(broker_url, clock=clock) as run:
        for name in ("waits", "acked"):
            producer = await run.producer(name)
            await run.consumer(name, subscription=name, permits=100, acks=name == "acked")
            await producer.publish(2)
        await run.consumer("back", subscription="back", permits=100)
        await run.broker.reporter._report()
    clock.advance(5000)
    async with running(broker_url, clock=clock) as run:
        await run.consumer("back", subscription="back", permits=100)
        clock.advance(59_000)
        await run.broker.reporter._report()
        await run.broker.reporter._judge_unloaded()
        assert {state_of(run, name) for name in ("waits", "acked", "back")} == {SubscriptionState.WATCHING}
        clock.advance(1000)
        await run.broker.reporter._judge_unloaded()
        judged = [state_of(run, name) for name in ("waits", "acked")]
        assert judged.count(SubscriptionState.WATCHING) == 1
        for _ in range(4):
            await run.broker.reporter._judge_unloaded()
        assert not run.broker.reporter._started_ms
        states = [state_of(run, name) for name in ("waits", "acked", "back")]
        assert states == [SubscriptionState.STUCK, SubscriptionState.IDLE, SubscriptionState.WATCHING]
        found = rows(
            run.database_url,
            "SELECT y.state FROM vela_topic_summary y JOIN vela_topic t ON t.id = y.topic_id ORDER BY t.name",
        )
        assert [state for (state,) in found] == [
            SubscriptionState.IDLE,
            SubscriptionState.WATCHING,
            SubscriptionState.STUCK,
        ]


async def test_a_state_that_the_server_refuses_to_store_is_tried_once_and_the_charts_continue(
    broker_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(reporter, "INTERVAL_S", 0.01)
    async with running(broker_url, clock=clock) as run:
        producer = await run.producer()
        await producer.publish(2)
        rows(broker_url, "ALTER TABLE vela_delayed_entry RENAME COLUMN deliver_at_ms TO elsewhere")
        try:
            clock.advance(70_000)
            await eventually(lambda: "refused to judge" in caplog.text, "the error")
            await eventually(lambda: rows(broker_url, "SELECT 1 FROM vela_stats_point_10s"), "a point")
        finally:  # tests of other files use these tables
            rows(broker_url, "ALTER TABLE vela_delayed_entry RENAME COLUMN elsewhere TO deliver_at_ms")
    assert caplog.text.count("refused to judge") == 1
