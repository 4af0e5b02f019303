"""Growing a partitioned topic, and the numbers of its partitions."""

from __future__ import annotations

import asyncio

import pytest

from broker.core.errors import MetadataInvalid, NotAllowed, TopicFenced, TopicNotFound
from broker.core.topic_name import TopicName
from broker.process.reports.statistics import partitioned_statistics
from broker.storage.pool import ConnectionPool
from broker.topics.partitions import grow
from tests.integration.broker.acting import partitioned
from tests.support.acting import done
from tests.support.broker_harness import BrokerRun, eventually, one_row, rows
from tests.support.postgres_proxy import Moment

P = TopicName.parse("p")


def pool(run: BrokerRun) -> ConnectionPool:
    return run.broker.pool


def layout(run: BrokerRun) -> list[tuple[str, str]]:
    """Return (partition, subscription) for all subscriptions."""
    return rows(
        run.database_url,
        "SELECT 'p' || t.partition, s.name FROM vela_subscription s JOIN vela_topic t ON t.id = s.topic_id"
        " JOIN vela_cursor c ON c.subscription_id = s.id ORDER BY t.partition, s.name",
    )


async def test_new_partitions_have_the_subscriptions_of_the_others_at_their_beginning(run: BrokerRun) -> None:
    await partitioned(run, 2)
    producer = await run.producer("p-partition-0")
    await run.consumer("p-partition-0", "a")
    await run.consumer("p-partition-1", "a")
    await run.consumer("p-partition-1", "b", subscription_properties={"who": "me"})
    await producer.publish(2)
    growth = await grow(pool(run), P, 4)
    assert (growth.before, growth.after, growth.subscriptions) == (2, 4, ("a", "b"))
    assert await run.broker.partition_count(P, create=False) == 4
    assert layout(run) == [
        ("p0", "a"), ("p1", "a"), ("p1", "b"), ("p2", "a"), ("p2", "b"), ("p3", "a"), ("p3", "b")
    ]  # fmt: skip
    assert one_row(
        run.database_url,
        "SELECT s.properties FROM vela_subscription s JOIN vela_topic t ON t.id = s.topic_id"
        " WHERE t.partition = 3 AND s.name = 'b'",
    ) == ({"who": "me"},)
    new = await run.producer("p-partition-3")
    await new.publish(3)
    late = await run.consumer("p-partition-3", "a", permits=10, earliest=False)
    await late.has(3)
    assert run.subscription("p-partition-3", "b").cursor.backlog_messages == 3
    assert producer.closed == []


async def test_a_subscription_that_is_paused_on_all_partitions_is_paused_on_new_ones(run: BrokerRun) -> None:
    await partitioned(run, 2)
    for partition in ("p-partition-0", "p-partition-1"):
        await run.consumer(partition, "a")
        await run.consumer(partition, "b")
    for partition, name in (("p-partition-0", "a"), ("p-partition-1", "a"), ("p-partition-1", "b")):
        await done(run, "pause", topic=partition, subscription=name)
    await grow(pool(run), P, 3)
    await (await run.producer("p-partition-2")).publish(1)
    await (await run.consumer("p-partition-2", "b", permits=10)).has(1)
    paused = await run.consumer("p-partition-2", "a", permits=10)
    assert run.subscription("p-partition-2", "a").is_paused
    assert not paused.deliveries


@pytest.mark.row("S2.10")
async def test_clients_are_told_of_new_partitions(run: BrokerRun) -> None:
    await partitioned(run, 2)
    await run.producer("plain")
    assert await run.broker.partition_count(P, create=False) == 2
    await grow(pool(run), P, 3)
    assert await run.broker.partition_count(P, create=False) == 3
    assert await run.broker.partition_count(TopicName.parse("plain"), create=False) == 0
    await (await run.producer("p-partition-2")).publish(1)


@pytest.mark.parametrize(
    ("name", "partitions", "error", "text"),
    [
        ("p", 1, NotAllowed, "has 2 partitions; a topic never gets fewer"),
        ("p", 0, MetadataInvalid, "it takes a number from 1 to 10000"),
        ("p", 10_001, MetadataInvalid, "it takes a number from 1 to 10000"),
        ("plain", 2, NotAllowed, "is not partitioned"),
        ("p-partition-0", 2, NotAllowed, "is not partitioned"),
        ("none", 2, TopicNotFound, "does not exist"),
    ],
)
async def test_an_impossible_request_is_refused_and_changes_nothing(
    run: BrokerRun, name: str, partitions: int, error: type[Exception], text: str
) -> None:
    await partitioned(run, 2)
    await run.producer("plain")
    before = rows(run.database_url, "SELECT name, partitions FROM vela_topic ORDER BY name")
    with pytest.raises(error, match=text):
        await grow(pool(run), TopicName.parse(name), partitions)
    assert rows(run.database_url, "SELECT name, partitions FROM vela_topic ORDER BY name") == before


async def test_a_growth_is_refused_if_a_topic_has_the_name_of_a_new_partition(run: BrokerRun) -> None:
    await run.producer("p-partition-3")
    await partitioned(run, 2)
    with pytest.raises(NotAllowed, match="p-partition-3 already exists"):
        await grow(pool(run), P, 4)
    assert await run.broker.partition_count(P, create=False) == 2
    await grow(pool(run), P, 3)


