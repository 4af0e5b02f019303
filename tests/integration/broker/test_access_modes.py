"""Exclusive producers: which producers are admitted, wait or are fenced, and what a new broker knows about them."""

from __future__ import annotations

import asyncio

import pytest

from broker.core.errors import ProducerBusy, ProducerFenced, ServiceNotReady
from broker.core.producers.access import AccessMode
from broker.core.topic_name import TopicName
from tests.support.broker_harness import BrokerRun, ProducerProbe, eventually, one_row, rows, running
from tests.support.postgres_proxy import Moment

EXCLUSIVE, WAIT, FENCING = (
    AccessMode.EXCLUSIVE,
    AccessMode.WAIT_FOR_EXCLUSIVE,
    AccessMode.EXCLUSIVE_WITH_FENCING,
)


def epoch(probe: ProducerProbe) -> int | None:
    assert probe.producer is not None
    return probe.producer.topic_epoch


def is_ready(probe: ProducerProbe) -> bool:
    assert probe.producer is not None
    return probe.producer.is_ready


def leave(probe: ProducerProbe) -> None:
    assert probe.producer is not None
    probe.producer.detach()


async def test_an_exclusive_producer_keeps_others_out(run: BrokerRun) -> None:
    owner = await run.producer(name="a", access_mode=EXCLUSIVE)
    assert epoch(owner) == 0
    with pytest.raises(ProducerBusy, match="exclusive"):
        await run.producer(name="b")
    with pytest.raises(ProducerFenced, match="the exclusive producer a"):
        await run.producer(name="b", access_mode=EXCLUSIVE)
    await owner.publish(1)
    leave(owner)
    assert epoch(await run.producer(name="b", access_mode=EXCLUSIVE)) == 1


async def test_shared_producers_keep_an_exclusive_one_out(run: BrokerRun) -> None:
    await run.producer(name="a")
    with pytest.raises(ProducerFenced, match="already has 1 producer"):
        await run.producer(name="b", access_mode=EXCLUSIVE)


async def test_waiting_producers_get_the_topic_in_turn(run: BrokerRun) -> None:
    first = await run.producer(name="a")
    told: list[str] = []
    second = await run.producer(name="b", access_mode=WAIT, on_ready=lambda: told.append("b"))
    third = await run.producer(name="c", access_mode=WAIT, on_ready=lambda: told.append("c"))
    assert (is_ready(second), is_ready(third)) == (False, False)
    second.send()
    assert [str(error) for _, error in second.failed] == ["the producer is not open; open it again"]
    with pytest.raises(ProducerBusy, match="is reserved: a producer waits for exclusive access"):
        await run.producer(name="d")
    leave(first)
    await eventually(lambda: told == ["b"], "the first waiting producer is told")
    assert (epoch(second), is_ready(second), is_ready(third)) == (0, True, False)
    await second.publish(1)
    leave(second)
    await eventually(lambda: told == ["b", "c"], "then the next waiting producer is told")
    assert epoch(third) == 1


async def test_a_producer_that_stops_waiting_is_passed_over(run: BrokerRun) -> None:
    first = await run.producer(name="a", access_mode=EXCLUSIVE)
    second = await run.producer(name="b", access_mode=WAIT)
    third = await run.producer(name="c", access_mode=WAIT)
    leave(second)
    leave(first)
    await eventually(lambda: is_ready(third), "the other producer has the topic")
    assert not is_ready(second)


async def test_fencing_closes_other_and_waiting_producers(run: BrokerRun) -> None:
    first = await run.producer(name="a", access_mode=EXCLUSIVE)
    waiting = await run.producer(name="b", access_mode=WAIT)
    owner = await run.producer(name="c", access_mode=FENCING)
    assert [type(each) for each in first.closed + waiting.closed] == [ProducerFenced, ProducerFenced]
    assert epoch(owner) == 1
    await owner.publish(1)
    with pytest.raises(ProducerFenced):
        await run.producer(name="a", access_mode=EXCLUSIVE, topic_epoch=0)


async def test_a_producer_that_was_overtaken_is_fenced_when_it_comes_back(broker_url: str) -> None:
    async with running(broker_url) as first:
        overtaken = await first.producer(name="a", access_mode=EXCLUSIVE)
        leave(overtaken)
        assert epoch(await first.producer(name="b", access_mode=EXCLUSIVE)) == 1
        assert one_row(broker_url, "SELECT producer_epoch FROM vela_topic") == (1,)
    async with running(broker_url) as second:
        with pytest.raises(ProducerFenced, match="its epoch is 1, not 0"):
            await second.producer(name="a", access_mode=EXCLUSIVE, topic_epoch=0)
        assert epoch(await second.producer(name="b", access_mode=EXCLUSIVE, topic_epoch=1)) == 1


