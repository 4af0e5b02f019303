"""Failover in a running broker: the wait, the switch, the notifications, and that nothing is lost or reordered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType
from tests.support.acting import apply, planned
from tests.support.broker_harness import BrokerRun, ConsumerProbe, ManualClock, eventually, running

FAILOVER = SubscriptionType.FAILOVER
DELAY_MS = 1000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def run(broker_url: str, clock: ManualClock) -> AsyncIterator[BrokerRun]:
    """A broker without timers, for which time passes only when the test says so, as with a tick."""
    async with running(
        broker_url, clock=clock, wheel_enabled=False, failover_delay_ms=DELAY_MS, tail_cache_bytes=0
    ) as started:
        yield started


async def tick(run: BrokerRun, clock: ManualClock, by_ms: int = DELAY_MS) -> None:
    """Do what beat's tick does, then let the loop's callbacks run."""
    clock.advance(by_ms)
    run.broker.deadlines.run_due()
    await asyncio.sleep(0)


async def test_the_first_consumer_waits_then_becomes_active_and_gets_everything(
    run: BrokerRun, clock: ManualClock
) -> None:
    positions = await (await run.producer()).publish(5)
    consumer = await run.consumer(type_=FAILOVER, permits=100)
    await tick(run, clock, DELAY_MS - 1)
    assert (consumer.active, consumer.deliveries) == ([], [])
    await tick(run, clock, 1)
    assert consumer.active == [True]
    await consumer.has(5)
    assert consumer.positions == positions


@pytest.mark.row("I12")
async def test_a_switch_loses_and_reorders_nothing_and_the_old_consumer_gets_nothing(
    run: BrokerRun, clock: ManualClock
) -> None:
    producer = await run.producer()
    old = await run.consumer(type_=FAILOVER, name="b", priority=1, permits=100)
    await tick(run, clock)
    positions = await producer.publish(10)
    await old.has(10)
    old.ack(*positions[:4])
    new = await run.consumer(type_=FAILOVER, name="a", permits=100)
    assert new.consumer is not None
    assert run.subscription().dispatcher.active is new.consumer.dispatch
    old.flow(50)
    new.flow(50)
    positions += await producer.publish(5)
    assert old.active == [True]
    assert (len(old.deliveries), len(new.deliveries)) == (10, 0)
    old.ack(*positions[4:6])
    await tick(run, clock)
    assert (old.active, new.active) == ([True, False], [True])
    await new.has(9)
    assert new.positions == positions[6:]
    assert len(old.deliveries) == 10
    old.flow(10)
    await producer.publish(1)
    await new.has(10)
    assert len(old.deliveries) == 10


async def test_priority_decides_and_a_joiner_that_changes_nothing_learns_its_state(
    run: BrokerRun, clock: ManualClock
) -> None:
    best = await run.consumer(type_=FAILOVER, name="z", priority=0, permits=10)
    await tick(run, clock)
    second = await run.consumer(type_=FAILOVER, name="a", priority=1, permits=10)
    await asyncio.sleep(0)
    assert (best.active, second.active) == ([True], [False])
    assert best.consumer is not None
    best.consumer.detach()
    await (await run.producer()).publish(3)
    assert second.deliveries == []
    await tick(run, clock)
    assert second.active == [False, True]
    await second.has(3)


async def test_the_number_of_a_partition_chooses_its_active_consumer(
    run: BrokerRun, clock: ManualClock
) -> None:
    active = []
    for partition in range(4):
        topic = f"parted-partition-{partition}"
        for name in ("a", "b", "c"):
            await run.consumer(topic, type_=FAILOVER, name=name)
        chosen = run.subscription(topic).dispatcher.active
        assert chosen is not None
        active.append(chosen.name)
    assert active == ["a", "b", "c", "a"]


async def test_the_owners_timer_alone_switches_the_active_consumer(broker_url: str) -> None:
    async with running(broker_url, failover_delay_ms=50) as run:
        consumer = await run.consumer(type_=FAILOVER, permits=10)
        await eventually(lambda: consumer.active == [True], "to be told")


async def test_without_a_delay_a_consumer_is_told_that_it_is_active_after_its_subscribe_is_answered(
    broker_url: str,
) -> None:
    async with running(broker_url, failover_delay_ms=0, wheel_enabled=False) as run:
        consumer = await run.consumer(type_=FAILOVER, permits=10)
        assert consumer.active == []
        await eventually(lambda: consumer.active == [True], "to be told")
        assert await (await run.producer()).publish(2)
        await consumer.has(2)


async def test_a_seek_closes_only_the_active_consumer_and_the_one_that_seeks(
    run: BrokerRun, clock: ManualClock
) -> None:
    positions = await (await run.producer()).publish(6)
    active = await run.consumer(type_=FAILOVER, name="x", permits=10)
    standby = await run.consumer(type_=FAILOVER, name="y", priority=1, permits=10)
    await tick(run, clock)
    await active.has(6)
    active.ack(positions[5], cumulative=True)
    assert active.consumer is not None
    await active.consumer.seek_position(positions[2], None)
    assert (len(active.closed), standby.closed) == (1, [])
    await tick(run, clock)
    await standby.has(4)
    assert standby.positions == positions[2:]


@pytest.mark.row("S4.24")
async def test_redelivery_begins_at_mark_delete_with_the_clients_epoch(
    run: BrokerRun, clock: ManualClock
) -> None:
    positions = await (await run.producer()).publish(10)
    active = await run.consumer(type_=FAILOVER, name="a", permits=100, epoch=3)
    standby = await run.consumer(type_=FAILOVER, name="b", priority=1, permits=100)
    assert active.consumer is not None
    assert standby.consumer is not None
    active.consumer.redeliver(None, epoch=4)
    await tick(run, clock)
    await active.has(10)
    active.ack(positions[0], positions[1], positions[6])
    standby.consumer.redeliver(None, epoch=9)
    assert len(active.deliveries) == 10
    active.consumer.redeliver([positions[4]], epoch=5)
    await active.has(17)
    assert active.positions[10:] == [*positions[2:6], *positions[7:]]
    assert {each.redelivery_count for each in active.deliveries} == {0}
    assert (active.consumer.epoch, standby.consumer.epoch) == (5, 9)
    active.consumer.redeliver(None, epoch=2)
    assert active.consumer.epoch == 5


async def test_a_due_negative_ack_redelivers_everything_to_the_active_consumer(
    run: BrokerRun, clock: ManualClock
) -> None:
    positions = await (await run.producer()).publish(3)
    active = await run.consumer(type_=FAILOVER, name="a", permits=100)
    await run.consumer(type_=FAILOVER, name="b", priority=1, permits=100)
    await tick(run, clock)
    await active.has(3)
    assert active.consumer is not None
    active.consumer.redeliver_at([positions[1]], clock.now_ms() + 500)
    await tick(run, clock, 600)
    await active.has(6)
    assert active.positions[3:] == positions


async def test_a_cumulative_ack_moves_mark_delete(run: BrokerRun, clock: ManualClock) -> None:
    positions = await (await run.producer()).publish(3)
    active = await run.consumer(type_=FAILOVER, permits=100)
    await tick(run, clock)
    await active.has(3)
    assert await active.ack_durably(positions[2], cumulative=True) is None
    assert run.subscription().cursor.mark_delete == positions[2]


async def read_up_to(run: BrokerRun, entry_id: int) -> None:
    await eventually(lambda: run.subscription().read_position.entry_id == entry_id, "all to be sent")


async def test_order_stays_and_all_consumers_are_notified_while_consumers_come_and_go(
    run: BrokerRun, clock: ManualClock
) -> None:
    """Whichever consumers come and go, only the active one gets entries, and they are in order (I11, I12)."""
    producer = await run.producer()
    here: list[ConsumerProbe] = []
    got: set[Position] = set()
    for turn in range(12):
        if turn % 3 == 2 and here:
            leaver = here.pop(0)
            assert leaver.consumer is not None
            leaver.consumer.detach()
        else:
            here.append(
                await run.consumer(type_=FAILOVER, name=f"n{turn * 7 % 5}", priority=turn % 2, permits=1000)
            )
        before = {id(each): len(each.deliveries) for each in here}
        await producer.publish(3)
        await tick(run, clock)
        (active,) = [each for each in here if each.active and each.active[-1]]
        await read_up_to(run, 3 * (turn + 1))
        fresh = active.positions[before[id(active)] :]
        assert fresh == sorted(fresh)
        for each in here:
            assert each is active or len(each.deliveries) == before[id(each)]
        got.update(fresh)
        active.ack(*fresh[: len(fresh) // 2])
    assert len(got) == 36


async def test_an_operators_reset_closes_only_the_active_consumer_and_says_so(
    run: BrokerRun, clock: ManualClock
) -> None:
    positions = await (await run.producer()).publish(4)
    active = await run.consumer(type_=FAILOVER, name="a", permits=10)
    standby = await run.consumer(type_=FAILOVER, name="b", priority=1, permits=10)
    await tick(run, clock)
    await active.has(4)
    active.ack(*positions)
    act_id, plan = await planned(run, "reset", {"to": "earliest"})
    state, result, error = await apply(run, act_id)
    assert state == "applied", error
    assert (plan["consumers_closed"], plan["consumers_kept"]) == (1, 1)
    assert (result["consumers_closed"], result["consumers_kept"]) == (1, 1)
    assert (len(active.closed), standby.closed) == (1, [])
    await tick(run, clock)
    await standby.has(4)
    assert standby.positions == positions