async def test_a_topic_takes_over_topics_that_have_the_names_of_its_partitions(run: BrokerRun) -> None:
    await (await run.producer("p-partition-1")).publish(1)  # its client did not notice that p was deleted
    await run.broker.creation.make(P, 2)
    assert rows(run.database_url, "SELECT name FROM vela_listed_topic") == [(P.full,)]
    statistics = await partitioned_statistics(pool(run), P)
    assert [part.name for part in statistics.parts] == [f"{P.full}-partition-0", f"{P.full}-partition-1"]
    figures = await run.broker.endings.delete(P, force=True)
    assert len(figures.topics) == 2
    assert rows(run.database_url, "SELECT name FROM vela_topic") == []


async def test_a_plain_topic_has_no_partitions_even_if_a_topic_has_the_name_of_one(run: BrokerRun) -> None:
    await (await run.producer("plain")).publish(1)
    await (await run.producer("plain-partition-0")).publish(1)
    names = rows(run.database_url, "SELECT name FROM vela_listed_topic ORDER BY name")
    assert [each.rpartition("/")[2] for (each,) in names] == ["plain", "plain-partition-0"]
    figures = await run.broker.endings.delete(TopicName.parse("plain"), force=True)
    assert figures.topics == ("persistent://public/default/plain",)
    assert one_row(run.database_url, "SELECT name FROM vela_topic") == (
        "persistent://public/default/plain-partition-0",
    )


async def test_a_growth_whose_answer_is_lost_is_repeated(run: BrokerRun) -> None:
    await partitioned(run, 1)
    await run.consumer("p-partition-0", "a")
    trap = run.proxy.trap("UPDATE vela_topic SET partitions", Moment.LOSE_ANSWER)
    growth = await grow(pool(run), P, 3)
    assert trap.taken
    assert growth.after == 3
    assert layout(run) == [("p0", "a"), ("p1", "a"), ("p2", "a")]


async def test_two_growths_at_once_leave_the_larger_one(run: BrokerRun) -> None:
    await partitioned(run, 1)
    await run.consumer("p-partition-0", "a")
    trap = run.proxy.trap("UPDATE vela_topic SET partitions", Moment.HOLD_REQUEST)
    first = asyncio.ensure_future(grow(pool(run), P, 3))
    await trap.caught.wait()
    second = asyncio.ensure_future(grow(pool(run), P, 5))
    await eventually(
        lambda: rows(run.database_url, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"),
        "the second one to wait for the first",
    )
    trap.release()
    assert (await first).after == 3
    assert (await second).before == 3
    assert layout(run) == [(f"p{index}", "a") for index in range(5)]


async def test_a_topic_deleted_while_it_grows_is_deleted_or_complete(run: BrokerRun) -> None:
    await partitioned(run, 2)
    trap = run.proxy.trap("UPDATE vela_topic SET partitions", Moment.HOLD_REQUEST)
    growing = asyncio.ensure_future(grow(pool(run), P, 4))
    await trap.caught.wait()
    deleting = asyncio.ensure_future(run.broker.endings.delete(P, force=True))
    await eventually(
        lambda: rows(run.database_url, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"),
        "the delete to wait for the growth",
    )
    trap.release()
    await growing
    with pytest.raises(TopicFenced, match="got partitions meanwhile"):
        await deleting
    assert one_row(run.database_url, "SELECT count(*) FROM vela_topic") == (5,)
    await run.broker.endings.delete(P, force=True)
    assert rows(run.database_url, "SELECT name FROM vela_topic") == []


async def test_statistics_of_a_topic_are_those_of_its_partitions_and_their_sums(run: BrokerRun) -> None:
    await partitioned(run, 3)
    first, second = await run.producer("p-partition-0"), await run.producer("p-partition-2")
    consumer = await run.consumer("p-partition-0", "a", permits=2)
    await run.consumer("p-partition-2", "a")
    await run.consumer("p-partition-2", "b")
    await first.publish(3)
    await second.publish(2, messages=5)
    await consumer.has(2)
    consumer.ack(consumer.positions[0])

    async def total() -> tuple[int, ...]:
        found = (await partitioned_statistics(pool(run), P)).total
        return (
            found.messages_in,
            found.producers,
            found.consumers,
            *(s.backlog_messages for s in found.subscriptions),
        )

    for _ in range(100):
        if await total() == (13, 2, 3, 12, 10):
            break
        await asyncio.sleep(0.05)
    found = await partitioned_statistics(pool(run), P)
    assert await total() == (13, 2, 3, 12, 10)
    assert [part.messages_in for part in found.parts] == [3, 0, 10]
    assert [[each.name for each in part.subscriptions] for part in found.parts] == [["a"], [], ["a", "b"]]
    of_a = found.total.subscriptions[0]
    assert (of_a.consumers, of_a.unacked_messages, of_a.type) == (2, 1, "Shared")
    with pytest.raises(TopicNotFound):
        await partitioned_statistics(pool(run), TopicName.parse("none"))
    await run.producer("plain")
    plain = await partitioned_statistics(pool(run), TopicName.parse("plain"))
    assert plain.parts[0].name == plain.total.name
