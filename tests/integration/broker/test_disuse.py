"""Subscriptions that expire and inactive topics that are deleted, whether loaded or not."""

from __future__ import annotations

import psycopg
import pytest

from broker.core.topic_name import TopicName
from broker.storage.connection import connect
from broker.storage.log import sweep
from broker.storage.topics import topics as topic_store
from broker.topics.topic import Topic
from broker.upkeep import disuse
from tests.support.broker_harness import (
    BrokerRun,
    ManualClock,
    eventually,
    one_row,
    refusing,
    rows,
    running,
)
from tests.support.policies import set_policies

DAY_MS = 86_400_000


def names(url: str) -> list[str]:
    """Return the local names of all topics."""
    return [row[0].rpartition("/")[2] for row in rows(url, "SELECT name FROM vela_topic ORDER BY name")]


async def test_a_subscription_expires_when_no_consumer_returns(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock) as run:
        await (await run.producer()).publish(3)
        away, here = await run.consumer(subscription="away"), await run.consumer(subscription="here")
        await set_policies(run, subscription_expiry_ms=DAY_MS)
        clock.advance(2 * DAY_MS)
        await run.broker.policy_rounds.run()
        assert len(run.topic().subscriptions) == 2  # the subscription with a connected consumer is in use
        assert away.consumer is not None
        away.consumer.detach()
        clock.advance(DAY_MS)
        await run.broker.policy_rounds.run()
        assert len(run.topic().subscriptions) == 2
        clock.advance(1)
        await run.broker.policy_rounds.run()
        assert list(run.topic().subscriptions) == ["here"]
        assert not here.closed
        assert one_row(broker_url, "SELECT name FROM vela_subscription") == ("here",)
        assert one_row(
            broker_url,
            "SELECT kind, state, subscription_name, (result->>'skipped_messages')::int FROM vela_act",
        ) == ("expire_subscription", "applied", "away", 3)


async def left_behind(url: str, clock: ManualClock, **policies: object) -> None:
    """Run and stop a broker, so that the topic and its subscription are only rows."""
    async with running(url, clock=clock) as run:
        producer = await run.producer()
        consumer = await run.consumer(acks=True, permits=10)
        await producer.publish(2)
        await consumer.has(2)
        await set_policies(run, **policies)
        assert producer.producer is not None
        assert consumer.consumer is not None
        producer.producer.detach()
        consumer.consumer.detach()
        await run.broker.stop()


async def test_subscriptions_that_are_not_in_memory_expire_too(broker_url: str) -> None:
    clock = ManualClock()
    await left_behind(broker_url, clock, subscription_expiry_ms=DAY_MS)
    async with running(broker_url, clock=clock) as run:
        clock.advance(DAY_MS)
        await run.broker.policy_rounds.run()
        assert one_row(broker_url, "SELECT count(*) FROM vela_subscription") == (1,)
        clock.advance(60_001)
        await run.broker.policy_rounds.run()
        assert one_row(broker_url, "SELECT count(*) FROM vela_subscription") == (0,)
        assert not run.broker.topics.loaded  # the check did not keep the topic loaded


async def test_a_consumer_connected_when_the_broker_died_has_the_full_time_to_return(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock) as run:
        await run.producer()
        await run.consumer()
        await set_policies(run, subscription_expiry_ms=DAY_MS)
        await eventually(
            lambda: rows(broker_url, "SELECT 1 FROM vela_subscription_summary WHERE consumers = 1"),
            "the report",
        )
    clock.advance(10 * DAY_MS)
    async with running(broker_url, clock=clock) as run:
        clock.advance(DAY_MS)
        await run.broker.policy_rounds.run()
        assert one_row(broker_url, "SELECT count(*) FROM vela_subscription") == (1,)


@pytest.mark.parametrize("loaded", [True, False], ids=["loaded", "not loaded"])
async def test_an_inactive_topic_is_deleted_if_its_policy_and_its_subscriptions_allow_it(
    broker_url: str, loaded: bool
) -> None:
    clock = ManualClock()
    await left_behind(broker_url, clock, delete_inactive_topics=True, inactive_topic_ms=DAY_MS)
    async with running(broker_url, clock=clock) as run:
        if loaded:
            await run.broker.topics.open(TopicName.parse("t"), create=False)
        clock.advance(DAY_MS + 60_001)
        await run.broker.policy_rounds.run()
        assert names(broker_url) == ["t"]  # the topic has a subscription
        await set_policies(run, inactive_topic_mode="delete_when_subscriptions_caught_up")
        clock.advance(DAY_MS + 60_001)
        await run.broker.policy_rounds.run()
        assert names(broker_url) == []


async def test_a_topic_that_cannot_be_deleted_is_not_loaded_repeatedly(broker_url: str) -> None:
    clock = ManualClock()
    await left_behind(broker_url, clock, delete_inactive_topics=True, inactive_topic_ms=1000)
    async with running(broker_url, clock=clock) as run:
        for _ in range(2):
            clock.advance(DAY_MS)
            await run.broker.policy_rounds.run()
        assert one_row(broker_url, "SELECT owner_epoch FROM vela_topic_owner") == (1,)


