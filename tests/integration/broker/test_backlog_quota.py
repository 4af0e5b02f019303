"""The backlog quota with its three policies, by size and by age."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from broker.core.errors import BrokerError, QuotaExceeded, QuotaHold
from broker.core.subscription.types import SubscriptionType
from broker.core.topic_name import TopicName
from tests.support.broker_harness import (
    BrokerRun,
    ManualClock,
    ProducerProbe,
    eventually,
    one_row,
    rows,
    running,
)
from tests.support.policies import set_policies

HOUR_MS = 3_600_000


async def slow_beyond_its_quota(run: BrokerRun) -> ProducerProbe:
    """Publish 10 messages, which the next check evicts from the subscription `slow`."""
    producer = await run.producer()
    await run.consumer(subscription="slow")
    await producer.publish(10)
    await set_policies(run, backlog_quota_bytes=1, backlog_quota_policy="consumer_backlog_eviction")
    return producer


@pytest.mark.parametrize(
    ("policy", "error"), [("producer_request_hold", QuotaHold), ("producer_exception", QuotaExceeded)]
)
async def test_producers_are_stopped_and_come_back_when_the_backlog_has_shrunk(
    run: BrokerRun, policy: str, error: type[BrokerError], caplog: pytest.LogCaptureFixture
) -> None:
    producer = await run.producer()
    consumer = await run.consumer(subscription="slow")
    quick = await run.consumer(subscription="quick", permits=1000, acks=True)
    positions = await producer.publish(3)
    quota = run.subscription(subscription="slow").cursor.backlog_bytes
    await set_policies(run, backlog_quota_bytes=quota, backlog_quota_policy=policy)
    await run.broker.policy_rounds.run()
    assert not producer.closed  # the backlog may be as large as the quota
    positions += await producer.publish(1)
    is_now = run.subscription(subscription="slow").cursor.backlog_bytes
    with caplog.at_level(logging.WARNING):
        await run.broker.policy_rounds.run()
    assert type(producer.closed[0]) is error
    with pytest.raises(error, match=f"slow has a backlog of {is_now} bytes, the quota is {quota}"):
        await run.producer()
    assert "subscription slow has a backlog" in caplog.text
    assert 'vela_backlog_quota_exceeded{cluster="vela"' in run.metrics_text()
    consumer.flow(10)
    await consumer.has(4)
    consumer.ack(positions[-1])
    again = await run.producer()  # without waiting for the next check
    await again.publish(1)
    assert len(quick.deliveries) == 5


async def test_a_quota_by_age_stops_producers(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock) as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=10)
        await set_policies(run, backlog_quota_ms=HOUR_MS)
        positions = await producer.publish(1)
        clock.advance(HOUR_MS // 2)
        positions += await producer.publish(1)
        clock.advance(HOUR_MS // 2)
        await run.broker.policy_rounds.run()
        assert not producer.closed
        clock.advance(1)
        await run.broker.policy_rounds.run()
        assert type(producer.closed[0]) is QuotaHold
        with pytest.raises(QuotaHold, match=f"has not acked is {HOUR_MS + 1} ms old, the quota is {HOUR_MS}"):
            await run.producer()
        await consumer.has(2)
        consumer.ack(positions[0])
        await run.producer()


async def test_eviction_by_size_leaves_nine_tenths_and_is_in_the_act_log(run: BrokerRun) -> None:
    producer = await run.producer()
    consumer = await run.consumer(subscription="slow", permits=4)
    await run.consumer(subscription="quick", permits=1000, acks=True)
    positions = await producer.publish(40)
    await consumer.has(4)
    consumer.ack(positions[20], positions[2])
    cursor = run.subscription(subscription="slow").cursor
    quota, waiting = cursor.backlog_bytes - 1, cursor.backlog_messages
    await set_policies(run, backlog_quota_bytes=quota, backlog_quota_policy="consumer_backlog_eviction")
    await run.broker.policy_rounds.run()
    left = cursor.backlog_bytes
    assert quota * 9 // 10 - 60 < left <= quota * 9 // 10  # an entry has fewer than 60 bytes
    assert not producer.closed
    assert not consumer.closed
    kind, state, who, skipped = one_row(
        run.database_url, "SELECT kind, state, who, (result->>'skipped_messages')::int FROM vela_act"
    )
    assert (kind, state, who) == ("evict", "applied", "backlog quota")
    assert skipped == waiting - cursor.backlog_messages
    await run.broker.policy_rounds.run()
    assert cursor.backlog_bytes == left
    assert one_row(run.database_url, "SELECT count(*) FROM vela_act") == (1,)


async def test_messages_that_arrive_during_an_eviction_do_not_change_what_it_says(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await slow_beyond_its_quota(run)
    quota = run.broker.topics.loaded[TopicName.parse("t").full].quota
    record = quota._record

    async def busy(*of: Any) -> int:
        monkeypatch.undo()
        await producer.publish(3)
        return await record(*of)

    monkeypatch.setattr(quota, "_record", busy)
    await quota.check()
    (skipped, left) = one_row(
        run.database_url,
        "SELECT (result->>'skipped_messages')::int, (result->>'backlog_messages')::int"
        " FROM vela_act ORDER BY id LIMIT 1",
    )
    assert (skipped, left) == (10, 3)


async def test_an_eviction_that_fails_inside_the_broker_has_failed_in_the_act_log(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    await slow_beyond_its_quota(run)

    def fails(*_: object) -> None:
        raise ValueError("a fault")

    monkeypatch.setattr(run.subscription(subscription="slow").cursor, "move_mark_delete", fails)
    with pytest.raises(ValueError, match="a fault"):
        await run.broker.topics.loaded[TopicName.parse("t").full].quota.check()
    assert one_row(run.database_url, "SELECT state, error FROM vela_act") == (
        "failed",
        "the eviction failed inside the broker; the broker's log says why",
    )


async def test_an_eviction_that_the_database_refuses_moves_nothing_and_its_act_has_failed(
    run: BrokerRun, caplog: pytest.LogCaptureFixture
) -> None:
    await slow_beyond_its_quota(run)
    rows(run.database_url, "ALTER TABLE vela_cursor ADD CONSTRAINT test_no CHECK (version = 0)")
    await run.broker.policy_rounds.run()
    assert run.subscription(subscription="slow").cursor.backlog_messages == 10
    state, error = one_row(run.database_url, "SELECT state, error FROM vela_act")
    assert state == "failed"
    assert error in caplog.text


async def test_eviction_by_age_acks_messages_older_than_nine_tenths_of_the_limit(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock) as run:
        producer = await run.producer()
        await run.consumer()
        await set_policies(run, backlog_quota_ms=1000, backlog_quota_policy="consumer_backlog_eviction")
        positions = []
        for _ in range(10):
            positions += await producer.publish(1)
            clock.advance(100)
        await run.broker.policy_rounds.run()
        assert run.subscription().cursor.backlog_messages == 10
        clock.advance(1)
        await run.broker.policy_rounds.run()
        # Messages of 901 ms and older are evicted, and the one of 801 ms is kept.
        assert run.subscription().cursor.mark_delete == positions[1]


async def test_a_topic_that_was_just_loaded_refuses_producers_beyond_its_quota(run: BrokerRun) -> None:
    await (await run.producer()).publish(2)
    await run.consumer()
    await set_policies(run, backlog_quota_bytes=1)
    await run.broker.endings.unload([TopicName.parse("t")])
    with pytest.raises(QuotaHold):
        await run.producer()


async def test_removing_a_quota_lets_producers_in(run: BrokerRun) -> None:
    producer = await run.producer()
    await run.consumer()
    await set_policies(run, backlog_quota_bytes=0)
    await producer.publish(1)
    await run.broker.policy_rounds.run()
    assert producer.closed
    await set_policies(run, backlog_quota_bytes=-1)
    await (await run.producer()).publish(1)


async def test_the_backlog_of_readers_does_not_count(run: BrokerRun) -> None:
    producer = await run.producer()
    await run.consumer(subscription="r", type_=SubscriptionType.EXCLUSIVE, durable=False)
    await set_policies(run, backlog_quota_bytes=0)
    await producer.publish(2)
    await run.broker.policy_rounds.run()
    assert not producer.closed


async def test_the_broker_checks_quotas_by_its_own_timer(broker_url: str) -> None:
    async with running(broker_url) as run:
        producer = await run.producer()
        await run.consumer()
        await set_policies(run, backlog_quota_bytes=0)
        await producer.publish(1)
        await eventually(lambda: producer.closed, "the owner's round", timeout_s=15)


async def test_the_tick_of_beat_alone_makes_the_broker_check_quotas(broker_url: str) -> None:
    async with running(broker_url, wheel_enabled=False) as run:
        producer = await run.producer()
        await run.consumer()
        await set_policies(run, backlog_quota_bytes=0)
        await producer.publish(1)
        await run.broker.policy_rounds.turn()
        assert not producer.closed
        # The notification that broker.upkeep.tasks.check_policies sends.
        one_row(broker_url, "SELECT pg_notify('vela_policies', '')")
        await eventually(lambda: producer.closed, "the round that beat asked for")
