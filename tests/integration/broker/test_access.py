"""Permissions in PostgreSQL: stored, read again after a change, and deleted with their namespace or topic."""

from __future__ import annotations

import asyncio

import pytest

from broker.access.access import Access
from broker.conf import BrokerSettings
from broker.core.access.permissions import Action, Permission, Subject
from broker.core.access.principal import Principal
from broker.core.topic_name import TopicName
from broker.storage import access as store
from tests.integration.broker.topic_acting import done
from tests.support.broker_harness import BrokerRun, rows
from tests.support.tokens import ENVIRONMENT

pytestmark = pytest.mark.usefixtures("acts_of_run")

TOPIC = TopicName.parse("acme/orders/paid")
NAMESPACE = Subject.of_namespace("acme", "orders")
BOTH = (Permission.PRODUCE, Permission.CONSUME)
ALL = "SELECT tenant, namespace, topic, subscription, role, permission FROM vela_permission ORDER BY 1, 2, 3, 4, 5, 6"


def role(name: str) -> Principal:
    return Principal(role=name, method="token", expires_ms=None, token_id=None)


async def loaded(run: BrokerRun) -> Access:
    access = Access(BrokerSettings.from_environment(ENVIRONMENT), run.broker.pool)
    await access.load()
    return access


async def test_grants_are_stored_replaced_and_removed(run: BrokerRun) -> None:
    topic, billing = Subject.of_topic(TOPIC), Subject.of_topic(TOPIC, "billing")
    async with run.broker.pool.use() as connection:
        await store.set_permissions(connection, NAMESPACE, ["app"], BOTH)
        await store.set_permissions(connection, topic, ["reader"], [Permission.CONSUME])
        await store.set_tenant_admins(connection, "acme", ["manager"])
        of_subscription = Subject(tenant="acme", namespace="acme/orders", subscription="billing")
        await store.set_roles(connection, of_subscription, ["app"])
    access = await loaded(run)
    assert access.allows(role("app"), Action.PRODUCE, topic)
    assert access.allows(role("app"), Action.CONSUME, billing)
    assert access.allows(role("reader"), Action.CONSUME, topic)
    assert not access.allows(role("reader"), Action.CONSUME, billing)
    assert not access.allows(role("reader"), Action.PRODUCE, topic)
    assert access.allows(role("manager"), Action.ADMINISTER, NAMESPACE)
    assert access.allows(role("root"), Action.RULE, Subject())
    async with run.broker.pool.use() as connection:
        await store.set_permissions(connection, NAMESPACE, ["app"], [Permission.CONSUME])
        await store.set_permissions(connection, topic, ["reader"], [])
        await store.set_tenant_admins(connection, "acme", ["other"])
        await store.set_roles(connection, of_subscription, [])
    assert rows(run.database_url, ALL) == [
        ("acme", "", "", "", "other", "admin"),
        ("acme", "orders", "", "", "app", "consume"),
    ]
    await access.load()
    assert not access.allows(role("app"), Action.PRODUCE, topic)
    assert not access.allows(role("reader"), Action.CONSUME, topic)
    assert not access.allows(role("manager"), Action.ADMINISTER, NAMESPACE)


async def test_the_broker_is_notified_of_a_change(run: BrokerRun) -> None:
    noticed = asyncio.Event()
    run.broker.access.changed = noticed.set  # type: ignore[method-assign]
    async with run.broker.pool.use() as connection:
        await store.set_permissions(connection, NAMESPACE, ["app"], BOTH)
    await asyncio.wait_for(noticed.wait(), 10)


async def test_deleting_a_namespace_or_topic_deletes_its_permissions(run: BrokerRun) -> None:
    await done("create_namespace", "acme/orders")
    await done("create_topic", "acme/orders", name=TOPIC.local_name)
    async with run.broker.pool.use() as connection:
        for subject in (NAMESPACE, Subject.of_topic(TOPIC), Subject.of_topic(TopicName.parse("a/b/c"))):
            await store.set_permissions(connection, subject, ["app"], [Permission.CONSUME])
        await store.set_tenant_admins(connection, "acme", ["manager"])
    await done("delete_topic", TOPIC.full)
    assert TOPIC.full not in {row[2] for row in rows(run.database_url, ALL)}
    assert len(rows(run.database_url, ALL)) == 3
    await done("delete_namespace", "acme/orders")
    assert [row[0] for row in rows(run.database_url, ALL)] == ["a"]
