"""What a subscribe leaves behind when it fails, is cancelled, or races with another subscribe."""

from __future__ import annotations

import asyncio

import pytest

from broker.core.errors import (
    ConsumerBusy,
    NotAllowed,
    ProducerBusy,
    ServiceNotReady,
    SubscriptionBusy,
    TopicNotFound,
)
from broker.core.position import EARLIEST, Position
from broker.core.subscription.types import SubscriptionType
from broker.core.topic_name import TopicName
from broker.producers.requests import ProducerRequest
from broker.topics.topic import Topic
from tests.support.broker_harness import (
    IDENTITY,
    BrokerRun,
    ConsumerProbe,
    ManualClock,
    ProducerProbe,
    eventually,
    one_row,
    rows,
    running,
)
from tests.support.postgres_proxy import Moment

EXCLUSIVE, SHARED = SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED


async def test_a_client_that_leaves_during_its_subscribe_leaves_no_consumer(run: BrokerRun) -> None:
    producer = await run.producer()
    trap = run.proxy.trap("INSERT INTO vela_subscription", Moment.HOLD_REQUEST)
    subscribing = asyncio.ensure_future(run.consumer())
    await trap.caught.wait()
    subscribing.cancel()
    await asyncio.gather(subscribing, return_exceptions=True)
    positions = await producer.publish(2)
    trap.release()
    await eventually(lambda: run.topic().subscriptions, "memory to know what is stored")
    assert not run.subscription().consumers
    consumer = await run.consumer(permits=10)
    await consumer.has(2)  # both messages, because the subscription's cursor has not moved
    assert consumer.positions == positions
    assert one_row(run.database_url, "SELECT count(*) FROM vela_subscription") == (1,)


async def test_a_reader_that_fails_to_attach_leaves_no_cursor(run: BrokerRun) -> None:
    producer = await run.producer()
    await producer.publish(3)
    first = await run.consumer(subscription="r", type_=EXCLUSIVE, durable=False, start=EARLIEST)
    with pytest.raises(ConsumerBusy):
        await run.consumer(subscription="r", type_=EXCLUSIVE, durable=False, start=EARLIEST)
    first.flow(5)
    await first.has(3)
    assert first.consumer is not None
    first.consumer.detach()
    assert run.topic().subscriptions == {}
    assert rows(run.database_url, "SELECT name FROM vela_subscription") == []


class SilentConsumer(ConsumerProbe):
    """A consumer whose peer does not answer the ping until it has left."""

    def __init__(self) -> None:
        super().__init__()
        self.pinged = asyncio.Event()
        self.left = asyncio.Event()

    async def is_alive(self) -> bool:
        self.pinged.set()
        await self.left.wait()
        return False


async def test_two_readers_never_use_two_cursors_of_one_name(run: BrokerRun) -> None:
    producer = await run.producer()
    silent = SilentConsumer()
    await run.attach(silent, subscription="r", type_=EXCLUSIVE, durable=False, start=EARLIEST)
    waiting = asyncio.ensure_future(
        run.consumer(subscription="r", type_=EXCLUSIVE, durable=False, start=EARLIEST)
    )
    await silent.pinged.wait()
    assert silent.consumer is not None
    silent.consumer.detach()
    third = await run.consumer(subscription="r", type_=EXCLUSIVE, durable=False, start=EARLIEST, permits=10)
    silent.left.set()
    with pytest.raises(ServiceNotReady, match="taken the name r"):
        await waiting
    await producer.publish(1)
    await third.has(1)


async def test_a_reader_starts_inside_a_batch_and_does_not_store_its_acks(run: BrokerRun) -> None:
    producer = await run.producer()
    (position,) = await producer.publish(1, messages=4)
    reader = await run.consumer(
        subscription="r", type_=EXCLUSIVE, durable=False, start=position, start_remaining=0b1100, permits=5
    )
    await reader.has(1)
    assert reader.deliveries[0].remaining == 0b1100
    assert await reader.ack_durably(position) is None
    assert rows(run.database_url, "SELECT * FROM vela_cursor") == []


async def test_a_reader_comes_back_at_positions_whose_counts_are_not_in_memory(broker_url: str) -> None:
    async with running(broker_url) as run:
        positions = await (await run.producer()).publish(20)
    async with running(broker_url) as again:
        reader = await again.consumer(
            subscription="r", type_=EXCLUSIVE, durable=False, start=positions[11], permits=50
        )
        await reader.has(9)
        assert reader.positions == positions[11:]


async def test_a_subscription_may_start_some_seconds_back(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock) as run:
        producer = await run.producer()
        await producer.publish(5)
        clock.advance(60_000)
        recent = await producer.publish(5)
        clock.advance(10_000)
    async with running(broker_url, clock=clock) as again:
        consumer = await again.consumer(rollback_s=30, permits=50)
        await consumer.has(5)
        assert consumer.positions == recent