async def test_every_idle_topic_is_looked_at_in_turn(
    broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disuse, "_IDLE_AT_ONCE", 2)
    clock = ManualClock()
    async with running(broker_url, clock=clock) as run:
        for name in "abcde":
            await run.broker.topics.open(TopicName.parse(name), create=True)
            await set_policies(run, name, subscription_expiry_ms=DAY_MS)
            consumer = await run.consumer(name, subscription="old")
            assert consumer.consumer is not None
            consumer.consumer.detach()
        await run.broker.stop()
    clock.advance(2 * DAY_MS)
    async with running(broker_url, clock=clock) as run:
        left: list[int] = []
        for _ in range(4):
            clock.advance(60_001)
            await run.broker.policy_rounds.run()
            left += one_row(broker_url, "SELECT count(*) FROM vela_subscription")
        assert left == [3, 1, 0, 0]


async def test_idle_topics_after_one_that_cannot_be_loaded_are_looked_at(
    broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock) as run:
        for name in "abc":
            await run.broker.topics.open(TopicName.parse(name), create=True)
            await set_policies(run, name, subscription_expiry_ms=DAY_MS)
            consumer = await run.consumer(name, subscription="old")
            assert consumer.consumer is not None
            consumer.consumer.detach()
        await run.broker.stop()
    clock.advance(2 * DAY_MS)
    async with running(broker_url, clock=clock) as run:
        really_open = run.broker.topics.open

        async def open_undamaged(name: TopicName, *, create: bool) -> Topic:
            if name.full.endswith("/a"):
                raise psycopg.errors.DataCorrupted("invalid page in block 7")
            return await really_open(name, create=create)

        monkeypatch.setattr(run.broker.topics, "open", open_undamaged)
        clock.advance(60_001)
        await run.broker.policy_rounds.run()
        assert one_row(broker_url, "SELECT count(*) FROM vela_subscription") == (1,)


async def test_a_backlog_or_a_client_keeps_a_topic(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock) as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=10)
        positions = await producer.publish(1)
        await consumer.has(1)
        await set_policies(
            run,
            delete_inactive_topics=True,
            inactive_topic_ms=1000,
            inactive_topic_mode="delete_when_subscriptions_caught_up",
        )
        assert producer.producer is not None
        assert consumer.consumer is not None
        producer.producer.detach()
        clock.advance(2000)
        await run.broker.policy_rounds.run()
        assert names(broker_url) == ["t"]
        consumer.consumer.detach()
        clock.advance(2000)
        await run.broker.policy_rounds.run()
        assert names(broker_url) == ["t"]  # one message waits
        again = await run.consumer()
        again.ack(*positions)
        assert again.consumer is not None
        again.consumer.detach()
        clock.advance(2000)
        await run.broker.policy_rounds.run()
        assert names(broker_url) == []


async def test_a_partitioned_topic_is_deleted_whole_and_only_when_no_partition_is_used(
    broker_url: str,
) -> None:
    clock = ManualClock()
    connection = await connect(broker_url, name="test")
    await topic_store.create_topic(connection, TopicName.parse("p"), partitions=2, policies={})
    await connection.close()
    async with running(broker_url, clock=clock) as run:
        await run.producer("p-partition-0")
        other = await run.producer("p-partition-1")
        assert other.producer is not None
        other.producer.detach()
        await set_policies(run, "p", delete_inactive_topics=True, inactive_topic_ms=1000)
        clock.advance(2000)
        await run.broker.policy_rounds.run()
        assert names(broker_url) == ["p", "p-partition-0", "p-partition-1"]
        (first,) = run.topic("p-partition-0").producers.values()
        first.detach()
        clock.advance(2000)
        await run.broker.policy_rounds.run()
        assert names(broker_url) == []


async def test_by_default_no_subscription_and_no_topic_is_removed(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock) as run:
        consumer = await run.consumer()
        assert consumer.consumer is not None
        consumer.consumer.detach()
        clock.advance(1000 * DAY_MS)
        await run.broker.policy_rounds.run()
        assert names(broker_url) == ["t"]
        assert "s" in run.topic().subscriptions


async def test_beat_alone_starts_the_round(broker_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    monkeypatch.setattr("broker.storage.short_connection.conninfo", lambda: broker_url)
    async with running(broker_url, clock=clock, wheel_enabled=False) as run:
        consumer = await run.consumer()
        await set_policies(run, subscription_expiry_ms=1000)
        assert consumer.consumer is not None
        consumer.consumer.detach()
        clock.advance(2000)
        sweep.policies()
        await eventually(lambda: not run.topic().subscriptions, "the round that beat asked for")


async def test_an_invalid_policy_document_does_not_stop_the_search(run: BrokerRun) -> None:
    await run.producer()
    rows(
        run.database_url,
        """UPDATE vela_topic SET policies = '{"subscription_expiry_ms": "soon", "delete_inactive_topics": 7}'""",
    )
    await run.broker.topics.open(TopicName.parse("u"), create=True)
    await run.broker.policy_rounds.run()
    assert names(run.database_url) == ["t", "u"]


async def test_an_expiry_that_the_database_refuses_is_tried_again(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock) as run:
        consumer = await run.consumer()
        await set_policies(run, subscription_expiry_ms=DAY_MS)
        assert consumer.consumer is not None
        consumer.consumer.detach()
        clock.advance(DAY_MS + 1)
        with refusing(broker_url, "vela_subscription"):
            await run.broker.policy_rounds.run()
        assert one_row(broker_url, "SELECT state, error FROM vela_act") == (
            "failed",
            "the database refused the removal: not now",
        )
        await run.broker.policy_rounds.run()
        assert not run.topic().subscriptions
