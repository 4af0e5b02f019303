"""Seek, unsubscribe and operators' acts: one at a time, completely or not at all, and recorded in the act log."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.core.errors import ConsumerNotFound, MetadataInvalid, PersistenceFailed
from broker.core.position import EARLIEST, LATEST, Position
from broker.core.subscription.types import SubscriptionType
from broker.subscription.moves import cursor_move, staged
from broker.subscription.requests import AckRequest
from tests.support.acting import answered, apply, ask, done, planned
from tests.support.broker_harness import (
    BrokerRun,
    ConsumerProbe,
    ManualClock,
    eventually,
    one_row,
    refusing,
    rows,
    running,
)
from tests.support.postgres_proxy import Moment

EXCLUSIVE, SHARED = SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED
MOVE = "UPDATE vela_cursor c SET mark_delete_ledger = $"


async def ten_delivered(
    run: BrokerRun, type_: SubscriptionType = SHARED
) -> tuple[list[Position], ConsumerProbe]:
    """Publish ten messages, deliver all to one consumer, and ack none."""
    producer = await run.producer()
    consumer = await run.consumer(type_=type_, permits=100)
    positions = await producer.publish(10)
    await consumer.has(10)
    return positions, consumer


# -- clients' own moves


@pytest.mark.parametrize("where", ["earliest", "middle", "latest"])
async def test_a_seek_closes_consumers_moves_the_cursor_and_writes_an_act(run: BrokerRun, where: str) -> None:
    positions, consumer = await ten_delivered(run)
    other = await run.consumer(name="other")
    assert await consumer.ack_durably(*positions[:7]) is None
    target, expected = {
        "earliest": (EARLIEST, positions),
        "middle": (positions[4], positions[4:]),
        "latest": (LATEST, []),
    }[where]
    assert consumer.consumer is not None
    await consumer.consumer.seek_position(target, None)
    assert consumer.closed
    assert other.closed
    assert one_row(run.database_url, "SELECT kind, state, who FROM vela_act") == ("seek", "applied", "c")
    assert one_row(run.database_url, "SELECT version FROM vela_cursor") == (1,)
    again = await run.consumer(permits=100)
    (extra,) = await (await run.producer()).publish(1)
    await again.has(len(expected) + 1)
    assert again.positions == [*expected, extra]
    assert run.subscription().cursor.backlog_messages == len(expected) + 1


async def test_a_seek_into_a_batch_keeps_its_ack_set(run: BrokerRun) -> None:
    producer = await run.producer()
    first, batch = [(await producer.publish(1, messages=5))[0] for _ in range(2)]
    consumer = await run.consumer(permits=100)
    assert consumer.consumer is not None
    await consumer.consumer.seek_position(batch, 0b11000)
    again = await run.consumer(permits=100)
    await again.has(1)
    assert again.positions == [batch]
    assert again.deliveries[0].remaining == 0b11000
    assert first < batch
    assert run.subscription().cursor.backlog_messages == 2


async def test_a_seek_by_time_finds_the_first_entry_appended_then(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, ledger_max_entries=4) as run:
        producer = await run.producer()
        positions = []
        for _ in range(10):
            positions += await producer.publish(1)
            clock.advance(1000)
        consumer = await run.consumer(permits=100)
        assert consumer.consumer is not None
        await consumer.consumer.seek_time(clock.now_ms() - 3500)
        again = await run.consumer(permits=100)
        await again.has(3)
        assert again.positions == positions[-3:]


async def test_a_reader_that_seeks_to_a_time_comes_back_to_that_place(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock) as run:
        producer = await run.producer()
        positions = []
        for _ in range(10):
            positions += await producer.publish(1)
            clock.advance(1000)
        reader = await run.consumer(subscription="r", durable=False, permits=100)
        assert reader.consumer is not None
        await reader.consumer.seek_time(clock.now_ms() - 3500)
        again = await run.consumer(subscription="r", durable=False, permits=100)  # the client names no start
        await again.has(3)
        assert again.positions == positions[-3:]
        assert again.consumer is not None
        again.consumer.detach()
        assert "r" not in run.topic().subscriptions


async def test_a_reader_that_does_not_come_back_from_its_seek_leaves_no_cursor(
    broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cursor_move, "_RETURN_S", 0.05)
    async with running(broker_url) as run:
        positions = await (await run.producer()).publish(3)
        reader = await run.consumer(subscription="r", durable=False)
        assert reader.consumer is not None
        await reader.consumer.seek_position(positions[1], None)
        assert "r" in run.topic().subscriptions
        await eventually(lambda: "r" not in run.topic().subscriptions, "the cursor to be forgotten")


async def test_a_reader_whose_seek_fails_leaves_no_cursor(
    broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> None:
        raise PersistenceFailed("the file of a ledger cannot be read")

    monkeypatch.setattr(cursor_move, "_RETURN_S", 0.05)
    async with running(broker_url) as run:
        positions = await (await run.producer()).publish(3)
        reader = await run.consumer(subscription="r", durable=False)
        monkeypatch.setattr(run.subscription(subscription="r").moves, "with_index", fails)
        assert reader.consumer is not None
        with pytest.raises(PersistenceFailed):
            await reader.consumer.seek_position(positions[1], None)
        await eventually(lambda: "r" not in run.topic().subscriptions, "the cursor to be forgotten")


async def test_acks_that_come_after_a_seek_say_so(run: BrokerRun) -> None:
    positions, consumer = await ten_delivered(run)
    assert consumer.consumer is not None
    await consumer.consumer.seek_position(EARLIEST, None)
    assert isinstance(await consumer.ack_durably(positions[0]), ConsumerNotFound)
    with pytest.raises(ConsumerNotFound):
        await consumer.consumer.seek_position(EARLIEST, None)


async def test_a_flush_under_way_does_not_undo_a_seek(run: BrokerRun) -> None:
    positions, consumer = await ten_delivered(run)
    trap = run.proxy.trap("UPDATE vela_cursor c SET mark_delete_ledger = u.", Moment.HOLD_REQUEST)
    consumer.ack(*positions)
    await trap.caught.wait()
    assert consumer.consumer is not None
    seeking = asyncio.ensure_future(consumer.consumer.seek_position(positions[2], None))
    asyncio.get_running_loop().call_later(0.05, trap.release)
    await seeking
    await run.flushed()
    assert one_row(run.database_url, "SELECT mark_delete_entry, acked_messages FROM vela_cursor") == (1, 2)


@pytest.mark.parametrize("moment", [Moment.LOSE_REQUEST, Moment.LOSE_ANSWER])
async def test_a_seek_whose_connection_is_lost_is_stored_once(run: BrokerRun, moment: Moment) -> None:
    positions, consumer = await ten_delivered(run)
    trap = run.proxy.trap(MOVE, moment)
    assert consumer.consumer is not None
    await consumer.consumer.seek_position(positions[3], None)
    assert trap.caught.is_set()
    assert one_row(run.database_url, "SELECT mark_delete_entry, version FROM vela_cursor") == (2, 1)


async def test_a_seek_stored_before_its_connection_was_lost_stays_although_the_repetition_is_refused(
    run: BrokerRun,
) -> None:
    positions, consumer = await ten_delivered(run)
    lost = run.proxy.trap(MOVE, Moment.LOSE_ANSWER)
    repetition = run.proxy.trap(MOVE, Moment.HOLD_REQUEST)
    assert consumer.consumer is not None
    seeking = asyncio.ensure_future(consumer.consumer.seek_position(positions[3], None))
    await lost.caught.wait()
    await repetition.caught.wait()
    rows(run.database_url, "ALTER TABLE vela_cursor ADD CONSTRAINT test_no CHECK (version = 0) NOT VALID")
    repetition.release()
    with pytest.raises(PersistenceFailed):
        await seeking
    again = await run.consumer(permits=100)
    await again.has(7)
    assert again.positions == positions[3:]


async def test_a_seek_goes_on_when_its_client_leaves(run: BrokerRun) -> None:
    positions, consumer = await ten_delivered(run)
    trap = run.proxy.trap(MOVE, Moment.HOLD_REQUEST)
    assert consumer.consumer is not None
    seeking = asyncio.ensure_future(consumer.consumer.seek_position(positions[3], None))
    await trap.caught.wait()
    seeking.cancel()
    await asyncio.gather(seeking, return_exceptions=True)
    trap.release()
    again = await run.consumer(permits=100)
    await again.has(7)
    assert again.positions == positions[3:]
    assert one_row(run.database_url, "SELECT mark_delete_entry FROM vela_cursor") == (2,)


async def test_a_move_that_the_database_refuses_leaves_the_cursor_where_it_was(run: BrokerRun) -> None:
    positions, consumer = await ten_delivered(run)
    assert await consumer.ack_durably(*positions[:5]) is None
    rows(run.database_url, "ALTER TABLE vela_cursor ADD CONSTRAINT test_no CHECK (version = 0)")
    assert consumer.consumer is not None
    with pytest.raises(PersistenceFailed):
        await consumer.consumer.seek_position(EARLIEST, None)
    assert one_row(run.database_url, "SELECT state FROM vela_act") == ("failed",)
    again = await run.consumer(permits=100)
    await again.has(5)
    assert again.positions == positions[5:]


async def test_a_move_that_fails_inside_the_broker_leaves_the_cursor_where_it_was(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions, consumer = await ten_delivered(run)
    assert await consumer.ack_durably(*positions[:7]) is None
    before = run.subscription().cursor.mark_delete

    async def fails(*_: object, **__: object) -> bool:
        raise TypeError("tested")

    monkeypatch.setattr(staged.StagedMove, "store", fails)
    assert consumer.consumer is not None
    with pytest.raises(TypeError, match="tested"):
        await consumer.consumer.seek_position(EARLIEST, None)
    assert run.subscription().cursor.mark_delete == before
    assert one_row(run.database_url, "SELECT state, error FROM vela_act") == ("failed", "tested")
    await run.flushed()
    assert one_row(run.database_url, "SELECT acked_messages FROM vela_cursor") == (7,)


@pytest.mark.parametrize("table", ["vela_act", "vela_subscription"])
async def test_an_unsubscribe_that_the_database_refuses_leaves_the_subscription(
    run: BrokerRun, table: str
) -> None:
    positions, consumer = await ten_delivered(run)
    assert await consumer.ack_durably(*positions[:5]) is None
    assert consumer.consumer is not None
    with (
        refusing(run.database_url, table),
        pytest.raises(PersistenceFailed, match=r"the database refused the (act|removal): not now"),
    ):
        await consumer.consumer.unsubscribe(force=False)
    assert rows(run.database_url, "SELECT state FROM vela_act") == (
        [] if table == "vela_act" else [("failed",)]
    )
    again = await run.consumer(permits=100)
    await again.has(5)
    assert again.positions == positions[5:]
    assert await again.ack_durably(positions[5]) is None
    assert one_row(run.database_url, "SELECT mark_delete_entry FROM vela_cursor") == (5,)


async def test_a_seek_whose_act_the_database_refuses_moves_nothing(run: BrokerRun) -> None:
    positions, consumer = await ten_delivered(run)
    assert consumer.consumer is not None
    with (
        refusing(run.database_url, "vela_act"),
        pytest.raises(PersistenceFailed, match="the database refused the act: not now"),
    ):
        await consumer.consumer.seek_position(positions[5], None)
    again = await run.consumer(permits=100)
    await again.has(10)
    assert again.positions == positions


async def test_unsubscribe_removes_everything_and_needs_force_while_others_are_connected(
    run: BrokerRun,
) -> None:
    positions, consumer = await ten_delivered(run)
    other = await run.consumer(name="other")
    assert await consumer.ack_durably(positions[4]) is None
    assert consumer.consumer is not None
    with pytest.raises(MetadataInvalid):
        await consumer.consumer.unsubscribe(force=False)
    await consumer.consumer.unsubscribe(force=True)
    assert other.closed
    assert not consumer.closed
    for table in ("vela_subscription", "vela_cursor", "vela_cursor_chunk", "vela_subscription_summary"):
        assert rows(run.database_url, f"SELECT * FROM {table}") == []
    assert one_row(run.database_url, "SELECT kind, state FROM vela_act") == ("unsubscribe", "applied")
    again = await run.consumer(permits=100)
    await again.has(10)


# -- operators' acts


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("reset", {"to": "earliest"}),
        ("reset", {"to": "latest"}),
        ("reset", {"to": "shift", "messages": -2}),
        ("reset", {"to": "shift", "messages": 3}),
        ("skip", {"messages": 2}),
        ("clear", {}),
    ],
)
async def test_an_act_does_what_its_plan_says(run: BrokerRun, kind: str, parameters: dict[str, Any]) -> None:
    positions, consumer = await ten_delivered(run)
    assert await consumer.ack_durably(*positions[:4], positions[6]) is None
    act_id, plan = await planned(run, kind, parameters)
    assert run.subscription().cursor.version == 0
    state, result, error = await apply(run, act_id)
    assert state == "applied", error
    cursor = run.subscription().cursor
    assert str(cursor.mark_delete) == plan["target"]["mark_delete"] == result["after"]
    assert cursor.backlog_messages == plan["target"]["backlog_messages"] == result["backlog_messages"]
    assert (plan["replayed_messages"], plan["skipped_messages"]) == (
        result["replayed_messages"],
        result["skipped_messages"],
    )
    assert bool(consumer.closed) is (kind == "reset")
    assert one_row(
        run.database_url, "SELECT mark_delete_entry, acked_messages, version FROM vela_cursor"
    ) == (
        cursor.mark_delete.entry_id,
        10 - cursor.backlog_messages,
        1,
    )


async def test_a_plan_is_refused_when_something_else_moved_the_cursor_since(run: BrokerRun) -> None:
    await ten_delivered(run)
    first, _ = await planned(run, "skip", {"messages": 2})
    second, _ = await planned(run, "clear")
    assert (await apply(run, first))[0] == "applied"
    state, _, error = await apply(run, second)
    assert state == "refused"
    assert "plan again" in error


async def test_a_receipt_counts_acks_since_the_plan_and_new_messages_are_not_skipped(run: BrokerRun) -> None:
    positions, consumer = await ten_delivered(run)
    act_id, plan = await planned(run, "clear")
    assert plan["skipped_messages"] == 10
    consumer.ack(*positions[:3])
    (later,) = await (await run.producer()).publish(1)
    state, result, error = await apply(run, act_id)
    assert state == "applied", error
    assert result["skipped_messages"] == 7
    assert result["acked_meanwhile_messages"] == 3
    assert run.subscription().cursor.backlog_messages == 1
    await consumer.has(11)
    assert consumer.positions[-1] == later


async def test_acks_that_come_while_a_skip_is_being_stored_count_and_survive_its_undo(run: BrokerRun) -> None:
    positions, consumer = await ten_delivered(run)
    act_id, _ = await planned(run, "skip", {"messages": 4})
    trap = run.proxy.trap(MOVE, Moment.HOLD_REQUEST)
    applying = asyncio.ensure_future(apply(run, act_id))
    await trap.caught.wait()
    receipts: list[object] = []
    assert consumer.consumer is not None
    consumer.consumer.ack(
        [AckRequest(positions[1]), AckRequest(positions[7])], cumulative=False, on_durable=receipts.append
    )
    trap.release()
    assert (await applying)[0] == "applied"
    await eventually(lambda: receipts, "the ack's receipt")
    assert receipts == [None]
    assert run.subscription().cursor.backlog_messages == 5
    undo, plan = await planned(run, "undo", undo_of=act_id)
    assert plan["replayed_messages"] == 3
    assert (await apply(run, undo))[0] == "applied"
    again = await run.consumer(permits=100)
    await again.has(8)
    assert set(again.positions) == set(positions) - {positions[1], positions[7]}


async def test_an_undo_keeps_acks_made_since(run: BrokerRun) -> None:
    positions, consumer = await ten_delivered(run)
    assert await consumer.ack_durably(*positions[:5]) is None
    act_id, _ = await planned(run, "reset", {"to": "earliest"})
    assert (await apply(run, act_id))[0] == "applied"
    again = await run.consumer(permits=100)
    await again.has(10)
    assert await again.ack_durably(positions[0], positions[8]) is None
    undo, plan = await planned(run, "undo", undo_of=act_id)
    assert (await apply(run, undo))[0] == "applied"
    assert run.subscription().cursor.backlog_messages == 4 == plan["target"]["backlog_messages"]
    last = await run.consumer(permits=100)
    await last.has(4)
    assert last.positions == [positions[5], positions[6], positions[7], positions[9]]


async def test_only_the_latest_act_can_be_undone_and_only_in_time(broker_url: str) -> None:
    async with running(broker_url, undo_window_s=3600) as run:
        await ten_delivered(run)
        first, _ = await planned(run, "skip", {"messages": 2})
        assert (await apply(run, first))[0] == "applied"
        second, _ = await planned(run, "skip", {"messages": 2})
        assert (await apply(run, second))[0] == "applied"
        state, _, _, error = await answered(run, await ask(run, "undo", undo_of=first))
        assert (state, "latest" in error) == ("refused", True)
        rows(broker_url, "UPDATE vela_act SET undo_until = now() - interval '1 second' WHERE id = %s", second)
        state, _, _, error = await answered(run, await ask(run, "undo", undo_of=second))
        assert (state, "over" in error) == ("refused", True)


async def test_an_act_asked_for_while_no_broker_runs_waits_and_an_old_one_expires(broker_url: str) -> None:
    async with running(broker_url) as run:
        await ten_delivered(run)
    old = await ask(run, "clear")
    rows(broker_url, "UPDATE vela_act SET requested_at = now() - interval '700 seconds' WHERE id = %s", old)
    fresh = await ask(run, "clear")
    async with running(broker_url) as again:
        assert (await answered(again, old))[0] == "expired"
        assert (await answered(again, fresh))[0] == "planned"
        assert again.subscription().cursor.backlog_messages == 10


async def test_commands_of_clients_that_a_dead_broker_left_are_ended(broker_url: str) -> None:
    def left_behind(kind: str, *, is_gone: bool = False) -> int:
        (act_id,) = one_row(
            broker_url,
            "INSERT INTO vela_act (kind, state, subscription_id, topic_name, subscription_name, parameters, error, who,"
            " origin, reason, created_at, requested_at) SELECT %s, 'client', CASE WHEN NOT %s THEN id END, 't', 's',"
            " '{}', '', 'c', 'client 127.0.0.1:5', '', now(), now() FROM vela_subscription RETURNING id",
            kind,
            is_gone,
        )
        return int(act_id)

    async with running(broker_url) as run:
        await run.consumer()
        await run.crash()
    seek, unsubscribe = left_behind("seek"), left_behind("unsubscribe")
    removed = [left_behind(kind, is_gone=True) for kind in ("unsubscribe", "expire_subscription")]
    async with running(broker_url) as run:
        await run.consumer()
        await done(run, "pause")
        found = rows(
            broker_url, "SELECT id, state, error FROM vela_act WHERE origin LIKE 'client %%' ORDER BY id"
        )
        why = "the broker stopped before it had done this"
        assert found == [
            (seek, "failed", why),
            (unsubscribe, "failed", why),
            *((each, "applied", "") for each in removed),
        ]


async def test_a_deletion_that_the_database_refuses_leaves_the_subscription(run: BrokerRun) -> None:
    positions, _ = await ten_delivered(run)
    act_id, _ = await planned(run, "delete_subscription", {"force": True})
    with refusing(run.database_url, "vela_subscription"):
        state, _, error = await apply(run, act_id)
    assert (state, error) == ("refused", "the database refused the removal: not now")
    again = await run.consumer(permits=100)
    await again.has(10)
    assert again.positions == positions


async def test_an_act_on_a_deleted_subscription_is_refused(run: BrokerRun) -> None:
    _, consumer = await ten_delivered(run)
    act_id, _ = await planned(run, "clear")
    assert consumer.consumer is not None
    await consumer.consumer.unsubscribe(force=False)
    state, _, error = await apply(run, act_id)
    assert state == "refused"
    assert "does not exist" in error


async def test_a_broker_without_the_lock_answers_no_acts(run: BrokerRun) -> None:
    await ten_delivered(run)
    trap = run.proxy.trap("pg_try_advisory_lock", Moment.HOLD_REQUEST)
    run.proxy.cut("lock")
    await trap.caught.wait()
    act_id = await ask(run, "clear")
    run.broker.acts.wake()
    await asyncio.wait_for(run.flushed(), 5)
    assert one_row(run.database_url, "SELECT state FROM vela_act WHERE id = %s", act_id) == (
        "plan_requested",
    )
    trap.release()
    assert (await answered(run, act_id))[0] == "planned"


async def test_a_skip_keeps_consumers_and_drops_their_pending_entries_below_it(run: BrokerRun) -> None:
    positions, consumer = await ten_delivered(run)
    act_id, plan = await planned(run, "skip", {"messages": 6})
    assert plan["in_flight_messages"] == 10
    assert (await apply(run, act_id))[0] == "applied"
    assert not consumer.closed
    await eventually(
        lambda: run.subscription().dispatcher.unacked_messages == 4, "what was skipped to be dropped"
    )
    assert consumer.consumer is not None
    consumer.consumer.redeliver(None)
    await consumer.has(14)
    assert consumer.positions[10:] == positions[6:]
