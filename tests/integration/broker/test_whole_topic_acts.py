"""Acts on whole topics: terminate, truncate, unload, delete, update partitions."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from broker.acts import requests as acts
from broker.core.client_identity import JSON_FACE
from broker.core.errors import TopicNotFound, TopicTerminated
from broker.core.topic_name import TopicName
from broker.producers.requests import ProducerRequest
from broker.topics.non_persistent.topic import NonPersistentTopic
from broker.topics.topic import Topic
from tests.integration.broker.topic_acting import P, T, apply, done, one_by_one, partitioned, plan
from tests.support.broker_harness import IDENTITY, BrokerRun, ConsumerProbe, ProducerProbe, one_row

pytestmark = pytest.mark.usefixtures("acts_of_run")


async def test_a_plan_of_terminate_names_the_last_message_and_the_topic_then_takes_no_more(
    run: BrokerRun,
) -> None:
    producer = await run.producer()
    positions = await producer.publish(2)
    planned = await plan("terminate")
    assert planned.plan is not None
    assert f"now {positions[-1]}; 1 producer is closed" in planned.plan["words"][0]
    assert "never takes messages again" in planned.plan["notes"][0]
    applied = await apply(planned)
    assert applied.result is not None
    with pytest.raises(TopicTerminated):
        await run.producer()
    again = await done("terminate")
    assert again.result is not None
    assert "already terminated" in again.result["words"][0]


async def test_terminate_of_a_partitioned_topic_ends_every_partition(run: BrokerRun) -> None:
    await partitioned(run, 2)
    await run.producer("p-partition-1")
    await done("terminate", P)
    for index in range(2):
        with pytest.raises(TopicTerminated):
            await run.producer(f"p-partition-{index}")


async def test_truncate_empties_the_planned_backlog_and_keeps_consumers(run: BrokerRun) -> None:
    await run.producer()
    await done("set_topic_policies", set={"ledger_max_entries": "2", "ledger_min_age_ms": "0"})
    producer = await run.producer("t")
    consumer = await run.consumer(permits=3)
    await run.consumer(subscription="other")
    positions = await one_by_one(producer, 5)
    await consumer.has(3)
    consumer.ack(positions[0])
    planned = await plan("truncate")
    assert planned.plan is not None
    assert planned.plan["skipped_messages"] == 4 + 5
    later = await producer.publish(3)
    applied = await apply(planned)
    assert applied.state == "applied", applied.error
    assert not consumer.closed
    assert run.subscription().cursor.backlog_messages == 3
    assert run.topic().log.ledgers.first_position() > positions[3]
    assert run.topic().log.ledgers.contains(later[0])
    consumer.flow(10)
    await consumer.has(6)
    assert consumer.positions[3:] == later
    other = await run.consumer(subscription="other", permits=10)
    await other.has(3)


async def test_truncate_keeps_messages_that_an_undo_needs(run: BrokerRun) -> None:
    await run.producer()
    await done("set_topic_policies", set={"ledger_max_entries": "2", "ledger_min_age_ms": "0"})
    await run.consumer()
    positions = await one_by_one(await run.producer("t"), 5)
    await asyncio.to_thread(_clear)
    await done("truncate")
    assert run.topic().log.ledgers.first_position() == positions[0]


def _clear() -> None:
    planned = acts.plan("clear", topic=T, subscription="s", parameters={}, who="op", origin="test", wait_s=8)
    acts.apply(planned.id, who="op", origin="test", wait_s=8)


async def test_clients_reconnect_after_an_unload(run: BrokerRun) -> None:
    producer = await run.producer()
    consumer = await run.consumer()
    await producer.publish(1)
    applied = await done("unload")
    assert applied.result is not None
    assert "1 producer and 1 consumer" in applied.result["words"][1]
    assert producer.closed
    assert consumer.closed
    again = await run.consumer(permits=1)
    await again.has(1)


async def test_delete_is_refused_then_forced_and_its_acts_stay(run: BrokerRun) -> None:
    producer = await run.producer()
    await run.consumer()
    await producer.publish(3)
    refused = await plan("delete_topic")
    assert refused.state == "refused"
    assert "1 producer and 1 consumer connected; disconnect them, or set force to true" in refused.error
    applied = await done("delete_topic", force=True)
    assert applied.topic == T
    assert one_row(run.database_url, "SELECT count(*) FROM vela_topic") == (0,)
    assert one_row(
        run.database_url, "SELECT topic_id, topic_name FROM vela_act WHERE id = %s", applied.id
    ) == (
        None,
        T,
    )


async def test_a_delete_without_clients_still_needs_permission_to_remove_subscriptions(
    run: BrokerRun,
) -> None:
    consumer = await run.consumer()
    assert consumer.consumer is not None
    consumer.consumer.detach()
    refused = await plan("delete_topic")
    assert "has 1 subscription: remove them, or set subscriptions to true" in refused.error
    await done("delete_topic", subscriptions=True)


async def test_a_subscription_of_all_partitions_counts_once_when_the_topic_is_deleted(run: BrokerRun) -> None:
    await partitioned(run, 3)
    for partition in range(3):
        probe = await run.consumer(f"p-partition-{partition}", subscription="s")
        assert probe.consumer is not None
        probe.consumer.detach()
    refused = await plan("delete_topic", P)
    assert "has 1 subscription: remove them, or set subscriptions to true" in refused.error
    planned = await plan("delete_topic", P, subscriptions=True)
    assert _words(planned)[1] == "1 subscription is deleted, with 0 messages not acked"
    applied = await apply(planned)
    assert applied.result is not None
    assert applied.result["words"][1] == "1 subscription is deleted, with 0 messages not acked"


@pytest.mark.parametrize("allowed", [True, False])
async def test_the_plan_of_a_forced_delete_tells_how_clients_react(run: BrokerRun, allowed: bool) -> None:
    """Clients reconnect, and create what the policy allows them to create."""
    await run.producer("n")
    await run.producer()
    await partitioned(run, 1)
    await run.consumer("p-partition-0")
    await done("set_namespace_policies", "public/default", set={"auto_create_topics": str(allowed).lower()})
    words = {name: _words(await plan("delete_topic", name, force=True)) for name in (T, P)}
    applied = await done("delete_topic", T, force=True)
    assert applied.result is not None
    assert list(applied.result["words"]) == words[T]
    if allowed:
        assert words[T][-1] == "clients that reconnect create it again (policy auto_create_topics)"
        assert words[P][-1] == (
            "clients that reconnect create its partitions again, each as a separate topic (policy auto_create_topics)"
        )
        await run.producer()
    else:
        assert words[T][-1] == words[P][-1]
        assert words[T][-1] == "clients that reconnect are refused (policy auto_create_topics)"
        with pytest.raises(TopicNotFound):
            await run.producer()


async def test_the_plan_of_a_delete_says_nothing_of_clients_where_there_are_none(run: BrokerRun) -> None:
    producer = await run.producer()
    assert producer.producer is not None
    producer.producer.detach()
    planned = await plan("delete_topic", force=True)
    assert planned.plan is not None
    said = [*planned.plan["words"], *planned.plan["notes"]]
    assert not [sentence for sentence in said if "again" in sentence]


def _words(planned: acts.ActView) -> list[str]:
    assert planned.plan is not None, planned.error
    return list(planned.plan["words"])


async def test_a_plan_to_delete_does_not_apply_to_a_later_topic_of_the_same_name(run: BrokerRun) -> None:
    await run.producer()
    planned = await plan("delete_topic", force=True)
    await done("delete_topic", force=True)
    await (await run.producer()).publish(1)
    refused = await apply(planned)
    assert refused.state == "refused"
    assert "created again" in refused.error
    assert one_row(run.database_url, "SELECT count(*) FROM vela_topic") == (1,)


async def test_a_delete_applied_again_after_it_was_done_says_so(run: BrokerRun) -> None:
    await run.producer()
    planned = await plan("delete_topic", force=True)
    await done("delete_topic", force=True)
    again = await apply(planned)
    assert again.state == "applied"
    assert again.result is not None
    assert "already deleted: by another act" in again.result["words"][0]


async def test_a_plan_to_empty_a_topic_does_not_apply_to_partitions_added_since(run: BrokerRun) -> None:
    await partitioned(run, 1)
    planned = await plan("truncate", P)
    await done("update_partitions", P, partitions=2)
    refused = await apply(planned)
    assert (refused.state, "p-partition-1 was added after this plan" in refused.error) == ("refused", True)
    await done("truncate", P)


async def test_added_partitions_have_the_subscriptions_of_the_others(run: BrokerRun) -> None:
    await partitioned(run, 1)
    await run.consumer("p-partition-0", "a")
    applied = await done("update_partitions", P, partitions=3)
    assert applied.result is not None
    assert list(applied.result["words"]) == [
        f"{P} gets partitions 1 to 2",
        "each with 1 subscription from its beginning: a",
    ]
    assert await run.broker.partition_count(TopicName.parse("p"), create=False) == 3
    refused = await plan("update_partitions", P, partitions=2)
    assert "never gets fewer" in refused.error
    for count in (0, 10_001, True, "3"):
        with pytest.raises(acts.ActRefused, match="partitions is"):
            await plan("update_partitions", P, partitions=count)


@pytest.mark.parametrize("topic", [P, "non-persistent://public/default/passing"])
async def test_more_partitions_close_the_json_sockets_of_the_topic_and_no_other_clients(
    run: BrokerRun, topic: str
) -> None:
    await partitioned(run, 1, topic)
    part = f"{topic}-partition-0"
    json_socket = dataclasses.replace(IDENTITY, face=JSON_FACE)
    consumer, reader, producer, of_other_topic = (
        ConsumerProbe(),
        ConsumerProbe(),
        ProducerProbe(),
        ConsumerProbe(),
    )
    await run.attach(consumer, part, "a", identity=json_socket)
    await run.attach(reader, part, "r", identity=json_socket, durable=False)
    await run.attach(of_other_topic, "t", "a", identity=json_socket)
    request = ProducerRequest(topic=TopicName.parse(part), name="j")
    producer.producer = await run.broker.open_producer(request, json_socket, producer)
    binary = await run.consumer(part, "a", name="b"), await run.producer(part, "b")
    await done("update_partitions", topic, partitions=1)
    assert not consumer.closed  # the number of partitions is the same as before
    await done("update_partitions", topic, partitions=3)
    said = f"{topic} has 3 partitions now: connect again"
    assert (consumer.closed, reader.closed, of_other_topic.closed) == ([said], [said], [])
    assert [str(each) for each in producer.closed] == [said]
    assert [each.closed for each in binary] == [[], []]
    in_memory: list[Topic | NonPersistentTopic] = [
        *run.broker.topics.all(),
        *run.broker.non_persistent.all(),
    ]
    (partition,) = (each for each in in_memory if each.name.full == part)
    assert [each.name for each in partition.subscriptions["a"].consumers.values()] == ["b"]
    assert [each.name for each in partition.producers.values()] == ["b"]


@pytest.mark.parametrize("kind", ["terminate", "truncate", "unload", "delete_topic", "update_partitions"])
async def test_an_act_on_a_missing_topic_is_refused(run: BrokerRun, kind: str) -> None:
    parameters: dict[str, Any] = {"partitions": 2} if kind == "update_partitions" else {}
    with pytest.raises(acts.ActRefused, match="there is no topic"):
        await plan(kind, **parameters)
    with pytest.raises(acts.ActRefused, match="unknown parameter"):
        await plan(kind, **parameters, volume=11)