async def test_a_topic_at_the_highest_epoch_continues_with_an_unused_one(
    broker_url: str,
) -> None:
    async with running(broker_url) as first:
        leave(await first.producer(name="a", access_mode=EXCLUSIVE))
    rows(broker_url, "UPDATE vela_topic SET producer_epoch = %s", 2**63 - 1)
    async with running(broker_url) as second:
        healed = await second.producer(name="b", access_mode=EXCLUSIVE)
        assert epoch(healed) == 2**62
        leave(healed)
        for claimed in (0, 2**63 - 1):
            with pytest.raises(ProducerFenced):
                await second.producer(name="a", access_mode=EXCLUSIVE, topic_epoch=claimed)
        assert epoch(await second.producer(name="c", access_mode=EXCLUSIVE)) == 2**62 + 1


async def test_an_exclusive_producer_replaces_its_own_dead_connection(run: BrokerRun) -> None:
    old = await run.producer(name="a", access_mode=EXCLUSIVE)
    old.alive = False
    assert epoch(await run.producer(name="a", access_mode=EXCLUSIVE, topic_epoch=0)) == 0
    assert old.closed == [None]


async def test_an_exclusive_producer_replaces_its_own_connection_that_seems_alive(run: BrokerRun) -> None:
    old = await run.producer(name="a", access_mode=EXCLUSIVE)
    with pytest.raises(ProducerFenced):
        await run.producer(name="a", access_mode=EXCLUSIVE)
    with pytest.raises(ProducerFenced):
        await run.producer(name="b", access_mode=EXCLUSIVE, topic_epoch=0)
    assert old.closed == []
    again = await run.producer(name="a", access_mode=EXCLUSIVE, topic_epoch=0)
    assert (epoch(again), old.closed) == (0, [None])
    await again.publish(1)


@pytest.mark.parametrize("name", ["a", "b"])
async def test_an_exclusive_producer_that_was_given_up_while_it_opened_makes_room(
    run: BrokerRun, name: str
) -> None:
    await run.consumer()
    trap = run.proxy.trap("SET producer_epoch", Moment.HOLD_ANSWER)
    gone = ProducerProbe()
    gone.alive = False  # its client has closed it, because the answer took too long
    opening = asyncio.create_task(run.open(gone, name="a", access_mode=EXCLUSIVE))
    await trap.caught.wait()
    again = asyncio.create_task(run.producer(name=name, access_mode=EXCLUSIVE))
    await asyncio.sleep(0)
    trap.release()
    assert epoch(await again) == 0
    with pytest.raises(ProducerFenced):
        await opening
    await (await again).publish(1)


async def test_a_producer_that_opens_during_an_unload_is_told_to_come_again(run: BrokerRun) -> None:
    await run.consumer()
    trap = run.proxy.trap("SET producer_epoch", Moment.HOLD_ANSWER)
    opening = asyncio.create_task(run.producer(name="a", access_mode=EXCLUSIVE))
    await trap.caught.wait()
    await run.broker.endings.unload([TopicName.parse("t")])
    trap.release()
    with pytest.raises(ServiceNotReady, match="open it again"):
        await opening
    assert epoch(await run.producer(name="a", access_mode=EXCLUSIVE)) == 1


async def test_a_topic_that_closes_its_producers_refuses_waiting_ones(run: BrokerRun) -> None:
    await run.producer(name="a", access_mode=EXCLUSIVE)
    waiting = await run.producer(name="b", access_mode=WAIT)
    run.topic().close_producers(ProducerBusy("over"))
    assert [str(each) for each in waiting.closed] == ["over"]
    assert epoch(await run.producer(name="c", access_mode=EXCLUSIVE)) == 1


async def test_the_limit_of_producers_is_kept(run: BrokerRun) -> None:
    await run.policies("t", max_producers=2)
    first = await run.producer(name="a")
    await run.producer(name="b")
    with pytest.raises(ProducerBusy, match="max_producers"):
        await run.producer(name="c")
    leave(first)
    await run.producer(name="c")
