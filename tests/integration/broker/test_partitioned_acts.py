"""Acts on several partitions of a topic: one plan, one apply, one receipt, one undo."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from broker.core.errors import TopicFenced
from broker.core.position import Position
from tests.integration.broker.acting import partitioned
from tests.support.acting import answered, apply, done, planned, refused
from tests.support.broker_harness import BrokerRun, ConsumerProbe, eventually, one_row, rows, running
from tests.support.postgres_proxy import Moment


def of(partition: int) -> str:
    return f"p-partition-{partition}"


async def three(run: BrokerRun, *, acked: Sequence[int] = (4, 0, 10)) -> list[list[Position]]:
    """Publish ten messages to each of three partitions, and ack the first messages of each."""
    await partitioned(run, 3)
    positions = []
    for partition in range(3):
        consumer = await run.consumer(of(partition), permits=100)
        positions.append(await (await run.producer(of(partition))).publish(10))
        await consumer.has(10)
        if acked[partition]:
            assert await consumer.ack_durably(*positions[partition][: acked[partition]]) is None
        assert consumer.consumer is not None
        consumer.consumer.detach()
    return positions


def backlogs(run: BrokerRun) -> list[int]:
    return [run.subscription(of(each)).cursor.backlog_messages for each in range(3)]


def stored(run: BrokerRun) -> list[tuple[Any, ...]]:
    """Return all rows of the cursors in PostgreSQL."""
    return rows(run.database_url, "SELECT * FROM vela_cursor ORDER BY subscription_id") + rows(
        run.database_url, "SELECT * FROM vela_cursor_chunk ORDER BY cursor_id, ledger_id, chunk"
    )


def per_partition(shown: dict[str, Any], name: str) -> list[Any]:
    return [each.get(name) for each in shown["partitions"]]


async def rest_at(run: BrokerRun, partition: int) -> ConsumerProbe:
    consumer = await run.consumer(of(partition), permits=1000)
    if waiting := run.subscription(of(partition)).cursor.backlog_entries:
        await consumer.has(waiting)
    return consumer


async def test_a_reset_of_all_partitions_is_one_plan_one_receipt_and_one_undo(run: BrokerRun) -> None:
    positions = await three(run)
    act_id, plan = await planned(run, "reset", {"to": "earliest"}, topic="p")
    assert plan["replayed_messages"] == 14
    assert (plan["current"]["backlog_messages"], plan["target"]["backlog_messages"]) == (16, 30)
    assert per_partition(plan, "replayed_messages") == [4, 0, 10]
    assert per_partition(plan, "partition") == [0, 1, 2]
    assert backlogs(run) == [6, 10, 0]  # a plan changes nothing

    state, result, error = await apply(run, act_id)
    assert (state, error) == ("applied", "")
    assert (result["replayed_messages"], result["backlog_messages"]) == (14, 30)
    assert per_partition(result, "replayed_messages") == [4, 0, 10]
    assert per_partition(result, "after") == [str(Position(each[0].ledger_id, -1)) for each in positions]
    assert backlogs(run) == [10, 10, 10]
    consumers = [await rest_at(run, each) for each in range(3)]
    assert [each.positions for each in consumers] == positions
    assert await consumers[1].ack_durably(*positions[1][:2]) is None  # an undo keeps this ack

    undo_id, undo = await planned(run, "undo", topic="p", undo_of=act_id)
    assert undo["skipped_messages"] == 14
    state, result, error = await apply(run, undo_id)
    assert (state, error) == ("applied", "")
    assert backlogs(run) == [6, 8, 0]
    assert per_partition(result, "skipped_messages") == [4, 0, 10]
    assert one_row(
        run.database_url,
        "SELECT count(*), count(DISTINCT topic_id), count(cursor_before) FROM vela_act WHERE part_of_id = %s"
        " AND undo_of_id IN (SELECT id FROM vela_act WHERE part_of_id = %s)",
        undo_id,
        act_id,
    ) == (3, 3, 3)


async def test_only_the_chosen_partitions_move(run: BrokerRun) -> None:
    await three(run)
    _, result = await done(run, "reset", {"to": "earliest", "partitions": "0,2"}, topic="p")
    assert per_partition(result, "partition") == [0, 2]
    assert backlogs(run) == [10, 10, 10]
    _, result = await done(run, "clear", {"partitions": "1-2"}, topic="p")
    assert per_partition(result, "skipped_messages") == [10, 10]
    assert backlogs(run) == [10, 0, 0]
    await done(run, "skip", {"messages": 4, "partitions": "0"}, topic="p")
    assert backlogs(run) == [6, 0, 0]


async def test_if_one_cursor_moved_after_the_plan_nothing_moves_and_the_answer_names_it(
    run: BrokerRun,
) -> None:
    await three(run)
    act_id, _ = await planned(run, "reset", {"to": "earliest"}, topic="p")
    await done(run, "skip", {"messages": 1}, topic=of(1))
    before = stored(run)
    state, _, error = await apply(run, act_id)
    assert state == "refused"
    assert error.startswith("partition 1: another act or a client's seek moved the cursor")
    assert stored(run) == before
    assert backlogs(run) == [6, 9, 0]
    assert rows(run.database_url, "SELECT id FROM vela_act WHERE part_of_id IS NOT NULL") == []


async def test_an_act_that_waited_while_one_subscription_was_deleted_closes_no_consumers(
    run: BrokerRun,
) -> None:
    await three(run)
    consumer = await run.consumer(of(0))
    act_id, _ = await planned(run, "reset", {"to": "earliest"}, topic="p")
    moves = run.subscription(of(0)).moves
    async with moves.idle():
        act = asyncio.create_task(apply(run, act_id))
        await eventually(lambda: moves._resets == 1, "the act to wait for its turn")
        await run.subscription(of(1)).moves.remove("an operator deleted it")
    _, _, error = await act
    assert error == "partition 1: subscription s was deleted meanwhile"
    assert consumer.closed == []
    assert run.subscription(of(0)).cursor.backlog_messages == 6


async def test_a_plan_that_has_grown_is_refused_and_a_new_one_for_all_partitions_is_made(
    run: BrokerRun,
) -> None:
    positions = await three(run, acked=(4, 0, 9))
    act_id, _ = await planned(run, "reset", {"to": "earliest"}, topic="p")
    late = await run.consumer(of(2), permits=10)
    await late.has(1)
    assert await late.ack_durably(positions[2][9]) is None
    rows(run.database_url, "UPDATE vela_act SET plan = plan || '{\"allowed_drift_messages\": 0}'")
    state, result, error = await apply(run, act_id)
    assert state == "refused"
    assert "14 messages would be delivered again" in error
    assert "partition 2 has grown most" in error
    assert not late.closed
    new = result["new_plan"]
    _, plan, _, _ = await answered(run, new)
    assert per_partition(plan, "replayed_messages") == [4, 0, 10]
    state, result, error = await apply(run, new)
    assert (state, error) == ("applied", "")
    assert backlogs(run) == [10, 10, 10]


async def test_an_undo_is_refused_as_a_whole_if_a_later_act_moved_one_of_the_cursors(run: BrokerRun) -> None:
    await three(run)
    act_id, _ = await done(run, "reset", {"to": "earliest"}, topic="p")
    later, _ = await done(run, "skip", {"messages": 1}, topic=of(2))
    error = await refused(run, "undo", topic="p", undo_of=act_id)
    assert error == f"partition 2: only the latest act on a cursor can be undone, and that is act {later}"
    assert backlogs(run) == [10, 10, 9]
    (part,) = one_row(
        run.database_url,
        "SELECT id FROM vela_act WHERE part_of_id = %s AND topic_name LIKE '%%-0'",
        act_id,
    )
    # The act's part for one partition can still be undone if no later act moved that cursor.
    await done(run, "undo", topic=of(0), undo_of=part)
    assert backlogs(run) == [6, 10, 9]


async def test_a_failed_transaction_moves_no_cursor(run: BrokerRun, monkeypatch: pytest.MonkeyPatch) -> None:
    await three(run)
    act_id, _ = await planned(run, "reset", {"to": "earliest"}, topic="p")
    before = stored(run)
    rows(
        run.database_url,
        "ALTER TABLE vela_cursor ADD CONSTRAINT test_no CHECK (acked_messages <> 0) NOT VALID",
    )
    state, _, error = await apply(run, act_id)
    assert state == "refused"
    assert error.startswith("the database refused the moves")
    assert (stored(run), backlogs(run)) == (before, [6, 10, 0])
    rows(run.database_url, "ALTER TABLE vela_cursor DROP CONSTRAINT test_no")
    assert run.topic(of(0)).is_open
    assert (await rest_at(run, 0)).positions != []


async def test_if_another_broker_took_a_partition_no_cursor_moves(run: BrokerRun) -> None:
    await three(run)
    act_id, _ = await planned(run, "reset", {"to": "earliest"}, topic="p")
    before = stored(run)
    rows(
        run.database_url,
        "UPDATE vela_topic_owner SET owner_epoch = owner_epoch + 1000, owner_token = 1 WHERE topic_id ="
        " (SELECT id FROM vela_topic WHERE partition = 1)",
    )
    state, _, error = await apply(run, act_id)
    assert (state, error) == ("refused", "a partition moved to another broker")
    assert stored(run) == before
    assert run.subscription(of(0)).cursor.backlog_messages == 6


@pytest.mark.parametrize(
    "moment", [Moment.LOSE_REQUEST, Moment.LOSE_ANSWER, Moment.LATE_REQUEST], ids=lambda each: each.name
)
async def test_a_connection_lost_around_the_commit_moves_all_cursors_once(
    run: BrokerRun, moment: Moment
) -> None:
    await three(run)
    act_id, _ = await planned(run, "reset", {"to": "earliest"}, topic="p")
    trap = run.proxy.trap("COMMIT", moment, connection="work")
    applying = asyncio.create_task(apply(run, act_id))
    await trap.caught.wait()
    trap.release()
    state, result, error = await applying
    assert (state, error) == ("applied", "")
    assert result["replayed_messages"] == 14
    assert backlogs(run) == [10, 10, 10]
    assert one_row(run.database_url, "SELECT count(*) FROM vela_act WHERE part_of_id = %s", act_id) == (3,)


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE vela_topic_owner SET owner_epoch = owner_epoch + 9 WHERE topic_id = (SELECT max(id) FROM vela_topic)",
        "ALTER TABLE vela_cursor ADD CONSTRAINT test_no CHECK (acked_messages <> 0) NOT VALID",
    ],
    ids=["another broker took a partition", "the database refuses"],
)
async def test_moves_stored_before_their_connection_was_lost_stay_although_the_repetition_fails(
    run: BrokerRun, sql: str
) -> None:
    await three(run)
    moves = [run.subscription(of(each)).moves for each in range(3)]
    act_id, _ = await planned(run, "reset", {"to": "earliest"}, topic="p")
    commit = run.proxy.trap("COMMIT", Moment.LOSE_ANSWER, connection="work")
    applying = asyncio.create_task(apply(run, act_id))
    await commit.caught.wait()
    repetition = run.proxy.trap("owner_epoch) IN (SELECT", Moment.HOLD_REQUEST, connection="work")
    await repetition.caught.wait()
    rows(run.database_url, sql)
    repetition.release()
    assert (await applying)[0] == "applied"
    await eventually(lambda: not any(each.is_busy for each in moves), "the act to end")
    for each in range(3):
        await run.consumer(of(each))
    assert backlogs(run) == [10, 10, 10]


@pytest.mark.parametrize("is_planned", [False, True])
async def test_a_broker_killed_after_the_request_leaves_the_act_to_the_next_one(
    broker_url: str, is_planned: bool
) -> None:
    async with running(broker_url) as run:
        await three(run)
        await run.flushed()
        act_id, _ = await planned(run, "reset", {"to": "earliest"}, topic="p")
        await run.crash()
    if not is_planned:
        rows(broker_url, "UPDATE vela_act SET state = 'plan_requested', plan = NULL WHERE id = %s", act_id)
    async with running(broker_url) as run:
        state, plan, _, error = await answered(run, act_id)
        assert (state, error) == ("planned", "")
        assert plan["replayed_messages"] == 14
        state, result, error = await apply(run, act_id)
        assert (state, error) == ("applied", "")
        assert per_partition(result, "replayed_messages") == [4, 0, 10]
        await run.crash()
    async with running(broker_url) as run:
        for each in range(3):
            await run.consumer(of(each))
        assert backlogs(run) == [10, 10, 10]
        _, result = await done(run, "undo", topic="p", undo_of=act_id)
        assert backlogs(run) == [6, 10, 0]


@pytest.mark.parametrize(
    ("kind", "parameters", "why"),
    [
        ("skip", {"messages": 3}, "no common order: choose one partition"),
        ("reset", {"to": "shift", "messages": -3}, "no common order: choose one partition"),
        ("reset", {"to": "earliest", "partitions": "0,3"}, "has no partition 3: its last one is 2"),
        ("reset", {"to": "earliest", "partitions": "some"}, "write the partitions like 0,2,5-7"),
        ("reset", {"to": "earliest", "partitions": "2-1"}, "1 is less than 2"),
        ("reset", {"to": "bookmark", "bookmark": "none"}, "partition 0: "),
        ("skip_one", {"id": "1:1:7"}, "has no partition 7"),
        ("skip_one", {"id": "99999:1"}, "no partition of persistent://public/default/p has ledger 99999"),
        ("redrive", {}, "redrive acts on one topic: choose one partition"),
        ("disconnect", {"consumer": "nobody"}, "no consumer 'nobody' is connected to s"),
        ("expire", {"to": "id", "id": "7"}, "write it as ledger:entry"),
        ("resume", {}, "s is not paused: there is nothing to resume"),
    ],
)
async def test_an_act_that_cannot_be_planned_says_why(
    run: BrokerRun, kind: str, parameters: dict[str, Any], why: str
) -> None:
    await three(run)
    assert why in await refused(run, kind, parameters, topic="p")


async def test_partitions_of_a_topic_that_has_none_are_refused(run: BrokerRun) -> None:
    await run.consumer()
    assert await refused(run, "clear", {"partitions": "0"}) == (
        "persistent://public/default/t is not partitioned: leave out the parameter partitions"
    )


async def test_partitions_that_lack_the_subscription_are_left_out(run: BrokerRun) -> None:
    await three(run)
    await done(run, "delete_subscription", topic=of(1))
    act_id, plan = await planned(run, "clear", topic="p")
    assert [bool(each) for each in per_partition(plan, "left_out")] == [False, True, False]
    assert "partition 1: subscription s of" in plan["notes"][-1]
    state, result, _ = await apply(run, act_id)
    assert (state, per_partition(result, "partition")) == ("applied", [0, 2])


async def test_one_message_is_skipped_on_its_partition(run: BrokerRun) -> None:
    positions = await three(run)
    poison = positions[1][5]
    _, result = await done(run, "skip_one", {"id": f"{poison}:1"}, topic="p")
    assert per_partition(result, "partition") == [1]
    _, result = await done(run, "skip_one", {"id": str(positions[0][7])}, topic="p")  # found by its ledger
    assert per_partition(result, "partition") == [0]
    assert backlogs(run) == [5, 9, 0]
    why = await refused(run, "skip_one", {"id": f"{poison}:1", "partitions": "0"}, topic="p")
    assert "is in partition 1, which the parameter partitions does not name" in why


async def test_pause_and_resume_leave_out_the_partitions_that_need_no_change(run: BrokerRun) -> None:
    await three(run)
    await done(run, "pause", topic=of(1))
    act_id, plan = await planned(run, "pause", topic="p")
    assert per_partition(plan, "left_out") == [None, "s is already paused", None]
    assert plan["notes"][-1] == "partition 1: s is already paused"
    state, result, error = await apply(run, act_id)
    assert (state, error) == ("applied", "")
    assert per_partition(result, "partition") == [0, 2]
    assert [run.subscription(of(each)).is_paused for each in range(3)] == [True, True, True]
    assert await refused(run, "pause", topic="p") == "s is already paused"
    await done(run, "resume", topic="p")
    assert [run.subscription(of(each)).is_paused for each in range(3)] == [False, False, False]
    assert one_row(
        run.database_url,
        "SELECT count(*) FROM vela_act WHERE kind = 'resume' AND state = 'applied' AND subscription_id IS NOT NULL",
    ) == (3,)


async def test_a_consumer_is_disconnected_wherever_it_is(run: BrokerRun) -> None:
    await three(run)
    first = await run.consumer(of(0), name="ada", permits=100)
    third = await run.consumer(of(2), name="ada")
    other = await run.consumer(of(1), name="bob")
    await first.has(6)
    _, result = await done(run, "redeliver", {"consumer": "ada"}, topic="p")
    await first.has(12)
    assert per_partition(result, "partition") == [0, 2]
    _, result = await done(run, "disconnect", {"consumer": "ada"}, topic="p")
    assert result["consumers_closed"] == 2
    assert (bool(first.closed), bool(third.closed), bool(other.closed)) == (True, True, False)


async def test_a_subscription_and_a_bookmark_are_created_and_deleted_on_all_partitions(
    run: BrokerRun,
) -> None:
    await three(run)
    about: dict[str, Any] = {"topic": "p", "subscription": None}
    await done(run, "create_bookmark", {"to": "latest", "name": "b", "partitions": "0-1"}, **about)
    _, plan = await planned(run, "create_bookmark", {"to": "latest", "name": "b"}, **about)
    assert [bool(each) for each in per_partition(plan, "left_out")] == [True, True, False]
    await done(run, "create_bookmark", {"to": "latest", "name": "b"}, **about)
    await done(run, "create_subscription", {"to": "bookmark", "bookmark": "b", "name": "new"}, **about)
    assert [run.subscription(of(each), "new").cursor.backlog_messages for each in range(3)] == [0, 0, 0]
    await done(run, "reset", {"to": "earliest"}, topic="p", subscription="new")
    await done(run, "delete_bookmark", {"name": "b"}, **about)
    act_id, plan = await planned(run, "delete_subscription", topic="p", subscription="new")
    assert (plan["skipped_messages"], plan["standing"]["count"]) == (30, 3)
    await (await run.producer(of(1))).publish(1)
    state, result, error = await apply(run, act_id)
    assert state == "refused"
    assert error.startswith("1 message published after the plan would be lost")
    assert error.endswith("partition 1 has more of them than any other")
    state, result, error = await apply(run, result["new_plan"])
    assert (state, error, result["skipped_messages"]) == ("applied", "", 31)
    assert rows(run.database_url, "SELECT 1 FROM vela_subscription WHERE name = 'new'") == []


async def test_a_new_plan_of_a_deletion_leaves_out_the_partitions_where_nothing_is_left(
    run: BrokerRun,
) -> None:
    await three(run)
    act_id, _ = await planned(run, "delete_subscription", topic="p")
    await done(run, "delete_subscription", topic=of(1))
    await (await run.producer(of(0))).publish(1)
    state, result, error = await apply(run, act_id)
    assert (state, error.split(",")[0]) == ("refused", "1 message published after the plan would be lost")
    plan = one_row(run.database_url, "SELECT plan FROM vela_act WHERE id = %s", result["new_plan"])[0]
    assert [bool(each) for each in per_partition(plan, "left_out")] == [False, True, False]
    assert (plan["skipped_messages"], plan["standing"]["count"]) == (7, 2)
    state, result, error = await apply(run, result["new_plan"])
    assert (state, error, per_partition(result, "partition")) == ("applied", "", [0, 2])


async def test_a_partial_result_says_which_partitions_are_done_and_the_rest_can_follow(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    await three(run)
    act_id, _ = await planned(run, "pause", topic="p")
    second = run.topic(of(1))

    async def taken(*_: object, **__: object) -> None:
        raise TopicFenced("the topic moved to another broker")

    with monkeypatch.context() as patched:
        patched.setattr(type(second), "write", _failing_for(second, type(second).write, taken))
        state, result, error = await apply(run, act_id)
    assert state == "failed"
    assert error.startswith("partition 1: the topic moved to another broker; plan the act again")
    assert [bool(each) for each in per_partition(result, "error")] == [False, True, True]
    assert one_row(run.database_url, "SELECT count(*) FROM vela_act WHERE part_of_id = %s", act_id) == (1,)
    run.subscription(of(1)).resume()
    _, result = await done(run, "pause", topic="p")
    assert per_partition(result, "partition") == [1, 2]


def _failing_for(topic: object, write: Any, fails: Any) -> Any:
    def chosen(self: object, *arguments: Any, **named: Any) -> Any:
        return fails() if self is topic else write(self, *arguments, **named)

    return chosen


@pytest.mark.parametrize("topic", ["p", "p-partition-1"])
async def test_a_broker_stopped_in_the_middle_of_a_move_stores_it_with_its_act_or_not_at_all(
    broker_url: str, topic: str
) -> None:
    """An ack during the move makes the cursor dirty, but the last flush must not store the moved cursor."""
    async with running(broker_url) as run:
        positions = await three(run, acked=(0, 0, 0))
        consumer = await run.consumer(of(1), permits=100)
        await consumer.has(10)
        act_id, _ = await planned(run, "clear", topic=topic)
        before = stored(run)
        trap = run.proxy.trap("UPDATE vela_act SET state = 'applied'", Moment.HOLD_REQUEST)
        rows(
            broker_url,
            "UPDATE vela_act SET state = 'apply_requested', requested_at = now() WHERE id = %s",
            act_id,
        )
        rows(broker_url, "SELECT pg_notify('vela_act', '')")
        await trap.caught.wait()
        consumer.ack(positions[1][0])
        await run.broker.stop()
        assert stored(run) == before
    async with running(broker_url) as run:
        state, _, _, error = await answered(run, act_id)
        assert state == "applied", error


async def test_a_stop_waits_for_the_act_under_way(broker_url: str) -> None:
    async with running(broker_url) as run:
        await three(run)
        act_id, _ = await planned(run, "clear", topic="p")
        trap = run.proxy.trap("UPDATE vela_act SET state = 'applied'", Moment.HOLD_REQUEST)
        rows(
            broker_url,
            "UPDATE vela_act SET state = 'apply_requested', requested_at = now() WHERE id = %s",
            act_id,
        )
        rows(broker_url, "SELECT pg_notify('vela_act', '')")
        await trap.caught.wait()
        stopping = asyncio.create_task(run.broker.stop())
        await asyncio.sleep(0)
        trap.release()
        await stopping
    assert one_row(broker_url, "SELECT state FROM vela_act WHERE id = %s", act_id) == ("applied",)
