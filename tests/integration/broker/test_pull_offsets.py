"""Offsets that consumer groups commit, against a real log."""

from __future__ import annotations

import pytest

from broker.core.errors import NotAllowed, SubscriptionBusy, SubscriptionNotFound
from tests.integration.broker.pulls import (
    TOPIC,
    ask,
    numbers,
    parked,
    publish,
    publish_batch,
    result,
)
from tests.support.broker_harness import BrokerRun, eventually, rows, running

PEER = "127.0.0.1"


async def test_a_group_commits_its_offset_and_it_survives(broker_url: str) -> None:
    async with running(broker_url) as run:
        producer = await run.producer()
        await publish(producer, b"a", b"b")
        await publish_batch(producer, b"c", b"d", b"e")
        with pytest.raises(SubscriptionNotFound):
            await run.broker.committed_offset(TOPIC, 0, "g")
        for offset, kept in ((0, 0), (1, 1), (4, 4), (3, 4), (4, 4)):
            assert await run.broker.commit_offset(TOPIC, 0, "g", offset, PEER) == kept
            assert await run.broker.committed_offset(TOPIC, 0, "g") == kept
        subscription = run.subscription(subscription="g")
        assert (subscription.cursor.backlog_messages, subscription.counters.messages_acked) == (1, 4)
    async with running(broker_url) as run:
        assert await run.broker.committed_offset(TOPIC, 0, "g") == 4
        with pytest.raises(NotAllowed, match="beyond the end"):
            await run.broker.commit_offset(TOPIC, 0, "g", 6, PEER)
        assert await run.broker.committed_offset(TOPIC, 0, "g") == 4
        assert await run.broker.commit_offset(TOPIC, 0, "g", 5, PEER) == 5
        assert run.subscription(subscription="g").cursor.backlog_messages == 0


async def test_a_group_with_consumers_attached_cannot_commit(run: BrokerRun) -> None:
    producer = await run.producer()
    await publish(producer, b"a")
    await run.consumer(subscription="g")
    with pytest.raises(SubscriptionBusy, match="another group"):
        await run.broker.commit_offset(TOPIC, 0, "g", 1, PEER)
    assert run.subscription(subscription="g").cursor.backlog_messages == 1
    assert commit_acts(run) == []


def commit_acts(run: BrokerRun) -> list[tuple[object, ...]]:
    """Return (parameters, origin) of the commits in the act log."""
    assert {state for (state,) in rows(run.database_url, "SELECT state FROM vela_act")} <= {"applied"}
    return rows(
        run.database_url,
        "SELECT parameters, origin FROM vela_act WHERE kind = 'commit' AND topic_name = %s"
        " AND subscription_name = 'g' AND finished_at IS NOT NULL ORDER BY id",
        TOPIC.full,
    )


async def test_commits_are_in_the_act_log_as_one_act_a_day_for_each_address(run: BrokerRun) -> None:
    producer = await run.producer()
    await publish(producer, *numbers(0, 9))

    async def commit(offset: int, peer: str = PEER) -> None:
        assert await run.broker.commit_offset(TOPIC, 0, "g", offset, peer) == offset

    await commit(0)
    made = ({"from_offset": None, "offset": 0}, "client 127.0.0.1")
    assert commit_acts(run) == [made]
    for offset in range(1, 5):
        await commit(offset)
        assert commit_acts(run) == [({"from_offset": None, "offset": offset}, "client 127.0.0.1")]
    await commit(4)
    await commit(6, "192.0.2.9")
    other = ({"from_offset": 4, "offset": 6}, "client 192.0.2.9")
    assert commit_acts(run)[1:] == [other]
    rows(run.database_url, "UPDATE vela_act SET created_at = now() - interval '25 hours'")
    await commit(9)
    assert commit_acts(run)[1:] == [other, ({"from_offset": 6, "offset": 9}, "client 127.0.0.1")]


async def test_a_commit_leaves_plans_of_acts_on_its_cursor_valid(run: BrokerRun) -> None:
    producer = await run.producer()
    await publish(producer, *numbers(0, 9))
    await run.broker.commit_offset(TOPIC, 0, "g", 2, PEER)
    version = run.subscription(subscription="g").cursor.version
    await run.broker.commit_offset(TOPIC, 0, "g", 3, PEER)
    assert run.subscription(subscription="g").cursor.version == version


async def test_a_commit_that_does_not_move_the_offset_writes_no_act(run: BrokerRun) -> None:
    producer = await run.producer()
    await publish(producer, *numbers(0, 9))
    await run.broker.commit_offset(TOPIC, 0, "g", 5, PEER)
    before = rows(run.database_url, "SELECT * FROM vela_act")
    for offset in (5, 4, 0):
        assert await run.broker.commit_offset(TOPIC, 0, "g", offset, PEER) == 5
    assert rows(run.database_url, "SELECT * FROM vela_act") == before


async def test_a_topic_that_leaves_answers_its_waiters(run: BrokerRun) -> None:
    await run.producer()
    waiting = await parked(run, ask(0))
    run.topic().log.close()
    await eventually(lambda: waiting.answer.done(), "an answer")
    assert (await result(waiting)).next_begin_offset == 0
