"""Receiving from a scripted broker: order, waiting, cancelling, states."""

from __future__ import annotations

import asyncio
import re

import pytest

from broker.doors.binary.wire import events
from tests.integration.client.consumer.desk import TOPIC, Desk
from tests.support.waiting import until
from tests.unit.client.entries import batch, damage, single
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.aio.deliveries.receive_queue import ReceiveQueue
from vela.core.flow.flow_control import FlowControl
from vela.errors import AlreadyClosed, ConsumerBusy, InvalidConfiguration, NotConnected, Timeout
from vela.message import Message
from vela.options import ConsumerBatchReceivePolicy
from vela.wire.binary.enums import ServerError


async def payloads(consumer: TopicConsumer, count: int) -> list[bytes]:
    return [(await asyncio.wait_for(consumer.receive(), 5)).data() for _ in range(count)]


async def delivered(consumer: TopicConsumer, count: int) -> None:
    await until(lambda: consumer.counters.messages_delivered >= count, f"{count} messages")


@pytest.mark.row("S0.21")
async def test_pending_receives_are_in_order(desk: Desk) -> None:
    consumer = await desk.subscribe()
    first = [consumer.receive_async() for _ in range(2)]
    waiting = asyncio.create_task(consumer.receive())
    await asyncio.sleep(0)
    last = consumer.receive_async()
    desk.deliver_each(b"0", b"1", b"2", b"3")
    assert [(await each).data() for each in (*first, waiting, last)] == [b"0", b"1", b"2", b"3"]
    assert len(consumer.queue) == 0


@pytest.mark.row("S0.21")
async def test_the_queue_is_served_first(desk: Desk) -> None:
    consumer = await desk.subscribe()
    desk.deliver_each(b"0", b"1")
    await delivered(consumer, 2)
    done = consumer.receive_async()
    assert done.done()
    assert done.result().data() == b"0"
    assert (await consumer.receive()).data() == b"1"
    assert consumer.receive_nowait() is None


@pytest.mark.row("S0.24")
async def test_a_cancelled_receive_is_passed_over(desk: Desk) -> None:
    consumer = await desk.subscribe()
    gone, stays = consumer.receive_async(), consumer.receive_async()
    gone.cancel()
    desk.deliver_each(b"only")
    assert (await asyncio.wait_for(stays, 5)).data() == b"only"


@pytest.mark.row("S0.34")
async def test_an_interrupted_receive_loses_no_message(desk: Desk) -> None:
    consumer = await desk.subscribe()
    waiting = asyncio.create_task(consumer.receive())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert consumer.counters.receives_failed == 1
    desk.deliver_each(b"first", b"second")
    assert await payloads(consumer, 2) == [b"first", b"second"]


