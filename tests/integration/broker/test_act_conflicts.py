"""Acts against each other and against seeks; messages in chunks; undo."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.acts import runner
from broker.acts.kinds.base import ActExpired
from broker.core.errors import BrokerError, SubscriptionBusy
from broker.core.position import EARLIEST, Position
from broker.storage.acts import acts as act_store
from broker.storage.connection import Connection
from tests.integration.broker.acting import filled, partitioned, rest_of, ten
from tests.support import entries
from tests.support.acting import answered, apply, done, planned, refused
from tests.support.broker_harness import (
    BrokerRun,
    ConsumerProbe,
    eventually,
    one_row,
    rows,
    running,
)
from tests.support.postgres_proxy import Moment


# -- concurrency
@pytest.mark.row("I18")
async def test_one_of_ten_concurrent_resets_wins_and_the_others_are_busy(run: BrokerRun) -> None:
    positions = await ten(run)
    consumers = [await run.consumer(name=f"c{n}", permits=100) for n in range(10)]
    await eventually(
        lambda: sum(len(each.deliveries) for each in consumers) == 10, "everything to be in flight"
    )

    async def seek(consumer: ConsumerProbe) -> BrokerError | None:
        assert consumer.consumer is not None
        try:
            await consumer.consumer.seek_position(positions[5], None)
        except BrokerError as error:
            return error
        return None

    outcomes = await asyncio.gather(*(seek(each) for each in consumers))
    for each in consumers:
        each.ack(*positions[:5])  # sent before the reset: these acks must not move the new mark-delete
    assert [error for error in outcomes if error is None] == [None]
    assert all(isinstance(error, SubscriptionBusy) for error in outcomes if error is not None)
    assert run.subscription().cursor.mark_delete == positions[4]
    assert one_row(run.database_url, "SELECT version FROM vela_cursor") == (1,)
    assert (await rest_of(run)).positions[0] == positions[5]


@pytest.mark.row("I18")
async def test_a_plan_loses_against_a_seek_that_comes_first(run: BrokerRun) -> None:
    positions = await ten(run)
    act_id, _ = await planned(run, "reset", {"to": "latest"})
    consumer = await run.consumer()
    assert consumer.consumer is not None
    await consumer.consumer.seek_position(EARLIEST, None)
    state, _, error = await apply(run, act_id)
    assert (state, "plan again" in error) == ("refused", True)
    assert (await rest_of(run)).positions == positions
    assert one_row(run.database_url, "SELECT error_code FROM vela_act WHERE id = %s", act_id) == (
        "ActConflict",
    )


# -- messages in chunks
async def chunked(run: BrokerRun, *of: str) -> list[Position]:
    """Make a subscription without a consumer, and an entry for each word: "u0" is chunk 0 of the message u."""
    consumer = await run.consumer()
    assert consumer.consumer is not None
    consumer.consumer.detach()
    producer = await run.producer()
    for at, word in enumerate(of):
        if word == "-":
            producer.send()
        else:
            producer.send_entry(entries.chunk("p", 100 + at, int(word[1:]), 3, uuid=word[0]))
    await producer.has_receipts(len(of))
    return [Position(each.ledger_id, each.entry_id) for each in producer.receipts]


async def test_a_skip_does_not_end_inside_a_message_in_chunks(run: BrokerRun) -> None:
    positions = await chunked(run, "-", "u0", "u1", "u2", "-")
    act_id, plan = await planned(run, "skip", {"messages": 2})
    assert plan["skipped_messages"] == 4
    assert plan["notes"] == [
        (
            f"{positions[1]} is chunk 1 of 3 of a message, so all its chunks up to {positions[3]} are skipped:"
            " applications could not use the rest"
        )
    ]
    assert (await apply(run, act_id))[0] == "applied"
    assert (await rest_of(run)).positions == positions[4:]


@pytest.mark.parametrize(
    ("log", "kind", "parameters", "says"),
    [
        (["u0", "u1", "u2"], "reset", {"to": "shift", "messages": 1}, "{1} is chunk 2 of 3 of a message, and its"),
        (["u0", "u1", "u2"], "expire", {"to": "id", "id": "{0}"}, "{1} is chunk 2 of 3 of a message, and its"),
        (["u0", "u1", "u2"], "skip_one", {"id": "{1}"}, "{1} is chunk 2 of 3 of a message: applications cannot"),
        (["u0", "-", "u1", "u2"], "skip", {"messages": 1}, "{0} is chunk 1 of 3 of a message, and the chunks after it"),
        (["u0", "v0", "u1", "u2"], "skip", {"messages": 2}, "{2} is chunk 2 of 3 of a message, and its"),
        (["u0", "u1"], "skip", {"messages": 1}, "{1} is chunk 2 of 3 of a message, and its"),
        (["u0", "u1", "u2", "-"], "skip", {"messages": 3}, ""),
        (["u0", "u1", "u2", "-"], "reset", {"to": "earliest"}, ""),
    ],
)  # fmt: skip
async def test_a_plan_says_where_it_splits_a_message_in_chunks(
    run: BrokerRun, log: list[str], kind: str, parameters: dict[str, Any], says: str
) -> None:
    positions = await chunked(run, *log)
    parameters = {name: filled(value, positions) for name, value in parameters.items()}
    _, plan = await planned(run, kind, parameters)
    assert len(plan["notes"]) == bool(says)
    assert not says or plan["notes"][0].startswith(filled(says, positions))


# -- undo after a restart
@pytest.mark.row("I3")
@pytest.mark.parametrize("is_clean", [True, False])
async def test_an_undo_after_a_restart_keeps_acks_made_since(broker_url: str, is_clean: bool) -> None:
    async with running(broker_url) as run:
        positions = await ten(run, messages=2)
        consumer = await rest_of(run)
        act_id, result = await done(run, "skip", {"messages": 11})
        assert result["inside"] == {"position": str(positions[5]), "remaining": "2"}
        assert await consumer.ack_durably(positions[2]) is None
        assert await consumer.ack_durably(positions[8]) is None
        if is_clean:
            await run.stop()
            await run.proxy.start()
    async with running(broker_url) as run:
        again = await run.consumer(permits=100)
        await again.has(4)
        # The consumer has held this message since before the restart, and the act moved the cursor past the message.
        assert await again.ack_durably(positions[4]) is None
        undo, plan = await planned(run, "undo", undo_of=act_id)
        assert plan["replayed_messages"] == 7
        assert (await apply(run, undo))[0] == "applied"
        last = await rest_of(run)
        assert last.positions == [p for at, p in enumerate(positions) if at not in (2, 4, 8)]
        assert last.deliveries[3].remaining is None


@pytest.mark.row("I4")
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    ("acked", "rest"), [([], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), ([4, 7], [0, 1, 2, 3, 5, 6, 8, 9])]
)
async def test_undoing_an_undo_removes_the_acks_that_it_restored(
    broker_url: str, restarts: bool, acked: list[int], rest: list[int]
) -> None:
    """A reset unacks all messages, and its undo restores the acks of all but the fifth.

    An undo of that undo redelivers these messages, except those that a consumer has acked since.
    """
    async with running(broker_url) as run:
        positions = await ten(run, messages=2)
        consumer = await rest_of(run)
        assert await consumer.ack_durably(*positions[:4], *positions[5:]) is None
        reset, _ = await done(run, "reset", {"to": "earliest"})
        first, _ = await planned(run, "undo", undo_of=reset)
        assert (await apply(run, first))[0] == "applied"
        assert (await rest_of(run)).positions == [positions[4]]
        if restarts:
            await run.stop()
            await run.proxy.start()
    async with running(broker_url) as run:
        consumer = await run.consumer()
        if acked:
            assert await consumer.ack_durably(*(positions[at] for at in acked)) is None
        second, plan = await planned(run, "undo", undo_of=first)
        assert plan["target"]["backlog_messages"] == 2 * len(rest)
        assert (await apply(run, second))[0] == "applied"
        assert (await rest_of(run)).positions == [positions[at] for at in rest]


async def test_many_waiting_acts_are_read_a_few_at_a_time(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each act may contain a message of 1 MiB. One notification is enough for all acts."""
    await ten(run)
    await done(run, "pause")  # the runner has looked for acts and waits for its next poll
    monkeypatch.setattr(runner, "_POLL_S", 60.0)
    read: list[int] = []
    waiting = act_store.waiting

    async def counted(connection: Connection, *, most: int) -> list[act_store.WaitingAct]:
        found = await waiting(connection, most=most)
        read.append(len(found))
        return found

    monkeypatch.setattr(act_store, "waiting", counted)
    await done(run, "resume")  # from here, the runner waits 60 s for its next poll
    rows(
        run.database_url,
        "INSERT INTO vela_act (kind, state, topic_id, subscription_id, topic_name, subscription_name, parameters,"
        " error, who, origin, reason, created_at, requested_at)"
        " SELECT 'clear', 'plan_requested', topic_id, subscription_id, topic_name, 's', '{}', '', 'op', 'test', '',"
        " now(), now() FROM vela_act, generate_series(1, 40) WHERE kind = 'pause'",
    )
    rows(run.database_url, "SELECT pg_notify('vela_act', '')")
    left = "SELECT count(*) FROM vela_act WHERE state = 'plan_requested'"
    await eventually(lambda: one_row(run.database_url, left) == (0,), "all plans to be made")
    assert max(read) <= 8
    assert one_row(run.database_url, "SELECT count(*) FROM vela_act WHERE state = 'planned'") == (40,)


