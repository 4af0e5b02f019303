"""Lost, repeated or late statements of pauses, of bookmarks, and of acks kept for an undo.

broker/storage/sql/README.md has a table of these races.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.concurrency.test_late_statements import advanced_but_not_told
from tests.support.acting import answered, apply, ask, done, planned
from tests.support.broker_harness import BrokerRun, eventually, one_row, rows, running
from tests.support.postgres_proxy import Moment

PAUSE = "UPDATE vela_subscription s SET paused"
MAKE = "INSERT INTO vela_bookmark"
REMOVE = "DELETE FROM vela_bookmark b USING o WHERE b.topic_id = o.topic_id AND b.name"
OVERLAY = "UPDATE vela_act a SET acked_since"
IS_PAUSED = "SELECT paused FROM vela_subscription"
BOOKMARKS = "SELECT name, ledger_id, entry_id FROM vela_bookmark"


async def test_a_late_pause_does_not_take_back_a_resume(run: BrokerRun) -> None:
    await (await run.producer()).publish(1)
    consumer = await run.consumer()
    trap = run.proxy.trap(PAUSE, Moment.LATE_REQUEST)
    await done(run, "pause")
    assert trap.caught.is_set()
    assert one_row(run.database_url, IS_PAUSED) == (True,)
    await done(run, "resume")
    trap.release()
    await trap.passed.wait()
    assert one_row(run.database_url, IS_PAUSED) == (False,)
    consumer.flow(1)
    await consumer.has(1)


@pytest.mark.parametrize("kind", ["pause", "resume"])
async def test_a_pause_whose_answer_is_lost_is_repeated_and_outlives_the_broker(
    broker_url: str, kind: str
) -> None:
    async with running(broker_url) as run:
        await (await run.producer()).publish(1)
        await run.consumer()
        if kind == "resume":
            await done(run, "pause")
        trap = run.proxy.trap(PAUSE, Moment.LOSE_ANSWER)
        await done(run, kind)
        assert trap.caught.is_set()
        assert run.subscription().is_paused is (kind == "pause")
    async with running(broker_url) as again:
        consumer = await again.consumer(permits=1)
        assert again.subscription().is_paused is (kind == "pause")
        if kind == "pause":
            assert consumer.deliveries == []
            await done(again, "resume")
        await consumer.has(1)


async def test_a_pause_fenced_by_this_process_itself_is_repeated(run: BrokerRun) -> None:
    await (await run.producer()).publish(1)
    consumer = await run.consumer()
    act_id, _ = await planned(run, "pause")
    advancing, _ = await advanced_but_not_told(run, run.topic())
    assert (await apply(run, act_id))[0] == "applied"
    await advancing
    assert one_row(run.database_url, IS_PAUSED) == (True,)
    assert not consumer.closed


async def test_nothing_is_delivered_while_a_pause_is_stored(run: BrokerRun) -> None:
    producer = await run.producer()
    consumer = await run.consumer(permits=10)
    act_id, _ = await planned(run, "pause")
    trap = run.proxy.trap(PAUSE, Moment.HOLD_ANSWER)
    applying = asyncio.ensure_future(apply(run, act_id))
    await trap.caught.wait()
    await producer.publish(2)
    assert consumer.deliveries == []
    trap.release()
    assert (await applying)[0] == "applied"
    assert consumer.deliveries == []
    await done(run, "resume")
    await consumer.has(2)


async def test_a_late_bookmark_is_not_made_again_after_it_was_removed(run: BrokerRun) -> None:
    await (await run.producer()).publish(1)
    trap = run.proxy.trap(MAKE, Moment.LATE_REQUEST)
    await done(run, "create_bookmark", {"name": "b", "to": "earliest"}, subscription=None)
    assert trap.caught.is_set()
    await done(run, "delete_bookmark", {"name": "b"}, subscription=None)
    trap.release()
    await trap.passed.wait()
    assert rows(run.database_url, BOOKMARKS) == []


async def test_a_late_removal_does_not_take_a_bookmark_made_since(run: BrokerRun) -> None:
    positions = await (await run.producer()).publish(2)
    await done(run, "create_bookmark", {"name": "b", "to": "earliest"}, subscription=None)
    trap = run.proxy.trap(REMOVE, Moment.LATE_REQUEST)
    await done(run, "delete_bookmark", {"name": "b"}, subscription=None)
    assert trap.caught.is_set()
    made = {"name": "b", "to": "id", "id": str(positions[1])}
    await done(run, "create_bookmark", made, subscription=None)
    trap.release()
    await trap.passed.wait()
    assert rows(run.database_url, BOOKMARKS) == [("b", *positions[1])]


async def test_a_bookmark_whose_answer_is_lost_is_created_once_and_removed_once(run: BrokerRun) -> None:
    positions = await (await run.producer()).publish(2)
    trap = run.proxy.trap(MAKE, Moment.LOSE_ANSWER)
    await done(run, "create_bookmark", {"name": "b", "to": "earliest"}, subscription=None)
    assert trap.caught.is_set()
    assert rows(run.database_url, BOOKMARKS) == [("b", *positions[0])]
    trap = run.proxy.trap(REMOVE, Moment.LOSE_ANSWER)
    await done(run, "delete_bookmark", {"name": "b"}, subscription=None)
    assert trap.caught.is_set()
    assert rows(run.database_url, BOOKMARKS) == []


async def test_the_second_of_two_plans_with_one_name_is_refused(run: BrokerRun) -> None:
    positions = await (await run.producer()).publish(2)
    there = {"name": "b", "to": "id", "id": str(positions[1])}
    first, _ = await planned(run, "create_bookmark", {"name": "b", "to": "earliest"}, subscription=None)
    second, _ = await planned(run, "create_bookmark", there, subscription=None)
    assert (await apply(run, first))[0] == "applied"
    state, _, error = await apply(run, second)
    assert state == "refused"
    assert f"b is already at {positions[0]}" in error
    assert rows(run.database_url, BOOKMARKS) == [("b", *positions[0])]
    state, _, _, error = await answered(run, await ask(run, "create_bookmark", there, subscription=None))
    assert state == "refused", error


async def test_a_late_store_of_acks_kept_for_an_undo_removes_no_later_ack(broker_url: str) -> None:
    async with running(broker_url) as run:
        positions = await (await run.producer()).publish(6)
        consumer = await run.consumer(permits=10)
        await consumer.has(6)
        act_id, _ = await done(run, "skip", {"messages": 4})
        trap = run.proxy.trap(OVERLAY, Moment.LATE_REQUEST)
        first = asyncio.ensure_future(consumer.ack_durably(positions[0]))
        await trap.caught.wait()
        assert await first is None
        assert await consumer.ack_durably(positions[2]) is None
        trap.release()
        await trap.passed.wait()
    async with running(broker_url) as again:
        await again.consumer()
        undo, _ = await planned(again, "undo", undo_of=act_id)
        assert (await apply(again, undo))[0] == "applied"
        last = await again.consumer(permits=10)
        await last.has(4)
        assert last.positions == [positions[at] for at in (1, 3, 4, 5)]


async def test_acks_kept_for_an_undo_are_stored_when_this_process_itself_fenced_them(broker_url: str) -> None:
    async with running(broker_url) as run:
        positions = await (await run.producer()).publish(4)
        consumer = await run.consumer(permits=10)
        await consumer.has(4)
        act_id, _ = await done(run, "skip", {"messages": 3})
        advancing, _ = await advanced_but_not_told(run, run.topic())
        assert await consumer.ack_durably(positions[1]) is None
        await advancing
        await eventually(
            lambda: one_row(broker_url, "SELECT acked_since IS NOT NULL FROM vela_act WHERE id = %s", act_id)[
                0
            ],
            "the acks to be stored",
        )
    async with running(broker_url) as again:
        await again.consumer()
        undo, _ = await planned(again, "undo", undo_of=act_id)
        assert (await apply(again, undo))[0] == "applied"
        last = await again.consumer(permits=10)
        await last.has(3)
        assert last.positions == [positions[at] for at in (0, 2, 3)]
