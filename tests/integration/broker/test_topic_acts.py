"""Acts on policies, requested as the console, the commands and the API do. Bad input changes nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.acts import requests as acts
from tests.integration.broker.topic_acting import P, apply, done, partitioned, plan
from tests.support.broker_harness import BrokerRun, eventually, one_row, rows
from tests.support.postgres_proxy import Moment

pytestmark = pytest.mark.usefixtures("acts_of_run")


async def test_a_plan_for_one_limit_of_retention_names_the_other(run: BrokerRun) -> None:
    await run.producer()
    limits = {"retention_ms": "7d", "retention_bytes": "20GB"}
    await apply(await plan("set_topic_policies", set=limits))
    planned = await plan("set_topic_policies", set={"retention_ms": "30d"})
    assert planned.plan is not None
    assert (
        "retention_ms and retention_bytes both apply: acked messages are kept 30 days or 20 GB, whichever is less"
        in planned.plan["notes"]
    )


async def test_a_topics_policies_are_in_force_at_once_and_the_plan_says_so(run: BrokerRun) -> None:
    await run.producer()
    topic = run.topic()
    planned = await plan("set_topic_policies", set={"message_ttl_ms": "60000", "deduplication": "true"})
    assert planned.plan is not None
    assert list(planned.plan["words"]) == [
        "policy message_ttl_ms changes from never to 1 minute",
        "policy deduplication changes from false to true",
    ]
    assert any("will not be delivered" in note for note in planned.plan["notes"])
    assert not any("both apply" in note for note in planned.plan["notes"])
    assert topic.policies.message_ttl_ms == 0
    await apply(planned)
    assert (topic.policies.message_ttl_ms, topic.policies.deduplication) == (60_000, True)
    await done("set_topic_policies", unset="message_ttl_ms")
    assert (topic.policies.message_ttl_ms, topic.policies.deduplication) == (0, True)
    assert one_row(run.database_url, "SELECT policies FROM vela_topic") == ({"deduplication": True},)


async def test_topics_follow_their_namespace_unless_they_have_a_policy_of_their_own(run: BrokerRun) -> None:
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
        ({"set": {"retention_ms": "-2"}}, "retention_ms is -2: it takes a length of time such as 90s"),
        ({"set": {"retention_ms": "1GB"}}, "retention_ms is '1GB': it takes"),
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


async def test_a_policy_that_is_not_set_cannot_be_unset(run: BrokerRun) -> None:
    await run.producer()
    refused = await plan("set_topic_policies", unset="retention_ms")
    assert (refused.state, refused.error) == ("refused", "policy retention_ms is not set here")


@pytest.mark.parametrize(
    ("kind", "where"),
    [("set_topic_policies", "persistent://public/default/none"), ("set_namespace_policies", "public/none")],
)
async def test_policies_of_a_missing_topic_or_namespace_cannot_be_set(
    run: BrokerRun, kind: str, where: str
) -> None:
    with pytest.raises(acts.ActRefused, match="there is no"):
        await plan(kind, where, set={"max_consumers": "1"})


async def test_the_second_of_two_plans_on_one_document_is_refused(run: BrokerRun) -> None:
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
    await trap.caught.wait()  # the load has read the old policies
    changing = asyncio.ensure_future(done("set_topic_policies", set={"max_consumers": "1"}))
    await eventually(
        lambda: one_row(run.database_url, "SELECT policies FROM vela_topic") != ({},), "the stored change"
    )
    trap.release()
    await coming
    await changing
    assert run.topic().policies.max_consumers == 1