async def test_a_consumer_of_another_type_is_refused_while_one_is_connected(run: BrokerRun) -> None:
    first = await run.consumer(type_=SHARED)
    with pytest.raises(SubscriptionBusy):
        await run.consumer(type_=EXCLUSIVE)
    assert first.consumer is not None
    first.consumer.detach()
    await run.consumer(type_=EXCLUSIVE)
    assert one_row(run.database_url, "SELECT type FROM vela_subscription") == ("Exclusive",)


async def test_an_exclusive_consumer_whose_peer_is_silent_gives_way(run: BrokerRun) -> None:
    producer = await run.producer()
    positions = await producer.publish(3)
    first = await run.consumer(type_=EXCLUSIVE, permits=10)
    await first.has(3)
    with pytest.raises(ConsumerBusy):
        await run.consumer(type_=EXCLUSIVE)
    first.alive = False
    second = await run.consumer(type_=EXCLUSIVE, permits=10)
    await second.has(3)
    assert first.closed
    assert second.positions == positions


class Probed(ProducerProbe):
    """A producer that answers the liveness probe when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = asyncio.Event()
        self.asked = 0

    async def is_alive(self) -> bool:
        """Return False once the test sets `answer`."""
        self.asked += 1
        await self.answer.wait()
        return False


async def test_only_one_producer_takes_over_the_name_of_a_dead_one(run: BrokerRun) -> None:
    dead = Probed()
    await run.open(dead, name="p")
    both = [asyncio.ensure_future(run.open(ProducerProbe(), name="p")) for _ in range(2)]
    await eventually(lambda: dead.asked == 2, "both to ask")
    dead.answer.set()
    results = await asyncio.gather(*both, return_exceptions=True)
    assert [type(each) for each in results if isinstance(each, Exception)] == [ProducerBusy]
    (kept,) = [each for each in results if isinstance(each, ProducerProbe)]
    assert run.topic().producers["p"] is kept.producer
    assert dead.closed == [None]


async def test_the_initial_subscription_of_a_dead_letter_topic_is_created_with_the_topic(
    run: BrokerRun,
) -> None:
    probe = ProducerProbe()
    probe.producer = await run.broker.open_producer(
        ProducerRequest(topic=TopicName.parse("dlq"), name=None, initial_subscription="keep"), IDENTITY, probe
    )
    await probe.publish(2)
    consumer = await run.consumer("dlq", "keep", permits=5)
    await consumer.has(2)


async def test_loading_a_topic_survives_lost_connections(broker_url: str) -> None:
    async with running(broker_url) as run:
        await (await run.producer()).publish(3)
    async with running(broker_url) as again:
        for statement in ("INSERT INTO vela_topic_owner", "FROM vela_ledger WHERE topic_id"):
            again.proxy.trap(statement, Moment.LOSE_ANSWER)
        consumer = await again.consumer(permits=10)
        await consumer.has(3)
        assert [position.entry_id for position in consumer.positions] == [0, 1, 2]
        assert consumer.positions[0] >= Position(1, 0)


async def test_names_that_cannot_be_typed_or_stored_are_refused(run: BrokerRun) -> None:
    with pytest.raises(NotAllowed, match="control character"):
        await run.consumer(subscription="new\nline")
    with pytest.raises(NotAllowed, match="spaces"):
        await run.consumer(subscription=" lead")
    with pytest.raises(NotAllowed, match="control character"):
        await run.broker.open_producer(
            ProducerRequest(topic=TopicName.parse("t"), name="p\0q"), IDENTITY, ProducerProbe()
        )


async def test_a_topic_is_created_although_somebody_who_may_not_create_it_asked_first(run: BrokerRun) -> None:
    name = TopicName.parse("public/default/asked-twice")
    asking = [
        asyncio.ensure_future(run.broker.topics.open(name, create=create))
        for create in (False, True, False, True)
    ]
    first, second, third, fourth = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(first, TopicNotFound)
    assert isinstance(third, TopicNotFound)
    assert isinstance(second, Topic)
    assert second is fourth


async def test_a_missing_topic_is_looked_for_once_if_nobody_may_create_it(run: BrokerRun) -> None:
    rows(run.database_url, """UPDATE vela_namespace SET policies = '{"auto_create_topics": false}'""")
    name = TopicName.parse("public/default/asked-in-vain")
    asking = [asyncio.ensure_future(run.broker.topics.open(name, create=True)) for _ in range(50)]
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert len(found) == 50
    assert len({id(each) for each in found}) == 1  # all of them share one load and its error
    assert isinstance(found[0], TopicNotFound)


async def test_a_refused_topic_is_not_stored(run: BrokerRun) -> None:
    name = TopicName.parse("non-persistent://public/default/np")
    assert await run.broker.partition_count(name, create=True) == 0
    with pytest.raises(NotAllowed, match="no log"):
        await run.broker.topics.open(name, create=True)
    assert one_row(run.database_url, "SELECT count(*) FROM vela_topic WHERE name LIKE 'non-%%'") == (0,)
