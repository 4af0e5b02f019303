"""The act create_topic: in an existing namespace, never over an existing topic, safe to repeat."""

from __future__ import annotations

from typing import Any

import pytest

from broker.acts import requests as acts
from broker.core.topic_name import TopicName
from broker.storage.connection import Connection, connect
from broker.storage.topics import topics as topic_store
from broker.topics.policies import PolicyChanges, PolicyConflict
from tests.integration.broker.topic_acting import apply, done, plan
from tests.support.broker_harness import BrokerRun, one_row, rows

pytestmark = pytest.mark.usefixtures("acts_of_run")

HERE = "public/default"


async def test_a_topic_is_created_with_its_partitions(run: BrokerRun) -> None:
    await run.producer()
    planned = await plan("create_topic", HERE, name="orders", partitions=2)
    assert planned.plan is not None
    assert list(planned.plan["words"]) == ["persistent://public/default/orders is created, with 2 partitions"]
    assert planned.plan["notes"] == ["to undo it, delete the topic"]
    assert rows(run.database_url, "SELECT 1 FROM vela_topic WHERE name LIKE '%%orders%%'") == []
    applied = await apply(planned)
    assert applied.state == "applied", applied.error
    found = rows(
        run.database_url, "SELECT name, partitions FROM vela_topic WHERE name LIKE '%%orders%%' ORDER BY 1"
    )
    full = "persistent://public/default/orders"
    assert found == [(full, 2), (f"{full}-partition-0", 0), (f"{full}-partition-1", 0)]
    await run.producer("orders-partition-1")


async def test_a_topic_begins_with_its_policies(run: BrokerRun) -> None:
    await run.producer()
    planned = await plan("create_topic", HERE, name="orders", policies={"message_ttl_ms": "60000"})
    assert planned.plan is not None, planned.error
    assert planned.plan["words"][1:] == ["its policy message_ttl_ms is 60000"]
    applied = await apply(planned)
    assert applied.state == "applied", applied.error
    await run.producer("orders")
    assert run.topic("orders").policies.message_ttl_ms == 60_000
    for wrong in ({"message_ttl": "1"}, {"message_ttl_ms": "soon"}):
        with pytest.raises(acts.ActRefused, match="message_ttl"):
            await plan("create_topic", HERE, name="other", policies=wrong)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"name": "t"}, "already exists, not partitioned"),
        ({"name": "t", "partitions": 3}, "already exists, not partitioned"),
        ({"name": "x-partition-2"}, "leave out -partition-2"),
        ({"name": "shop/x"}, "give only what comes after public/default/"),
        ({"name": "with space"}, "without spaces"),
        ({"name": ""}, "must be set"),
    ],
)
async def test_wrong_parameters_change_nothing(parameters: dict[str, Any], says: str, run: BrokerRun) -> None:
    await run.producer()
    before = rows(run.database_url, "SELECT * FROM vela_topic")
    refused = await plan("create_topic", HERE, **parameters)
    assert (refused.state, says in refused.error) == ("refused", True), refused.error
    assert rows(run.database_url, "SELECT * FROM vela_topic") == before


async def test_a_missing_namespace_is_named(run: BrokerRun) -> None:
    with pytest.raises(acts.ActRefused, match="there is no namespace shop/eu"):
        await plan("create_topic", "shop/eu", name="orders")


@pytest.mark.parametrize(("partitions", "state"), [(1, "applied"), (2, "refused")])
async def test_a_topic_that_was_created_after_the_plan_is_kept(
    partitions: int, state: str, run: BrokerRun
) -> None:
    await run.producer()
    planned = await plan("create_topic", HERE, name="orders", partitions=1)
    connection = await connect(run.database_url, name="test")
    await topic_store.create_topic(connection, TopicName.parse("orders"), partitions=partitions, policies={})
    await connection.close()
    assert (await apply(planned)).state == state
    assert one_row(
        run.database_url,
        "SELECT partitions FROM vela_topic WHERE name = 'persistent://public/default/orders'",
    ) == (partitions,)


async def test_policies_of_a_topic_that_was_created_after_the_plan_are_kept(run: BrokerRun) -> None:
    await run.producer()
    first, second, third = [
        await plan("create_topic", HERE, name="orders", policies=policies)
        for policies in ({"retention_ms": "7d"}, {"message_ttl_ms": "1h"}, {"retention_ms": "7d"})
    ]
    assert (await apply(first)).state == "applied"
    refused = await apply(second)
    assert (refused.state, "with other policies" in refused.error) == ("refused", True), refused.error
    repeated = await apply(third)  # a broker that died before it stored the result repeats this
    assert repeated.state == "applied", repeated.error
    await run.producer("orders")
    policies = run.topic("orders").policies
    assert (policies.retention_ms, policies.message_ttl_ms) == (7 * 24 * 3_600_000, 0)


async def test_an_act_that_creates_a_topic_but_cannot_set_its_policies_says_so(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run.producer()
    planned = await plan("create_topic", HERE, name="orders", policies={"retention_ms": "7d"})

    async def taken(*_: object, **__: object) -> None:
        raise PolicyConflict("the policies were changed meanwhile")

    monkeypatch.setattr(PolicyChanges, "change", taken)
    applied = await apply(planned)
    assert (applied.state, applied.error) == (
        "failed",
        (
            "persistent://public/default/orders exists now, but its policies were not set: the policies were changed"
            " meanwhile; set them there"
        ),
    )
    await run.producer("orders")


async def test_a_created_topic_can_be_deleted_again(run: BrokerRun) -> None:
    await run.producer()
    await done("create_topic", HERE, name="orders")
    await done("delete_topic", "persistent://public/default/orders")


async def test_a_topic_can_be_created_before_anybody_has_connected(run: BrokerRun) -> None:
    await done("create_topic", HERE, name="orders")
    assert rows(run.database_url, "SELECT name FROM vela_topic") == [("persistent://public/default/orders",)]


async def test_a_topic_that_a_client_creates_meanwhile_gets_no_partitions(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run.producer()
    planned = await plan("create_topic", HERE, name="orders", partitions=2)
    create = topic_store.create_topic

    async def second(connection: Connection, name: TopicName, *, partitions: int, **about: Any) -> None:
        await create(connection, name, partitions=0, **about)
        await create(connection, name, partitions=partitions, **about)

    monkeypatch.setattr(topic_store, "create_topic", second)
    applied = await apply(planned)
    assert (applied.state, applied.error) == (
        "refused",
        "persistent://public/default/orders was created meanwhile, not partitioned; choose another name",
    )
    found = rows(run.database_url, "SELECT name, partitions FROM vela_topic WHERE name LIKE '%%orders%%'")
    assert found == [("persistent://public/default/orders", 0)]
