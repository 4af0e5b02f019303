"""Acts on subscriptions in a running broker: pause, consumers, create, delete, bookmarks."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from broker.core.errors import SubscriptionNotFound
from broker.core.subscription.types import SubscriptionType
from tests.integration.broker.acting import rest_of, ten
from tests.support.acting import answered, apply, done, planned, refused
from tests.support.broker_harness import (
    BrokerRun,
    one_row,
    rows,
    running,
)
from tests.support.storage_faults import StorageFaults

EXCLUSIVE, SHARED = SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED


# -- pause, consumers
async def test_a_pause_stops_delivery_and_outlives_the_broker(broker_url: str) -> None:
    async with running(broker_url) as run:
        consumer = await run.consumer(permits=100)
        (held,) = await (await run.producer()).publish(1)
        await consumer.has(1)
        await done(run, "pause")
        assert "already paused" in await refused(run, "pause")
        await (await run.producer()).publish(3)
        assert await consumer.ack_durably(held) is None
        assert len(consumer.deliveries) == 1
    async with running(broker_url) as run:
        again = await run.consumer(permits=100)
        assert run.subscription().is_paused
        assert not again.deliveries
        _, result = await done(run, "resume")
        assert "3 messages are not acked" in result["words"][0]
        await again.has(3)
        assert "not paused: there is nothing to resume" in await refused(run, "resume")


async def test_a_pause_that_postgresql_refuses_leaves_the_subscription_as_it_was(broker_url: str) -> None:
    faults = StorageFaults()
    faults.fail("cursors.set_paused", error=psycopg.errors.CheckViolation)
    with faults.installed():
        async with running(broker_url) as run:
            consumer = await run.consumer(permits=100)
            act_id, _ = await planned(run, "pause")
            state, _, _ = await apply(run, act_id)
            assert state == "failed"
            assert not run.subscription().is_paused
            await (await run.producer()).publish(1)
            await consumer.has(1)


async def test_a_consumer_is_disconnected_with_a_reason(run: BrokerRun) -> None:
    consumer = await run.consumer(permits=100, name="slow")
    positions = await (await run.producer()).publish(3)
    await consumer.has(3)
    other = await run.consumer(name="quick", permits=100)
    assert "no consumer 'gone'" in await refused(run, "disconnect", {"consumer": "gone"})
    _, result = await done(run, "disconnect", {"consumer": "slow", "reason": "too slow"})
    assert consumer.closed == ["too slow"]
    assert (result["consumers_closed"], result["consumers_kept"]) == (1, 1)
    await other.has(3)
    assert sorted(other.positions) == positions


@pytest.mark.parametrize("type_", [EXCLUSIVE, SHARED])
async def test_a_consumers_pending_messages_are_redelivered(run: BrokerRun, type_: SubscriptionType) -> None:
    consumer = await run.consumer(permits=100, type_=type_)
    positions = await (await run.producer()).publish(3)
    await consumer.has(3)
    assert consumer.consumer is not None
    _, result = await done(run, "redeliver", {"consumer_key": consumer.consumer.key})
    assert result["words"] == ["3 messages that consumer c has not acked are delivered again"]
    await consumer.has(6)
    assert consumer.positions[3:] == positions


# -- subscriptions, bookmarks
async def test_a_subscription_is_created_at_a_position_and_removed(run: BrokerRun) -> None:
    positions = await ten(run, messages=2)
    _, plan = await planned(run, "create_subscription", {"name": "n", "to": "latest"}, subscription=None)
    assert "n" not in run.topic().subscriptions
    act_id, plan = await planned(
        run, "create_subscription", {"name": "n", "to": "id", "id": f"{positions[5]}:-1:1"}, subscription=None
    )
    assert plan["words"][0] == f"n begins at {positions[5]}:-1:1; 9 messages wait for it"
    assert (await apply(run, act_id))[0] == "applied"
    assert "already has a subscription n" in await refused(
        run, "create_subscription", {"name": "n", "to": "latest"}, subscription=None
    )
    consumer = await rest_of(run, "n")
    assert consumer.positions == positions[5:]
    assert consumer.deliveries[0].remaining == 0b10
    assert "set force to true" in await refused(run, "delete_subscription", subscription="n")
    _, result = await done(run, "delete_subscription", {"force": True}, subscription="n")
    assert (result["skipped_messages"], result["consumers_closed"]) == (9, 1)
    assert consumer.closed
    assert one_row(run.database_url, "SELECT count(*) FROM vela_subscription") == (1,)


async def test_a_subscription_that_begins_inside_a_batch_begins_there_after_a_restart(
    broker_url: str,
) -> None:
    async with running(broker_url) as run:
        positions = await ten(run, messages=2)
        await done(
            run,
            "create_subscription",
            {"name": "n", "to": "id", "id": f"{positions[5]}:-1:1"},
            subscription=None,
        )
    async with running(broker_url) as run:
        consumer = await run.consumer(subscription="n", permits=100)
        cursor = run.subscription(subscription="n").cursor
        assert cursor.backlog_messages == 9
        await consumer.has(5)
        assert consumer.positions == positions[5:]
        assert consumer.deliveries[0].remaining == 0b10
        for position in positions[5:]:
            assert await consumer.ack_durably(position) is None
        assert cursor.backlog_messages == 0


async def test_the_second_of_two_equal_plans_says_that_it_did_nothing(run: BrokerRun) -> None:
    await ten(run)
    first, _ = await planned(run, "create_subscription", {"name": "n", "to": "latest"}, subscription=None)
    second, _ = await planned(run, "create_subscription", {"name": "n", "to": "earliest"}, subscription=None)
    await apply(run, first)
    state, result, _ = await apply(run, second)
    assert (state, list(result["words"])) == ("applied", ["n exists already, and stays where it is"])
    assert run.subscription(subscription="n").cursor.backlog_messages == 0
    first, _ = await planned(run, "delete_subscription", subscription="n")
    second, _ = await planned(run, "delete_subscription", subscription="n")
    await apply(run, first)
    state, result, _ = await apply(run, second)
    assert (state, "already deleted: by another act" in result["words"][0]) == ("applied", True)


@pytest.mark.parametrize("allowed", [True, False])
async def test_the_plan_of_a_forced_delete_tells_how_consumers_react(run: BrokerRun, allowed: bool) -> None:
    await run.consumer()
    policy = {"set": {"auto_create_subscriptions": str(allowed).lower()}}
    await done(run, "set_topic_policies", policy, subscription=None)
    _, plan = await planned(run, "delete_subscription", {"force": True})
    _, result = await done(run, "delete_subscription", {"force": True})
    assert plan["words"] == result["words"]
    assert plan["words"][1:] == [
        "1 consumer is closed",
        "consumers that reconnect create it again, at their own initial position (policy auto_create_subscriptions)"
        if allowed
        else "consumers that reconnect are refused (policy auto_create_subscriptions)",
    ]
    if allowed:
        await run.consumer()
    else:
        with pytest.raises(SubscriptionNotFound):
            await run.consumer()


async def test_the_plan_of_a_delete_says_nothing_of_consumers_where_there_are_none(run: BrokerRun) -> None:
    await ten(run)
    _, plan = await planned(run, "delete_subscription", {"force": True})
    assert plan["words"] == ["s is deleted with 10 messages that it has not acked"]


async def test_a_topics_deletion_counts_the_backlog_of_subscriptions_without_consumers(
    run: BrokerRun,
) -> None:
    await ten(run, messages=2)
    _, plan = await planned(run, "delete_topic", {"force": True}, subscription=None)
    assert plan["skipped_messages"] == 20
    _, result = await done(run, "delete_topic", {"force": True}, subscription=None)
    assert result["skipped_messages"] == 20


async def test_a_delete_is_refused_if_it_would_lose_more_than_planned(run: BrokerRun) -> None:
    await ten(run)
    act_id, _ = await planned(run, "delete_subscription")
    await (await run.producer()).publish(1)
    state, result, error = await apply(run, act_id)
    assert state == "refused"
    assert (
        error
        == "1 message published after the plan would be lost, the plan showed 0; look at the new preview"
    )
    assert "s" in run.topic().subscriptions
    state, result, error = await apply(run, result["new_plan"])
    assert (state, result["skipped_messages"]) == ("applied", 11), error


@pytest.mark.parametrize("kind", ["delete_subscription", "delete_topic", "truncate"])
async def test_the_receipt_of_an_act_that_loses_messages_counts_acks_since_its_plan_and_adds_up(
    run: BrokerRun, kind: str
) -> None:
    consumer = await run.consumer(permits=100)
    other = await run.consumer(subscription="other", permits=100)
    producer = await run.producer()
    positions = await producer.publish(10)
    await consumer.has(10)
    await other.has(10)
    about: dict[str, Any] = {} if kind == "delete_subscription" else {"subscription": None}
    act_id, plan = await planned(run, kind, {} if kind == "truncate" else {"force": True}, **about)
    consumer.ack(*positions[:3])
    await producer.publish(2)
    rows(
        run.database_url,
        "UPDATE vela_act SET plan = plan || '{\"allowed_drift_messages\": 4}' WHERE id = %s",
        act_id,
    )
    state, result, error = await apply(run, act_id)
    assert state == "applied", error
    assert result["acked_meanwhile_messages"] == 3
    published = {"delete_subscription": 2, "delete_topic": 4, "truncate": 0}[kind]
    assert result.get("published_meanwhile_messages", 0) == published
    assert result["skipped_messages"] == plan["skipped_messages"] - 3 + published


async def test_a_delete_is_refused_if_it_would_lose_fewer_but_other_messages(run: BrokerRun) -> None:
    consumer = await run.consumer(permits=100)
    producer = await run.producer()
    positions = await producer.publish(10)
    await consumer.has(10)
    act_id, _ = await planned(run, "delete_topic", {"force": True}, subscription=None)
    consumer.ack(*positions)
    await producer.publish(2)
    state, result, error = await apply(run, act_id)
    assert state == "refused"
    assert "2 messages published after the plan would be lost" in error
    _, again, _, _ = await answered(run, result["new_plan"])
    assert again["skipped_messages"] == 2


async def test_a_delete_is_refused_when_a_cursor_was_made_after_its_plan(run: BrokerRun) -> None:
    await ten(run)
    act_id, _ = await planned(run, "delete_topic", {"force": True}, subscription=None)
    await run.consumer(subscription="new")
    state, result, error = await apply(run, act_id)
    assert (state, "a cursor was created" in error, "new_plan" in result) == ("refused", True, True)


async def test_bookmarks_are_created_once_and_removed(run: BrokerRun) -> None:
    positions = await ten(run)
    await done(
        run,
        "create_bookmark",
        {"name": "b", "to": "id", "id": str(positions[3]), "keep_ms": 0},
        subscription=None,
    )
    assert one_row(run.database_url, "SELECT ledger_id, entry_id, until, who FROM vela_bookmark") == (
        *positions[3],
        None,
        "op",
    )
    assert "already has a bookmark b" in await refused(
        run, "create_bookmark", {"name": "b", "to": "latest"}, subscription=None
    )
    await done(run, "delete_bookmark", {"name": "b"}, subscription=None)
    assert rows(run.database_url, "SELECT * FROM vela_bookmark") == []
    assert "has no bookmark b" in await refused(run, "delete_bookmark", {"name": "b"}, subscription=None)


async def test_a_bookmark_at_the_end_of_a_ledger_has_lost_no_message(broker_url: str) -> None:
    async with running(broker_url, ledger_max_entries=3) as run:
        await run.consumer()
        producer = await run.producer()
        last = (await producer.publish(3))[-1]
        await done(run, "create_bookmark", {"name": "b", "to": "latest"}, subscription=None)
        (following,) = await producer.publish(1)
        assert last.ledger_id < following.ledger_id
        _, plan = await planned(run, "reset", {"to": "bookmark", "bookmark": "b"})
        assert (plan["target"]["next"], plan["notes"]) == (str(following), [])
