"""A terminated topic: its end is fixed, and consumers learn of it when everything is acked."""

from __future__ import annotations

import asyncio

import pytest

from broker.core.errors import ServiceNotReady, TopicTerminated
from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType
from broker.topics.topic import Topic
from tests.integration.broker.acting import partitioned
from tests.support.acting import apply, planned
from tests.support.broker_harness import BrokerRun, ProducerProbe, eventually, one_row, payload_of, running
from tests.support.postgres_proxy import Moment


async def test_the_last_position_stays_the_last(run: BrokerRun) -> None:
    producer = await run.producer()
    positions = await producer.publish(3)
    assert await run.broker.endings.terminate(run.topic()) == positions[-1]
    assert isinstance(producer.closed[0], TopicTerminated)
    with pytest.raises(TopicTerminated):
        await run.producer()
    assert await run.broker.endings.terminate(run.topic()) == positions[-1]
    consumer = await run.consumer(permits=10)
    await consumer.has(3)
    assert consumer.positions == positions


class SlowToAnswer(ProducerProbe):
    """A producer whose peer is pinged, and does not answer until the test gives up on it."""

    def __init__(self) -> None:
        super().__init__()
        self.pinged = asyncio.Event()
        self.given_up = asyncio.Event()

    async def is_alive(self) -> bool:
        self.pinged.set()
        await self.given_up.wait()
        return False


async def test_a_producer_that_was_being_opened_is_refused(run: BrokerRun) -> None:
    slow = SlowToAnswer()
    await run.open(slow, name="p")
    opening = asyncio.ensure_future(run.producer(name="p"))
    await slow.pinged.wait()
    await run.broker.endings.terminate(run.topic())
    slow.given_up.set()
    with pytest.raises(TopicTerminated):
        await opening
    assert not run.topic().producers


async def test_a_topic_stays_terminated_after_a_restart(broker_url: str) -> None:
    async with running(broker_url) as run:
        await (await run.producer()).publish(1)
        await run.broker.endings.terminate(run.topic())
    async with running(broker_url) as again:
        with pytest.raises(TopicTerminated):
            await again.producer()
        consumer = await again.consumer(permits=10, acks=True)
        await eventually(lambda: consumer.ends, "the end of the topic")


async def test_messages_under_way_are_stored_and_waiting_ones_are_refused(run: BrokerRun) -> None:
    producer = await run.producer()
    await producer.publish(1)
    trap = run.proxy.trap('INSERT INTO "vela_entry_1"', Moment.HOLD_REQUEST)
    producer.send(b"under way")
    await trap.caught.wait()
    producer.send(b"waits")
    ending = asyncio.ensure_future(run.broker.endings.terminate(run.topic()))
    await eventually(lambda: run.topic().log.is_paused, "the topic to stand still")
    producer.send(b"waits too")
    trap.release()
    last = await ending
    assert (last.ledger_id, last.entry_id) == (producer.receipts[-1].ledger_id, 1)
    assert [payload_of(request.data) for request, _ in producer.failed] == [b"waits", b"waits too"]
    assert all(isinstance(error, TopicTerminated) for _, error in producer.failed)
    assert one_row(run.database_url, "SELECT count(*) FROM vela_entry") == (2,)


async def test_an_unknown_outcome_under_way_is_settled_before_the_end_is_fixed(run: BrokerRun) -> None:
    producer = await run.producer()
    await producer.publish(1)
    trap = run.proxy.trap('INSERT INTO "vela_entry_1"', Moment.LOSE_ANSWER)
    producer.send(b"stored, answer lost")
    await trap.caught.wait()
    last = await run.broker.endings.terminate(run.topic())
    assert last.entry_id == 1
    assert len(producer.receipts) == 2
    assert not producer.failed


async def test_a_terminate_whose_answer_is_lost_is_repeated(run: BrokerRun) -> None:
    await (await run.producer()).publish(1)
    trap = run.proxy.trap("SET terminated_at", Moment.LOSE_ANSWER)
    await run.broker.endings.terminate(run.topic())
    assert trap.taken
    assert one_row(run.database_url, "SELECT terminated_at IS NOT NULL FROM vela_topic") == (True,)


@pytest.mark.row("I23")
@pytest.mark.parametrize("type_", [SubscriptionType.SHARED, SubscriptionType.EXCLUSIVE])
async def test_consumers_learn_of_the_end_when_everything_is_acked_and_never_earlier(
    run: BrokerRun, type_: SubscriptionType
) -> None:
    producer = await run.producer()
    consumer = await run.consumer(type_=type_, permits=10)
    positions = await producer.publish(3)
    await consumer.has(3)
    await run.broker.endings.terminate(run.topic())
    assert consumer.ends == 0  # all delivered, nothing acked
    consumer.flow(10)
    consumer.ack(positions[0], positions[2])
    assert consumer.ends == 0
    consumer.ack(positions[1])
    assert consumer.ends == 1
    consumer.flow(10)
    consumer.ack(positions[1])
    assert consumer.ends == 1


@pytest.mark.row("I23")
async def test_a_nack_before_the_last_ack_delays_the_end(run: BrokerRun) -> None:
    producer = await run.producer()
    consumer = await run.consumer(permits=10)
    positions = await producer.publish(2)
    await consumer.has(2)
    await run.broker.endings.terminate(run.topic())
    assert consumer.consumer is not None
    consumer.consumer.redeliver([positions[0]])
    consumer.ack(positions[1])
    await consumer.has(3)
    assert consumer.ends == 0
    consumer.ack(positions[0])
    assert consumer.ends == 1


@pytest.mark.row("I23")
async def test_every_consumer_is_notified_even_one_that_comes_later(run: BrokerRun) -> None:
    producer = await run.producer()
    first = await run.consumer(permits=10, acks=True)
    second = await run.consumer(permits=10, acks=True)
    silent = await run.consumer()  # this consumer has granted no permits yet
    await producer.publish(4)
    await eventually(lambda: not run.subscription().cursor.backlog_messages, "all to be acked")
    await run.broker.endings.terminate(run.topic())
    assert (first.ends, second.ends, silent.ends) == (1, 1, 0)
    silent.flow(1)
    assert silent.ends == 1
    other = await run.consumer(subscription="other", permits=10, acks=True)
    await eventually(lambda: other.ends == 1, "the other subscription's end")


async def test_consumers_of_an_empty_topic_learn_of_its_end_at_once(run: BrokerRun) -> None:
    consumer = await run.consumer(permits=10)
    last = await run.broker.endings.terminate(run.topic())
    assert last.entry_id == -1
    assert consumer.ends == 1


@pytest.mark.parametrize(("fails", "state"), [(0, "refused"), (1, "failed")])
async def test_an_act_that_stops_half_way_fails_and_one_that_changed_nothing_is_refused(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch, fails: int, state: str
) -> None:
    await partitioned(run, 2)
    terminate = run.broker.endings.terminate

    async def failing(topic: Topic) -> Position:
        if topic.name.partition == fails:
            raise ServiceNotReady("the topic is moving")
        return await terminate(topic)

    monkeypatch.setattr(run.broker.endings, "terminate", failing)
    act_id, _ = await planned(run, "terminate", topic="p", subscription=None)
    found, _, error = await apply(run, act_id)
    assert found == state, error
    assert ("1 partition was changed before it" in error) is (fails == 1)