@pytest.mark.row("S0.34")
async def test_a_receive_cancelled_after_its_message_came_puts_the_message_back_in_front(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = await desk.subscribe(receiver_queue_size=4)
    waiting = asyncio.create_task(consumer.receive())
    await asyncio.sleep(0)

    cancel_at_hand_over(waiting, monkeypatch)
    desk.deliver(batch([b"first", b"second"]), messages=2)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert consumer.counters.messages_received == 0
    assert await payloads(consumer, 2) == [b"first", b"second"]
    await desk.settled(4)


def cancel_at_hand_over(waiting: asyncio.Task[Message], monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancel a receive when its future is done and its task has not run yet."""
    put = ReceiveQueue.put

    def put_and_cancel(queue: ReceiveQueue, messages: list[Message]) -> None:
        put(queue, messages)
        waiting.cancel()

    monkeypatch.setattr(ReceiveQueue, "put", put_and_cancel)


@pytest.mark.row("S0.34")
async def test_a_message_put_back_goes_to_a_waiting_call(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = await desk.subscribe()
    waiting = asyncio.create_task(consumer.receive())
    await asyncio.sleep(0)
    waits_too = consumer.receive_async()
    cancel_at_hand_over(waiting, monkeypatch)
    desk.deliver_each(b"first")
    assert (await asyncio.wait_for(waits_too, 5)).data() == b"first"


async def test_a_receive_ends_when_its_time_limit_is_over(desk: Desk) -> None:
    consumer = await desk.subscribe()
    with pytest.raises(Timeout, match="20 ms"):
        await consumer.receive(timeout_millis=20)
    desk.deliver_each(b"late")
    assert (await consumer.receive(timeout_millis=5000)).data() == b"late"


@pytest.mark.row("S0.33")
async def test_the_state_decides_whether_a_receive_waits_or_is_refused(desk: Desk) -> None:
    consumer = await desk.subscribe()
    assert consumer.is_connected()
    desk.peer.on(events.Subscribe, lambda link, event: None)  # the consumer stays in the state "connecting"
    desk.link.drop()
    await until(lambda: not consumer.is_connected(), "the loss")
    assert consumer.state.value == "connecting"
    with pytest.raises(Timeout):
        await consumer.receive(timeout_millis=10)
    waiting = consumer.receive_async()
    await consumer.close()
    assert consumer.state.value == "closed"
    for call in (consumer.receive, consumer.batch_receive):
        with pytest.raises(AlreadyClosed):
            await call()
    with pytest.raises(AlreadyClosed):
        consumer.receive_async()
    with pytest.raises(AlreadyClosed):
        await waiting
    await consumer.close()


@pytest.mark.row("S0.33")
async def test_a_consumer_that_failed_is_not_connected(desk: Desk) -> None:
    consumer = await desk.subscribe()
    waiting = consumer.receive_async()
    desk.peer.on(
        events.Subscribe,
        lambda link, event: link.engine.send_error(event.request_id, ServerError.TOPIC_NOT_FOUND, "gone"),
    )
    desk.link.drop()
    with pytest.raises(NotConnected):
        await asyncio.wait_for(waiting, 5)
    assert consumer.state.value == "failed"
    with pytest.raises(NotConnected):
        await consumer.receive()
    await consumer.close()
    with pytest.raises(AlreadyClosed):
        await consumer.receive()


@pytest.mark.row("S0.33")
async def test_a_refused_subscription_raises_and_leaves_nothing(desk: Desk) -> None:
    desk.peer.on(
        events.Subscribe,
        lambda link, event: link.engine.send_error(event.request_id, ServerError.CONSUMER_BUSY, "taken"),
    )
    with pytest.raises(ConsumerBusy):
        await desk.subscribe()
    assert all(not link.engine.pending_bytes for link in desk.peer.links)


@pytest.mark.row("S0.33")
async def test_a_failure_after_subscribing_closes_the_consumer_at_the_broker(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(flow: FlowControl) -> None:
        raise TypeError("no number")

    with monkeypatch.context() as patch:
        patch.setattr(FlowControl, "attached", fail)
        with pytest.raises(TypeError):
            await desk.subscribe()
    await until(lambda: desk.peer.count(events.CloseConsumer) == 1, "CLOSE_CONSUMER")
    await desk.subscribe()


async def test_a_queue_size_must_be_a_whole_number(desk: Desk) -> None:
    with pytest.raises(InvalidConfiguration, match=r"1\.5"):
        await desk.subscribe(receiver_queue_size=1.5)
    assert not desk.peer.count(events.Subscribe)


@pytest.mark.row("S0.32")
async def test_a_consumer_with_a_listener_refuses_receive(desk: Desk) -> None:
    consumer = await desk.subscribe(message_listener=lambda consumer, message: None)
    with pytest.raises(InvalidConfiguration):
        await consumer.receive()
    with pytest.raises(InvalidConfiguration):
        consumer.receive_async()
    with pytest.raises(InvalidConfiguration):
        await consumer.batch_receive()
    with pytest.raises(InvalidConfiguration):
        await anext(consumer)
    without = await desk.subscribe()
    for call in (without.pause_message_listener, without.resume_message_listener):
        with pytest.raises(InvalidConfiguration):
            call()


@pytest.mark.row("S0.35")
async def test_a_consumer_without_a_name_gets_five_hexadecimal_digits_and_keeps_them(desk: Desk) -> None:
    consumer = await desk.subscribe()
    name = consumer.consumer_name()
    assert re.fullmatch("[0-9a-f]{5}", name)
    desk.link.drop()
    await desk.resubscribed(2)
    assert [event.consumer_name for event in desk.peer.of(events.Subscribe)] == [name, name]
    named = await desk.subscribe(consumer_name="mine")
    assert named.consumer_name() == "mine"
    assert (named.topic(), named.subscription_name()) == (TOPIC, "billing")


@pytest.mark.row("S0.37")
async def test_a_batch_that_overfills_the_queue_is_kept_whole(desk: Desk) -> None:
    consumer = await desk.subscribe(receiver_queue_size=10)
    sent = [b"%d" % index for index in range(100)]
    desk.deliver(batch(sent), messages=100)
    await delivered(consumer, 100)
    assert await payloads(consumer, 100) == sent
    await desk.settled(10)


async def test_iterating_ends_when_the_consumer_is_closed(desk: Desk) -> None:
    consumer = await desk.subscribe()
    desk.deliver_each(b"0", b"1")
    seen = []
    async with asyncio.timeout(5):
        async for message in consumer:
            seen.append(message.data())
            if len(seen) == 2:
                closing = asyncio.create_task(consumer.close())
    await closing
    assert seen == [b"0", b"1"]


async def test_a_batch_receive_ends_by_count_by_bytes_and_by_time(desk: Desk) -> None:
    consumer = await desk.subscribe(
        batch_receive_policy=ConsumerBatchReceivePolicy(max_num_message=3, max_num_bytes=10, timeout_ms=200)
    )
    desk.deliver_each(*(b"%d" % index for index in range(7)))
    found = [[message.data() for message in await consumer.batch_receive()] for _ in range(3)]
    assert found == [[b"0", b"1", b"2"], [b"3", b"4", b"5"], [b"6"]]
    assert await consumer.batch_receive() == []
    desk.deliver_each(b"x" * 8, b"y" * 8)
    assert [message.data() for message in await consumer.batch_receive()] == [b"x" * 8]


async def test_batch_receive_waits_no_longer_than_for_a_full_queue(desk: Desk) -> None:
    consumer = await desk.subscribe(
        receiver_queue_size=4,
        batch_receive_policy=ConsumerBatchReceivePolicy(max_num_message=100, max_num_bytes=-1, timeout_ms=-1),
    )
    collecting = asyncio.create_task(consumer.batch_receive())
    desk.deliver_each(b"0", b"1", b"2", b"3")
    assert len(await asyncio.wait_for(collecting, 5)) == 4
    await desk.settled(4)


@pytest.mark.parametrize("comes_last", [True, False])
async def test_a_discarded_entry_does_not_keep_a_batch_receive_from_ending(
    desk: Desk, comes_last: bool
) -> None:
    consumer = await desk.subscribe(
        receiver_queue_size=4,
        batch_receive_policy=ConsumerBatchReceivePolicy(max_num_message=100, max_num_bytes=-1, timeout_ms=-1),
    )
    collecting = asyncio.create_task(consumer.batch_receive())
    good, damaged = [single(b"%d" % index) for index in range(3)], damage(single(b"x"))
    for entry in (*good, damaged) if comes_last else (damaged, *good):
        desk.deliver(entry)
    assert [message.data() for message in await asyncio.wait_for(collecting, 5)] == [b"0", b"1", b"2"]
    await desk.settled(4)


async def test_a_batch_receive_after_a_single_receive_waits_no_longer_than_for_a_full_queue(
    desk: Desk,
) -> None:
    consumer = await desk.subscribe(
        receiver_queue_size=4,
        batch_receive_policy=ConsumerBatchReceivePolicy(max_num_message=4, max_num_bytes=-1, timeout_ms=-1),
    )
    desk.deliver_each(b"0", b"1", b"2", b"3")
    assert (await consumer.receive(5_000)).data() == b"0"
    assert desk.permits == 0, "the permit is granted again later, with others"
    assert len(await asyncio.wait_for(consumer.batch_receive(), 5)) == 3


async def test_a_cancelled_batch_receive_takes_nothing(desk: Desk) -> None:
    consumer = await desk.subscribe()
    collecting = asyncio.create_task(consumer.batch_receive())
    await asyncio.sleep(0)
    collecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await collecting
    desk.deliver_each(b"0")
    assert await payloads(consumer, 1) == [b"0"]


async def test_a_waiting_call_fails_when_the_client_closes(desk: Desk) -> None:
    consumer = await desk.subscribe(
        batch_receive_policy=ConsumerBatchReceivePolicy(10, -1, -1),
    )
    calls = [asyncio.create_task(call) for call in (consumer.receive(), consumer.batch_receive())]
    await asyncio.sleep(0)
    await consumer.close()
    for call in calls:
        with pytest.raises(AlreadyClosed):
            await call
    assert desk.peer.count(events.CloseConsumer) == 1


async def test_a_consumer_that_is_closed_while_it_subscribes_leaves_nothing(desk: Desk) -> None:
    consumer = await desk.subscribe()
    subscribed: list[events.Subscribe] = []
    desk.peer.on(events.Subscribe, lambda link, event: subscribed.append(event))
    desk.link.drop()
    await until(lambda: subscribed, "a SUBSCRIBE without an answer")
    closing = asyncio.create_task(consumer.close())
    desk.peer.link.engine.send_success(subscribed[0].request_id)
    desk.peer.link.flush()
    await closing
    await until(lambda: desk.peer.count(events.CloseConsumer) >= 1, "CLOSE_CONSUMER")
    assert consumer.state.value == "closed"
    assert not consumer.is_connected()


async def test_a_single_message_has_its_key_its_redelivery_count_and_its_id(desk: Desk) -> None:
    consumer = await desk.subscribe()
    desk.deliver(single(b"hello", partition_key="k"), redelivery_count=3, entry_id=9)
    message = await consumer.receive()
    assert (message.data(), message.partition_key(), message.redelivery_count()) == (b"hello", "k", 3)
    assert (message.message_id().entry_id(), message.topic_name()) == (9, TOPIC)
