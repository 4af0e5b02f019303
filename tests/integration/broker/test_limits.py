"""Limits of consumers, producers and subscriptions, and what connecting may create."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.dispatchers.key_shared_policy import KeySharedPolicy
from broker.core.errors import BrokerError, ConsumerBusy, NotAllowed, SubscriptionNotFound, TopicNotFound
from broker.core.schemas.schema import SchemaDefinition, SchemaType
from broker.core.subscription.types import SubscriptionType
from broker.core.topic_name import TopicName
from broker.topics.policies import Holder
from tests.support.broker_harness import BrokerRun, one_row, rows
from tests.support.policies import set_policies


async def test_the_limits_of_consumers_of_a_subscription_and_of_a_topic_are_kept(run: BrokerRun) -> None:
    first = await run.consumer(subscription="a")
    await set_policies(run, max_consumers_per_subscription=2, max_consumers=3)
    await run.consumer(subscription="a")
    with pytest.raises(ConsumerBusy, match="max_consumers_per_subscription"):
        await run.consumer(subscription="a")
    await run.consumer(subscription="b")
    with pytest.raises(ConsumerBusy, match="policy max_consumers"):
        await run.consumer(subscription="b")
    assert first.consumer is not None
    first.consumer.detach()
    await run.consumer(subscription="b")


async def test_the_limit_of_subscriptions_of_a_topic_is_kept(run: BrokerRun) -> None:
    await run.consumer(subscription="a")
    await set_policies(run, max_subscriptions=2)
    await run.consumer(subscription="b")
    with pytest.raises(NotAllowed, match="max_subscriptions"):
        await run.consumer(subscription="c")
    await run.consumer(subscription="r", durable=False)
    await run.consumer(subscription="a")


async def test_connecting_makes_no_subscription_where_that_is_not_allowed(run: BrokerRun) -> None:
    await run.consumer(subscription="a")
    await set_policies(run, auto_create_subscriptions=False)
    with pytest.raises(SubscriptionNotFound, match="auto_create_subscriptions"):
        await run.consumer(subscription="b")
    with pytest.raises(SubscriptionNotFound, match="auto_create_subscriptions"):
        await run.producer(initial_subscription="b")
    await run.consumer(subscription="a")
    await run.producer(initial_subscription="a")
    assert one_row(run.database_url, "SELECT count(*) FROM vela_subscription") == (1,)


async def set_namespace(run: BrokerRun, **values: object) -> None:
    holder = Holder.of_namespace("public/default")
    state = await run.broker.policies.documents.read(holder)
    await run.broker.policies.change(holder, before=state.document, after={**state.document, **values})


async def test_connecting_makes_no_topic_where_that_is_not_allowed(run: BrokerRun) -> None:
    await run.producer("known")
    await set_namespace(run, auto_create_topics=False)
    for connect in (run.producer, run.consumer):
        with pytest.raises(TopicNotFound, match=r"auto_create_topics.*`vela topics create` or `manage.py"):
            await connect("unknown")
        with pytest.raises(TopicNotFound, match=r"exist; create it with `vela topics create` or `manage.py"):
            await connect("public/other/unknown", create_topic=False)
        with pytest.raises(TopicNotFound, match=r"exist; create it with `manage.py createtopic`"):
            await connect("non-persistent://public/default/unknown")
    with pytest.raises(TopicNotFound):
        await run.broker.partition_count(TopicName.parse("unknown"), create=True)
    with pytest.raises(TopicNotFound, match=r"`vela topics create` or `manage.py createtopic`"):
        await run.broker.partition_count(TopicName.parse("unknown"), create=False)
    await run.producer("known")
    await run.producer("public/other/unknown")
    assert one_row(run.database_url, "SELECT count(*) FROM vela_topic") == (2,)


@pytest.mark.parametrize(
    "refused",
    [
        {"subscription": " s"},
        {"subscription": "__compaction"},
        {"name": "a\0b"},
        {"read_compacted": True},
        {"type_": SubscriptionType.KEY_SHARED, "key_shared": KeySharedPolicy(sticky=True)},
        {"schema": SchemaDefinition(type=SchemaType.AVRO, data=b"{")},
    ],
    ids=["blank", "reserved", "control", "compacted", "no-ranges", "schema"],
)
async def test_a_consumer_that_is_refused_makes_no_topic_and_no_namespace(
    run: BrokerRun, refused: dict[str, Any]
) -> None:
    with pytest.raises(BrokerError):
        await run.consumer("fresh/eu/t", **refused)
    assert_nothing_is_made(run)


@pytest.mark.parametrize(
    "refused",
    [
        {"name": "a\0b"},
        {"initial_subscription": "__compaction"},
        {"schema": SchemaDefinition(type=SchemaType.JSON, data=b"nothing")},
    ],
    ids=["control", "reserved", "schema"],
)
async def test_a_producer_that_is_refused_makes_no_topic_and_no_namespace(
    run: BrokerRun, refused: dict[str, Any]
) -> None:
    with pytest.raises(BrokerError):
        await run.producer("fresh/eu/t", **refused)
    assert_nothing_is_made(run)


async def test_asking_for_partitions_creates_no_topic_without_partitions(run: BrokerRun) -> None:
    name = TopicName.parse("fresh/eu/t")
    assert await run.broker.partition_count(name, create=True) == 0
    assert await run.broker.partition_count(name.with_partition(3), create=True) == 0
    assert_nothing_is_made(run)
    await run.producer("fresh/eu/t")
    assert one_row(run.database_url, "SELECT name FROM vela_topic") == (name.full,)


def assert_nothing_is_made(run: BrokerRun) -> None:
    assert rows(run.database_url, "SELECT name FROM vela_topic") == []
    assert rows(run.database_url, "SELECT name FROM vela_tenant WHERE name = 'fresh'") == []


async def test_topics_made_by_connecting_have_the_partitions_of_the_policy(run: BrokerRun) -> None:
    await run.producer("known")
    await set_namespace(run, auto_create_partitions=3)
    assert await run.broker.partition_count(TopicName.parse("new"), create=True) == 3
    await run.producer("new-partition-2")
    with pytest.raises(NotAllowed, match="has 3 partitions"):
        await run.producer("newer")
    assert len(rows(run.database_url, "SELECT 1 FROM vela_topic WHERE name LIKE '%%newer-partition-%%'")) == 3


@pytest.mark.row("I8")
async def test_unacked_limits_come_from_the_policies_and_change_live(run: BrokerRun) -> None:
    producer = await run.producer()
    await producer.publish(30)
    await set_policies(run, max_unacked_per_consumer=4)
    consumer = await run.consumer(permits=100)
    await consumer.has(4)
    assert (len(consumer.deliveries), run.subscription().dispatcher.unacked_messages) == (4, 4)
    await set_policies(run, max_unacked_per_consumer=10)
    await consumer.has(10)
    await set_policies(run, max_unacked_per_consumer=0, max_unacked_per_subscription=20)
    # These entries had been read, and replays continue while the subscription is blocked.
    await consumer.has(30)
    await producer.publish(5)
    assert (len(consumer.deliveries), run.subscription().dispatcher.blocked) == (30, True)
    await set_policies(run, max_unacked_per_consumer=-1, max_unacked_per_subscription=-1)
    await consumer.has(35)
