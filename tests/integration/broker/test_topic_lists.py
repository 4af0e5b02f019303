"""Watchers hear about topics that are created or deleted in any way, because PostgreSQL notifies the broker."""

from __future__ import annotations

from broker.core.topic_name import TopicName
from broker.core.topic_pattern import TopicPattern
from broker.topics import partitions
from tests.support.broker_harness import BrokerRun
from tests.support.waiting import until

BASE = "persistent://public/default/watched"


def parts(count: int) -> set[str]:
    return {f"{BASE}-partition-{index}" for index in range(count)}


async def test_watchers_hear_of_every_topic_that_comes_and_goes(run: BrokerRun) -> None:
    broker, name = run.broker, TopicName.parse(BASE)
    watch = await broker.watch_topics(
        "public/default", TopicPattern("public/default/watched.*"), lambda added, removed: None
    )
    assert watch.names == set()
    await broker.creation.make(name, 2)
    await until(lambda: watch.names == parts(2), "the new topic")
    await partitions.grow(broker.pool, name, 5)
    await until(lambda: watch.names == parts(5), "the new partitions")
    await broker.endings.delete(name, force=False)
    await until(lambda: watch.names == set(), "the end of the topic")
    await run.producer(BASE)
    await until(lambda: watch.names == {BASE}, "a topic that a client created")


async def test_after_a_lost_notification_the_lists_are_read_again_once_the_broker_has_its_lock_back(
    run: BrokerRun,
) -> None:
    broker = run.broker
    watch = await broker.watch_topics(
        "public/default", TopicPattern("public/default/.*"), lambda added, removed: None
    )
    await run.producer(BASE)
    await until(lambda: watch.names == {BASE}, "the topic")
    async with broker.pool.use() as connection:
        # Unlike the statements that create or delete topics, this one notifies nobody.
        await connection.execute("UPDATE vela_topic SET name = name || '-renamed'")
    broker._resumed()
    await until(lambda: watch.names == {f"{BASE}-renamed"}, "the list, read again")
