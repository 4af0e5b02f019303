"""Acts on topics and namespaces, asked for as console, commands and API do: bad input changes nothing (design 9)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from broker.acts import requests as acts
from broker.core.errors import TopicNotFound, TopicTerminated
from broker.core.position import Position
from broker.core.topic_name import TopicName
from broker.storage.acts import requests as act_requests
from broker.storage.connection import connect
from broker.storage.topics import topics as topic_store
from tests.support.broker_harness import BrokerRun, ProducerProbe, eventually, one_row, rows
from tests.support.postgres_proxy import Moment

T = "persistent://public/default/t"
P = "persistent://public/default/p"


@pytest.fixture(autouse=True)
def _same_database(run: BrokerRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(act_requests, "conninfo", lambda: run.database_url)


async def plan(kind: str, topic: str = T, **parameters: Any) -> acts.ActView:
    """Ask for a plan, in a thread as the asking side is synchronous."""
    return await asyncio.to_thread(
        partial(acts.plan, kind, topic=topic, parameters=parameters, who="op", origin="test", wait_s=8)
    )


async def apply(act: acts.ActView) -> acts.ActView:
    """Apply a plan."""
    return await asyncio.to_thread(partial(acts.apply, act.id, who="op", origin="test", wait_s=8))


async def done(kind: str, topic: str = T, **parameters: Any) -> acts.ActView:
    """Plan and apply; it must work."""
    planned = await plan(kind, topic, **parameters)
    assert planned.state == "planned", planned.error
    applied = await apply(planned)
    assert applied.state == "applied", applied.error
    return applied


async def one_by_one(producer: ProducerProbe, count: int) -> list[Position]:
    """Publish each with a commit of its own: a ledger is full between two."""
    return [(await producer.publish(1))[0] for _ in range(count)]


async def partitioned(run: BrokerRun, partitions: int) -> None:
    connection = await connect(run.database_url, name="test")
    await topic_store.create_topic(connection, TopicName.parse("p"), partitions=partitions, policies={})
    await connection.close()


# -- policies


async def test_a_topics_policies_are_in_force_at_once_and_the_plan_says_so(run: BrokerRun) -> None:
    await run.producer()
    topic = run.topic()
    planned = await plan("set_topic_policies", set={"message_ttl_ms": "60000", "deduplication": "true"})
    assert planned.plan is not None
    assert list(planned.plan["words"]) == [
        "message_ttl_ms: 0 becomes 60000",
        "deduplication: false becomes true",
    ]
    assert any("will not be delivered" in note for note in planned.plan["notes"])
    assert topic.policies.message_ttl_ms == 0
    await apply(planned)
    assert (topic.policies.message_ttl_ms, topic.policies.deduplication) == (60_000, True)
    await done("set_topic_policies", unset="message_ttl_ms")
    assert (topic.policies.message_ttl_ms, topic.policies.deduplication) == (0, True)
    assert one_row(run.database_url, "SELECT policies FROM vela_topic") == ({"deduplication": True},)


async def test_a_namespace_is_followed_by_its_topics_unless_they_say_otherwise(run: BrokerRun) -> None:
    await run.producer("a")
    await run.producer("b")
    await run.producer("public/other/c")
    await done("set_topic_policies", "persistent://public/default/b", set={"max_consumers": "7"})
    planned = await plan("set_namespace_policies", "public/default", set={"max_consumers": "3"})
    assert planned.plan is not None
    assert "1 topic has its own max_consumers, which stays" in planned.plan["notes"]
    await apply(planned)
    assert [run.topic(name).policies.max_consumers for name in ("a", "b", "public/other/c")] == [3, 7, 0]
    await run.producer("d")
    assert run.topic("d").policies.max_consumers == 3


async def test_partitions_follow_their_topic(run: BrokerRun) -> None:
    await partitioned(run, 2)
    await run.producer("p-partition-0")
    await done("set_topic_policies", P, set={"max_consumers": "3"})
    await run.producer("p-partition-1")
    assert [run.topic(f"p-partition-{index}").policies.max_consumers for index in (0, 1)] == [3, 3]
    refused = await plan("set_topic_policies", f"{P}-partition-0", set={"max_consumers": "4"})
    assert refused.state == "refused"
    assert "set policies there" in refused.error


async def test_a_ledger_rolls_by_the_new_policy(run: BrokerRun) -> None:
    producer = await run.producer()
    await producer.publish(3)
    await done("set_topic_policies", set={"ledger_max_entries": "2", "ledger_min_age_ms": "0"})
    positions = await producer.publish(1)
    assert positions[0].entry_id == 0


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"set": {"retention": "1"}}, "there is no policy 'retention'"),
        ({"set": {"retention_ms": "-2"}}, "retention_ms is -2: it takes a whole number from -1"),
        ({"set": {"retention_ms": "1d"}}, "retention_ms is '1d': it takes"),
        ({"set": {"backlog_quota_policy": "drop"}}, "one of producer_request_hold, producer_exception"),
        ({"set": {"deduplication": "yes"}}, "deduplication is 'yes': it takes true or false"),
        ({"set": {"message_ttl_ms": "1", "max_consumers": "x"}}, "max_consumers is 'x'"),
        ({"set": {"message_ttl_ms": 1}}, "set is .*: it takes an object whose values are text"),
        ({"set": {"auto_create_topics": "false"}}, "is set on a namespace, not on a topic"),
        ({"unset": "retention"}, "there is no policy 'retention'"),
        ({}, "name a policy"),
        ({"change": {}}, "unknown parameter 'change'"),
    ],
)
async def test_a_bad_policy_is_refused_by_name_and_nothing_changes(
    run: BrokerRun, parameters: dict[str, Any], text: str
) -> None:
    await run.producer()
    with pytest.raises(acts.ActRefused, match=text):
        await plan("set_topic_policies", **parameters)
    assert one_row(run.database_url, "SELECT policies FROM vela_topic") == ({},)
    assert rows(run.database_url, "SELECT 1 FROM vela_act") == []


async def test_what_is_not_set_cannot_be_unset(run: BrokerRun) -> None:
    await run.producer()
    refused = await plan("set_topic_policies", unset="retention_ms")
    assert (refused.state, refused.error) == ("refused", "policy retention_ms is not set here")


@pytest.mark.parametrize(
    ("kind", "where"),
    [("set_topic_policies", "persistent://public/default/none"), ("set_namespace_policies", "public/none")],
)
async def test_policies_of_what_does_not_exist(run: BrokerRun, kind: str, where: str) -> None:
    with pytest.raises(acts.ActRefused, match="there is no"):
        await plan(kind, where, set={"max_consumers": "1"})


async def test_of_two_plans_on_one_document_the_second_is_refused(run: BrokerRun) -> None:
    await run.producer()
    first = await plan("set_topic_policies", set={"max_consumers": "1"})
    second = await plan("set_topic_policies", set={"max_subscriptions": "1"})
    assert (await apply(first)).state == "applied"
    refused = await apply(second)
    assert refused.state == "refused"
    assert "plan again" in refused.error
    assert one_row(run.database_url, "SELECT policies FROM vela_topic") == ({"max_consumers": 1},)


async def test_a_change_whose_answer_is_lost_is_done_once(run: BrokerRun) -> None:
    await run.producer()
    trap = run.proxy.trap("UPDATE vela_topic SET policies", Moment.LOSE_ANSWER)
    await done("set_topic_policies", set={"max_consumers": "1"})
    assert trap.taken
    assert run.topic().policies.max_consumers == 1


async def test_a_topic_loaded_while_its_policies_change_has_the_new_ones(run: BrokerRun) -> None:
    await (await run.producer()).publish(1)
    await done("unload")
    trap = run.proxy.trap("FROM vela_ledger WHERE topic_id", Moment.HOLD_REQUEST)
    coming = asyncio.ensure_future(run.producer())
    await trap.caught.wait()  # it has read the old document
    changing = asyncio.ensure_future(done("set_topic_policies", set={"max_consumers": "1"}))
    await eventually(
        lambda: one_row(run.database_url, "SELECT policies FROM vela_topic") != ({},), "the stored change"
    )
    trap.release()
    await coming
    await changing
    assert run.topic().policies.max_consumers == 1


async def test_the_plan_of_a_shorter_retention_says_how_much_can_go(run: BrokerRun) -> None:
    await run.producer()
    await done("set_topic_policies", set={"ledger_max_entries": "2", "ledger_min_age_ms": "0"})
    await one_by_one(await run.producer("t"), 5)
    size_bytes = sum(info.size_bytes for info in run.topic().log.ledgers.infos() if info.sealed)
    planned = await plan("set_topic_policies", set={"retention_bytes": "0"})
    assert planned.plan is not None
    assert (
        f"{size_bytes} bytes of these topics can be trimmed at once under the new retention"
        in planned.plan["notes"]
    )
    await run.consumer()  # from the earliest message: now somebody needs them all
    planned = await plan("set_topic_policies", set={"retention_bytes": "0"})
    assert planned.plan is not None
    assert not [note for note in planned.plan["notes"] if "can be trimmed at once" in note]


# -- whole topics


async def test_terminate_says_where_it_ends_and_does_it(run: BrokerRun) -> None:
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


async def test_truncate_empties_what_the_plan_showed_and_keeps_consumers(run: BrokerRun) -> None:
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


async def test_truncate_keeps_what_an_undo_needs(run: BrokerRun) -> None:
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


async def test_unload_closes_clients_who_come_back(run: BrokerRun) -> None:
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
    assert "1 producer and 1 consumer connected" in refused.error
    applied = await done("delete_topic", force=True)
    assert applied.topic == T
    assert one_row(run.database_url, "SELECT count(*) FROM vela_topic") == (0,)
    assert one_row(
        run.database_url, "SELECT topic_id, topic_name FROM vela_act WHERE id = %s", applied.id
    ) == (
        None,
        T,
    )


async def test_delete_without_clients_needs_leave_to_remove_subscriptions(run: BrokerRun) -> None:
    consumer = await run.consumer()
    assert consumer.consumer is not None
    consumer.consumer.detach()
    refused = await plan("delete_topic")
    assert "has 1 subscription:" in refused.error
    await done("delete_topic", subscriptions=True)


@pytest.mark.parametrize("allowed", [True, False])
async def test_the_plan_of_a_forced_delete_says_what_the_clients_will_do(
    run: BrokerRun, allowed: bool
) -> None:
    """They come again, and make what the policy lets them make."""
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


async def test_a_plan_to_delete_is_not_for_the_topic_that_came_after(run: BrokerRun) -> None:
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
    assert "died before it stored" in again.result["words"][0]


async def test_update_partitions(run: BrokerRun) -> None:
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


@pytest.mark.parametrize("kind", ["terminate", "truncate", "unload", "delete_topic", "update_partitions"])
async def test_acts_on_what_does_not_exist(run: BrokerRun, kind: str) -> None:
    parameters: dict[str, Any] = {"partitions": 2} if kind == "update_partitions" else {}
    with pytest.raises(acts.ActRefused, match="there is no topic"):
        await plan(kind, **parameters)
    with pytest.raises(acts.ActRefused, match="unknown parameter"):
        await plan(kind, **parameters, volume=11)
