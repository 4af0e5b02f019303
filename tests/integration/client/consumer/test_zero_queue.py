"""The consumer without a queue grants exactly one permit per receive."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any

import pytest

from broker.doors.binary.wire import events
from tests.integration.client.consumer.desk import TOPIC, Desk
from tests.support.scripted_peer import Link
from tests.support.waiting import until
from tests.unit.client.entries import batch, damage, single
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.aio.consumers.zero_queue import ZeroQueueConsumer
from vela.core.consuming.state import ConsumerState
from vela.errors import AlreadyClosed, InvalidConfiguration, InvalidMessage


async def zero(desk: Desk, **options: Any) -> TopicConsumer:
    consumer = await desk.subscribe(receiver_queue_size=0, **options)
    assert isinstance(consumer, ZeroQueueConsumer)
    return consumer


async def started(consumer: TopicConsumer) -> asyncio.Task[Any]:
    task = asyncio.create_task(consumer.receive())
    await asyncio.sleep(0)
    return task


@pytest.mark.row("S2.5")
async def test_a_queue_of_0_makes_the_zero_queue_consumer(desk: Desk) -> None:
    await zero(desk)
    assert not isinstance(await desk.subscribe(receiver_queue_size=1), ZeroQueueConsumer)


@pytest.mark.row("S2.9")
async def test_the_option_enable_zero_queue_consumer_means_a_queue_of_0_for_any_size(desk: Desk) -> None:
    switched = await desk.subscribe(enable_zero_queue_consumer=True, receiver_queue_size=500)
    assert isinstance(switched, ZeroQueueConsumer)
    await desk.fence(switched)
    assert desk.flows == []


@pytest.mark.row("S2.2")
async def test_a_consumer_without_a_queue_receives(desk: Desk) -> None:
    consumer = await zero(desk)

    def give(link: Link, event: events.Flow) -> None:
        desk._flowed(link, event)
        desk.deliver(single(b"given"))

    desk.peer.on(events.Flow, give)
    assert (await asyncio.wait_for(consumer.receive(), 5)).data() == b"given"


@pytest.mark.row("S0.41", "S0.50")
async def test_each_receive_grants_one_permit(desk: Desk) -> None:
    consumer = await zero(desk)
    await desk.fence(consumer)
    assert desk.flows == []
    for number in range(1, 4):
        waiting = await started(consumer)
        await until(lambda: len(desk.flows) == number, "a Flow")  # noqa: B023
        desk.deliver_each(b"%d" % number)
        assert (await waiting).data() == b"%d" % number
    assert desk.flows == [1, 1, 1]


@pytest.mark.row("S2.4", "S2.7")
async def test_only_a_receive_grants_a_permit(desk: Desk) -> None:
    consumer = await zero(desk)
    waiting = await started(consumer)
    await desk.settled(1)
    desk.deliver_each(b"one")
    message = await waiting
    consumer.acknowledge(message)
    await desk.fence(consumer)
    assert desk.flows == [1]


@pytest.mark.row("S2.18")
async def test_the_permit_is_granted_when_the_receive_begins(desk: Desk) -> None:
    consumer = await zero(desk)
    waiting = await started(consumer)
    await desk.settled(1)
    desk.deliver_each(b"one")
    await waiting
    await desk.fence(consumer)
    assert desk.permits == 0  # while the application works on the message
    again = await started(consumer)
    await desk.settled(1)
    again.cancel()


@pytest.mark.row("S2.6")
async def test_each_asynchronous_receive_that_waits_grants_one_permit(desk: Desk) -> None:
    consumer = await zero(desk)
    futures = [consumer.receive_async() for _ in range(3)]
    await desk.settled(3)
    desk.deliver_each(b"0", b"1", b"2")
    assert [(await future).data() for future in futures] == [b"0", b"1", b"2"]


@pytest.mark.row("S2.11")
async def test_concurrent_receives_take_turns(desk: Desk) -> None:
    consumer = await zero(desk)
    calls = [await started(consumer) for _ in range(3)]
    for number in range(3):
        await desk.settled(1)
        await desk.fence(consumer)
        assert desk.permits == 1
        desk.deliver_each(b"%d" % number)
        assert (await calls[number]).data() == b"%d" % number


@pytest.mark.row("S2.12")
async def test_closing_fails_the_receives_that_wait(desk: Desk) -> None:
    consumer = await zero(desk)
    calls = [await started(consumer) for _ in range(2)]
    future = consumer.receive_async()
    await consumer.close()
    for call in (*calls, future):
        with pytest.raises(AlreadyClosed):
            await call
    with pytest.raises(AlreadyClosed):
        await consumer.receive()


@pytest.mark.row("S2.13")
async def test_a_cancelled_receive_leaves_its_permit_and_its_message_to_the_next(desk: Desk) -> None:
    consumer = await zero(desk)
    gone = await started(consumer)
    await desk.settled(1)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    waiting = await started(consumer)
    await desk.fence(consumer)
    assert desk.flows == [1]
    desk.deliver_each(b"late")
    assert (await waiting).data() == b"late"
    gone = await started(consumer)
    await desk.settled(1)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    desk.deliver_each(b"later")
    await until(lambda: len(consumer.queue) == 1, "the late message")
    assert (await consumer.receive()).data() == b"later"
    assert desk.permits == 0


@pytest.mark.row("S0.23")
async def test_a_message_sent_without_a_permit_is_neither_lost_nor_acked(desk: Desk) -> None:
    consumer = await zero(desk)
    desk.deliver_each(b"unasked")
    await until(lambda: len(consumer.queue) == 1, "the message")
    await desk.fence(consumer)
    assert (desk.flows, desk.acks()) == ([], [])
    assert (await consumer.receive()).data() == b"unasked"
    desk.deliver_each(b"again")
    await until(lambda: len(consumer.queue) == 1, "the message")
    await consumer.close()
    assert desk.acks() == []  # the broker delivers the message to another consumer


@pytest.mark.row("S2.14")
async def test_calls_that_look_into_a_queue_are_refused(desk: Desk) -> None:
    consumer = await zero(desk)
    with pytest.raises(InvalidConfiguration, match=r"receive\(\)"):
        consumer.receive_nowait()
    with pytest.raises(InvalidConfiguration, match="several topics"):
        ZeroQueueConsumer(desk.client, TOPIC, consumer._options, inbox=object())


@pytest.mark.row("S2.17")
async def test_calls_that_need_a_queue_are_refused(desk: Desk) -> None:
    consumer = await zero(desk)
    with pytest.raises(InvalidConfiguration, match="time limit"):
        await consumer.receive(timeout_millis=10)
    with pytest.raises(InvalidConfiguration, match="batches"):
        await consumer.batch_receive()
    with pytest.raises(InvalidConfiguration, match="auto-scaled"):
        await zero(desk, auto_scaled_receiver_queue_size_enabled=True)


@pytest.mark.row("S2.10")
async def test_a_partitioned_topic_is_refused_and_one_partition_allowed(desk: Desk) -> None:
    counts = {TOPIC: 3}
    desk.peer.on(
        events.PartitionMetadata,
        lambda link, event: link.engine.send_partition_metadata(event.request_id, counts.get(event.topic, 0)),
    )
    with pytest.raises(InvalidConfiguration, match="not supported for partitioned topics"):
        await zero(desk)
    consumer = await desk.client.subscribe(f"{TOPIC}-partition-1", "billing", receiver_queue_size=0)
    assert isinstance(consumer, ZeroQueueConsumer)
    counts[TOPIC] = 1
    assert (await zero(desk)).topic() == f"{TOPIC}-partition-0"


@pytest.mark.row("S2.8")
async def test_while_paused_nothing_is_granted(desk: Desk) -> None:
    consumer = await zero(desk, start_paused=True)
    futures = [consumer.receive_async() for _ in range(2)]
    await desk.fence(consumer)
    assert desk.flows == []
    consumer.resume()
    await until(lambda: desk.flows == [2], "one Flow")
    consumer.pause()
    futures.append(consumer.receive_async())
    await desk.fence(consumer)
    assert desk.flows == [2]
    consumer.resume()
    await until(lambda: desk.flows == [2, 1], "the third")
    desk.deliver_each(b"0", b"1", b"2")
    assert [(await future).data() for future in futures] == [b"0", b"1", b"2"]


@pytest.mark.row("S2.16")
async def test_a_receive_that_waits_has_its_permit_again_after_a_reconnect(desk: Desk) -> None:
    consumer = await zero(desk)
    waiting = await started(consumer)
    await desk.settled(1)
    desk.drop()
    await desk.resubscribed(2)
    assert desk.flows == [1]
    desk.deliver_each(b"after")
    assert (await waiting).data() == b"after"


@pytest.mark.row("S2.16")
async def test_without_waiting_receives_a_reconnect_grants_no_permits(desk: Desk) -> None:
    consumer = await zero(desk)
    gone = await started(consumer)
    await desk.settled(1)
    gone.cancel()
    desk.deliver_each(b"left behind")
    await until(lambda: len(consumer.queue) == 1, "the late message")
    desk.drop()
    await until(lambda: desk.peer.count(events.Subscribe) == 2 and consumer.is_connected(), "the reconnect")
    await desk.fence(consumer)
    assert (desk.flows, len(consumer.queue)) == ([], 0)


@pytest.mark.row("S2.16")
async def test_a_busy_listener_is_granted_nothing_on_reconnect(desk: Desk) -> None:
    calls: list[bytes] = []
    go_on = asyncio.Event()

    async def listen(consumer: TopicConsumer, message: Any) -> None:
        calls.append(message.data())
        await go_on.wait()

    consumer = await zero(desk, message_listener=listen)
    await desk.settled(1)
    desk.deliver_each(b"0")
    await until(lambda: calls == [b"0"], "the first call")
    desk.drop()
    await until(lambda: desk.peer.count(events.Subscribe) == 2 and consumer.is_connected(), "the reconnect")
    await desk.fence(consumer)
    assert desk.flows == []
    go_on.set()
    await desk.settled(1)
    desk.deliver_each(b"1")
    await until(lambda: calls == [b"0", b"1"], "the second call")
    await desk.settled(1)


async def test_a_listener_on_a_thread_is_given_one_at_a_time(desk: Desk) -> None:
    calls: list[bytes] = []
    consumer = await zero(desk, message_listener=lambda consumer, message: calls.append(message.data()))
    for number in range(3):
        await desk.settled(1)
        desk.deliver_each(b"%d" % number)
        await until(lambda: len(calls) == number + 1, "the call")  # noqa: B023
    consumer.pause_message_listener()
    await desk.fence(consumer)
    desk.deliver_each(b"3")
    await until(lambda: len(consumer.queue) == 1, "the message")
    await desk.fence(consumer)
    assert desk.permits == 0
    consumer.resume_message_listener()
    await until(lambda: len(calls) == 4, "the call")
    await desk.settled(1)


@pytest.mark.row("S0.27", "S0.20")
async def test_a_batch_closes_a_consumer_without_a_queue_and_fails_its_receive(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = await zero(desk, consumer_name="mine")
    waiting = await started(consumer)
    await desk.settled(1)
    with caplog.at_level(logging.ERROR):
        desk.deliver(batch([b"alone"]))
        with pytest.raises(InvalidMessage, match=r"mine.*'billing'"):
            await waiting
    assert consumer.state is ConsumerState.CLOSED
    assert desk.peer.count(events.CloseConsumer) == 1
    assert desk.acks() == []
    assert any("batch" in line for line in caplog.messages)
    with pytest.raises(AlreadyClosed):
        await consumer.receive()


async def test_a_batch_fails_every_call_that_waits(desk: Desk) -> None:
    consumer = await zero(desk)
    calls = [await started(consumer) for _ in range(2)]
    iterating = asyncio.ensure_future(anext(consumer))
    await desk.settled(1)
    desk.deliver(batch([b"alone"]))
    for call in (*calls, iterating):
        with pytest.raises(InvalidMessage):
            await call
    with pytest.raises(StopAsyncIteration):
        await anext(consumer)


@pytest.mark.row("S0.18")
async def test_a_discarded_message_is_requested_again(desk: Desk) -> None:
    consumer = await zero(desk)
    waiting = await started(consumer)
    await desk.settled(1)
    desk.deliver(damage(batch([b"x"] * 10)), messages=10)
    await desk.settled(1)
    desk.deliver(damage(single(b"x")))
    await desk.settled(1)
    desk.deliver_each(b"good")
    assert (await waiting).data() == b"good"


@pytest.mark.row("I17")
async def test_never_more_than_one_message_is_in_flight_over_cancelling_and_reconnecting(desk: Desk) -> None:
    consumer = await zero(desk)
    chance = random.Random(7)
    backlog = iter(b"%d" % number for number in range(1000))
    taken: list[bytes] = []
    for _ in range(150):
        waiting = await started(consumer)
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0)
        assert desk.permits <= 1
        if desk.permits == 1 and consumer.is_connected() and chance.random() < 0.5:
            desk.deliver_each(next(backlog))
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0.001)
        assert len(consumer.queue) <= 1
        if chance.random() < 0.1:
            desk.drop()
        if chance.random() < 0.5:
            waiting.cancel()
            outcome = (await asyncio.gather(waiting, return_exceptions=True))[0]
            if not isinstance(outcome, BaseException):
                taken.append(outcome.data())
        elif waiting.done():
            taken.append(waiting.result().data())
        else:
            await until(lambda: desk.permits >= 1 or waiting.done(), "a permit")  # noqa: B023
            if not waiting.done():
                desk.deliver_each(next(backlog))
            taken.append((await asyncio.wait_for(waiting, 5)).data())
    assert desk.most_permits == 1
    assert len(taken) == len(set(taken))
    assert consumer.counters.messages_received == len(taken)


@pytest.mark.row("S0.23")
async def test_an_unrequested_message_serves_the_next_receive_without_a_new_request(desk: Desk) -> None:
    consumer = await zero(desk)
    desk.deliver_each(b"unasked")
    await until(lambda: len(consumer.queue) == 1, "the message")
    await desk.fence(consumer)
    assert (desk.flows, desk.acks()) == ([], [])
    assert (await consumer.receive()).data() == b"unasked"
    waiting = await started(consumer)
    await desk.settled(1)  # two were granted; the broker charged one for the unrequested message
    desk.deliver_each(b"asked for")
    assert (await waiting).data() == b"asked for"
    assert (desk.most_permits, desk.permits) == (1, 0)


@pytest.mark.row("S0.23")
async def test_an_unrequested_message_stays_unacked_when_the_consumer_closes(desk: Desk) -> None:
    consumer = await zero(desk)
    desk.deliver_each(b"unasked")
    await until(lambda: len(consumer.queue) == 1, "the message")
    await consumer.close()
    assert desk.peer.count(events.CloseConsumer) == 1
    assert desk.acks() == []