@pytest.mark.parametrize("request_name", ["request_plan", "request_apply"])
async def test_a_request_of_the_broker_itself_that_waited_too_long_raises_an_error(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch, request_name: str
) -> None:
    await run.consumer()
    request = getattr(act_store, request_name)

    async def long_ago(connection: Connection, *given: Any, **named: Any) -> Any:
        answer = await request(connection, *given, **named)
        await connection.execute("UPDATE vela_act SET requested_at = now() - interval '1 day'")
        return answer

    monkeypatch.setattr(act_store, request_name, long_ago)
    with pytest.raises(ActExpired, match="no broker answered in time"):
        await run.broker.own_requests.carry_out(
            "pause", topic="persistent://public/default/t", subscription="s", who="root", origin="admin"
        )
    assert not run.subscription().is_paused


@pytest.mark.parametrize(
    ("kind", "parameters", "topic", "subscription", "result_sql"),
    [
        ("pause", {}, "t", "s", "message = CASE WHEN"),
        ("pause", {}, "p", "s", "ON CONFLICT (part_of_id"),
        ("set_topic_policies", {"set": {"max_producers": "3"}}, "t", None, "message = CASE WHEN"),
    ],
    ids=["one topic", "partitions", "policies"],
)
async def test_an_act_whose_broker_died_before_the_result_was_stored_does_not_expire(
    broker_url: str,
    kind: str,
    parameters: dict[str, Any],
    topic: str,
    subscription: str | None,
    result_sql: str,
) -> None:
    async with running(broker_url) as run:
        await partitioned(run, 1)
        await run.consumer("t")
        await run.consumer("p-partition-0")
        act_id, _ = await planned(run, kind, parameters, topic=topic, subscription=subscription)
        trap = run.proxy.trap(result_sql, Moment.HOLD_REQUEST)
        rows(broker_url, "UPDATE vela_act SET state = 'apply_requested', requested_at = now()")
        await trap.caught.wait()
        await run.crash()
    rows(broker_url, "UPDATE vela_act SET requested_at = now() - interval '1 day'")
    async with running(broker_url) as again:
        state, _, result, error = await answered(again, act_id)
        assert (state, error) == ("applied", "")
        assert result["words"]


@pytest.mark.parametrize("topic", ["t", "p"])
async def test_a_plan_is_not_applied_to_a_subscription_of_the_same_name_created_later(
    run: BrokerRun, topic: str
) -> None:
    name = topic
    if topic == "p":
        await partitioned(run, 1)
        name = "p-partition-0"
    await run.consumer(name)
    await (await run.producer(name)).publish(10)
    act_id, plan = await planned(run, "clear", topic=topic)
    assert plan["skipped_messages"] == 10
    await run.subscription(name).moves.remove("an operator deleted it")
    await run.consumer(name)
    state, _, error = await apply(run, act_id)
    assert state == "refused"
    assert "was deleted and created again after this plan" in error
    assert run.subscription(name).cursor.backlog_messages == 10


async def test_an_act_on_a_deleted_subscription_is_not_undone_on_a_later_one(run: BrokerRun) -> None:
    await ten(run)
    act_id, _ = await done(run, "skip", {"messages": 3})
    await run.subscription().moves.remove("an operator deleted it")
    await run.consumer()
    why = await refused(run, "undo", undo_of=act_id)
    assert why == f"the subscription that act {act_id} moved was deleted, so there is nothing to undo"
