"""Acts that create and delete namespaces, and the reason that each act on a protected namespace needs."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from broker.acts import requests as acts
from broker.storage.topics import namespaces as store
from tests.integration.broker.topic_acting import apply, done, plan
from tests.support.broker_harness import BrokerRun, rows

pytestmark = pytest.mark.usefixtures("acts_of_run")

NAMESPACES = (
    "SELECT t.name, n.name FROM vela_tenant t LEFT JOIN vela_namespace n ON n.tenant_id = t.id ORDER BY 1, 2"
)
DEFAULT = ("public", "default")
NEW = "kept 1 day or 1 GiB, whichever is less"


async def test_a_namespace_is_created_with_its_tenant_and_deleted_with_it(run: BrokerRun) -> None:
    planned = await plan("create_namespace", "acme/orders")
    assert planned.plan is not None
    assert planned.plan["words"] == ["namespace acme/orders is created"]
    assert planned.plan["notes"] == [
        "its tenant, acme, has no other namespace and is created with it",
        f"messages that every subscription has acked are {NEW}, until you set its policies",
        "to undo it, delete the namespace",
    ]
    assert rows(run.database_url, NAMESPACES) == [DEFAULT]
    await apply(planned)
    assert rows(run.database_url, NAMESPACES) == [("acme", "orders"), DEFAULT]
    await done("create_namespace", "acme/bills")
    await done("delete_namespace", "acme/orders")
    assert rows(run.database_url, NAMESPACES) == [("acme", "bills"), DEFAULT]
    planned = await plan("delete_namespace", "acme/bills")
    assert planned.plan is not None
    assert planned.plan["notes"][0] == "its tenant, acme, has no other namespace and is deleted with it"
    await apply(planned)
    assert rows(run.database_url, NAMESPACES) == [DEFAULT]


async def test_a_tenant_that_was_created_by_itself_stays(run: BrokerRun) -> None:
    async with run.broker.pool.use() as connection:
        await store.set_tenant(connection, "acme", [])
    for kind in ("create_namespace", "delete_namespace"):
        planned = await plan(kind, "acme/orders")
        assert planned.plan is not None
        assert not [each for each in planned.plan["notes"] if "tenant" in each]
        await apply(planned)
    assert rows(run.database_url, NAMESPACES) == [("acme", None), DEFAULT]


@pytest.mark.parametrize(
    ("kind", "namespace", "says"),
    [
        ("create_namespace", "public/default", "already exists; choose another name"),
        ("create_namespace", "public/a b", "may have letters, digits"),
        ("create_namespace", "acme/" + "x" * 300, "300 characters long; at most 255"),
        ("delete_namespace", "public/default", "short topic names belong to it"),
        ("delete_namespace", "acme/orders", "namespace acme/orders has 1 topic: delete the topics first"),
    ],
)
async def test_an_invalid_act_on_a_namespace_changes_nothing(
    kind: str, namespace: str, says: str, run: BrokerRun
) -> None:
    await run.producer("acme/orders/t")
    before = rows(run.database_url, NAMESPACES)
    refused = await plan(kind, namespace)
    assert (refused.state, says in refused.error) == ("refused", True), refused.error
    assert rows(run.database_url, NAMESPACES) == before


async def test_a_topic_created_after_the_plan_prevents_the_deletion_of_its_namespace(run: BrokerRun) -> None:
    await done("create_namespace", "acme/orders")
    planned = await plan("delete_namespace", "acme/orders")
    await run.producer("acme/orders/t")
    assert (await apply(planned)).state == "refused"
    assert ("acme", "orders") in rows(run.database_url, NAMESPACES)


async def test_on_a_protected_namespace_every_act_needs_a_reason(run: BrokerRun) -> None:
    await run.producer()
    await done("set_namespace_policies", "public/default", set={"protected": "true"})
    for kind, subject in (("unload", "persistent://public/default/t"), ("create_topic", "public/default")):
        planned = await plan(kind, subject, **({"name": "x"} if kind == "create_topic" else {}))
        assert (planned.state, planned.needs_reason) == ("planned", True)
        for reason in ("", "   "):
            with pytest.raises(acts.ActRefused, match="namespace public/default is protected") as refused:
                await asyncio.to_thread(
                    partial(acts.apply, planned.id, who="op", origin="test", reason=reason, wait_s=8)
                )
            assert refused.value.code == "ReasonMissing"
            assert acts.get(planned.id).state == "planned"
        applied = await asyncio.to_thread(
            partial(acts.apply, planned.id, who="op", origin="test", reason="a drill", wait_s=8)
        )
        assert (applied.state, applied.reason) == ("applied", "a drill")
    elsewhere = await done("create_namespace", "acme/orders")
    assert not elsewhere.needs_reason


async def test_a_reason_given_with_the_plan_counts(run: BrokerRun) -> None:
    await run.producer()
    await done("set_namespace_policies", "public/default", set={"protected": "true"})
    planned = await asyncio.to_thread(
        partial(
            acts.plan,
            "set_namespace_policies",
            topic="public/default",
            parameters={"unset": "protected"},
            who="op",
            origin="test",
            reason="the drill is over",
            wait_s=8,
        )
    )
    assert not planned.needs_reason
    applied = await asyncio.to_thread(
        partial(acts.apply, planned.id, who="op", origin="test", reason="  ", wait_s=8)
    )
    assert (applied.state, applied.reason) == ("applied", "the drill is over")
