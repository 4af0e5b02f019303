"""The plan of a policy change says what the change frees, expires and evicts, and the change does exactly that."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from broker.acts import requests as acts
from broker.subscription.expiry import expire
from tests.support.broker_harness import BrokerRun, ManualClock
from tests.support.lifetime import ENTRIES, consumed, keeping, kept, look, publish_ledgers

HOUR_MS = 3_600_000
TOPIC = "persistent://public/default/t"


@pytest.fixture
def planning(monkeypatch: pytest.MonkeyPatch, broker_url: str) -> None:
    """Store the requests for acts in the database of the test's brokers."""
    monkeypatch.setattr("broker.storage.short_connection.conninfo", lambda: broker_url)


async def asked(topic: str = TOPIC, **policies: str) -> acts.ActView:
    kind = "set_topic_policies" if "://" in topic else "set_namespace_policies"
    planned = await asyncio.to_thread(
        partial(acts.plan, kind, topic=topic, parameters={"set": policies}, who="op", origin="test", wait_s=8)
    )
    assert planned.state == "planned", planned.error
    return planned


async def applied(planned: acts.ActView) -> None:
    act = await asyncio.to_thread(partial(acts.apply, planned.id, who="op", origin="test", wait_s=8))
    assert act.state == "applied", act.error


def losses_of(planned: acts.ActView) -> tuple[Any, Any]:
    plan = planned.plan or {}
    return plan["freed_messages"], plan["lost_messages"]


pytestmark = pytest.mark.usefixtures("planning")


@pytest.mark.parametrize("where", [TOPIC, "public/default"])
async def test_a_shorter_retention_says_what_it_frees(where: str, broker_url: str) -> None:
    async with keeping(broker_url, time_ms=-1, size_bytes=-1) as run:
        producer = await run.producer()
        await publish_ledgers(producer, 3, messages=2)
        assert losses_of(await asked(where, retention_bytes="0")) == (4 * ENTRIES, 0), "nobody needs them"
        await run.consumer(earliest=True)
        assert losses_of(await asked(where, retention_bytes="0")) == (0, 0)
        await consumed(run, 3 * ENTRIES, subscription="s")
        planned = await asked(where, retention_bytes="0")
        assert losses_of(planned) == (4 * ENTRIES, 0), "the open ledger stays"
        assert planned.plan is not None
        freed_bytes = planned.plan["freed_bytes"]
        assert (
            f"soon after the change, {4 * ENTRIES} messages that every subscription has acked are freed:"
            f" {freed_bytes} bytes" in planned.plan["notes"]
        )
        before = sum(info.size_bytes for info in kept(run))
        await applied(planned)
        await look(run)
        assert sum(info.size_bytes for info in kept(run)) == before - freed_bytes


async def hourly(run: BrokerRun, clock: ManualClock, count: int) -> None:
    producer = await run.producer()
    for _ in range(count):
        await producer.publish(1, messages=3)
        clock.advance(HOUR_MS)


async def test_a_shorter_time_to_live_says_what_expires(broker_url: str) -> None:
    clock = ManualClock()
    async with keeping(broker_url, time_ms=-1, size_bytes=-1, clock=clock) as run:
        await run.consumer(subscription="a")
        await run.consumer(subscription="b")
        await hourly(run, clock, 10)
        planned = await asked(message_ttl_ms="150m")
        assert losses_of(planned) == (0, 2 * 3 * 8), "8 of 10 entries are older, for two subscriptions"
        assert planned.plan is not None
        assert "2 subscriptions soon lose 48 unacknowledged messages, permanently" in planned.plan["notes"]
        await applied(planned)
        assert await expire(run.subscription(subscription="a"), 150 * 60_000) == 24
        assert losses_of(await asked(message_ttl_ms="1d")) == (0, 0)


async def test_a_topic_with_its_own_policy_loses_nothing(broker_url: str) -> None:
    clock = ManualClock()
    async with keeping(broker_url, time_ms=-1, size_bytes=-1, clock=clock) as run:
        await run.consumer()
        await hourly(run, clock, 3)
        assert losses_of(await asked("public/default", message_ttl_ms="1h")) == (0, 9 - 3)
        await applied(await asked(message_ttl_ms="30d"))
        assert losses_of(await asked("public/default", message_ttl_ms="1h")) == (0, 0)


@pytest.mark.parametrize("limit", ["backlog_quota_bytes", "backlog_quota_ms"])
async def test_a_quota_says_what_it_evicts(limit: str, broker_url: str) -> None:
    clock = ManualClock()
    async with keeping(broker_url, time_ms=-1, size_bytes=-1, clock=clock) as run:
        await run.consumer()
        await hourly(run, clock, 10)
        cursor = run.subscription().cursor
        value = {"backlog_quota_bytes": str(cursor.backlog_bytes // 2), "backlog_quota_ms": "5h"}[limit]
        planned = await asked(**{limit: value, "backlog_quota_policy": "consumer_backlog_eviction"})
        _, lost = losses_of(planned)
        assert 0 < lost < 30
        before = cursor.backlog_messages
        await applied(planned)
        await run.broker.policy_rounds.run()
        assert cursor.backlog_messages == before - lost


async def test_a_quota_says_which_topics_it_stops(broker_url: str) -> None:
    async with keeping(broker_url, time_ms=-1, size_bytes=-1) as run:
        await run.consumer()
        await (await run.producer()).publish(3)
        planned = await asked("public/default", backlog_quota_bytes="1")
        assert planned.plan is not None
        assert losses_of(planned) == (0, 0)
        assert (
            f"1 topic exceeds the new quota, so the broker stops its producers: {TOPIC}"
            in planned.plan["notes"]
        )
