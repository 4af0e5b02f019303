"""Permits on the wire, reconnects, pausing, epochs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.doors.binary.wire import events
from tests.integration.client.consumer.desk import Desk, owed
from tests.integration.client.consumer.test_receiving import delivered, payloads
from tests.support.waiting import until
from tests.unit.client.entries import batch, damage, single
from vela.errors import InvalidConfiguration
from vela.message import Message
from vela.options import ConsumerBatchReceivePolicy, ConsumerType


@pytest.mark.row("S0.41")
async def test_the_first_flow_is_the_queue_size_after_every_subscribe(desk: Desk) -> None:
    await desk.subscribe(receiver_queue_size=7)
    await desk.settled(7)
    desk.link.drop()
    await desk.resubscribed(2)
    assert desk.flows == [7]
    order = [
        type(event).__name__ for event in desk.link.heard if isinstance(event, events.Subscribe | events.Flow)
    ]
    assert order == ["Subscribe", "Flow"]


@pytest.mark.row("S2.1")
async def test_the_default_queue_size_is_1000(desk: Desk) -> None:
    await desk.subscribe(receiver_queue_size=None)
    await desk.settled(1000)
    with pytest.raises(InvalidConfiguration, match="0 or more"):
        await desk.subscribe(receiver_queue_size=-1)


@pytest.mark.row("S0.43")
async def test_permits_of_half_the_queue_are_granted_in_one_flow(desk: Desk) -> None:
    consumer = await desk.subscribe(receiver_queue_size=10)
    desk.deliver_each(*(b"%d" % index for index in range(10)))
    await payloads(consumer, 4)
    await desk.fence(consumer)
    assert desk.flows == [10]
    await payloads(consumer, 1)
    await until(lambda: desk.flows == [10, 5], "the second Flow")
    await payloads(consumer, 5)
    await until(lambda: desk.flows == [10, 5, 5], "the third")


@pytest.mark.row("S0.43")
async def test_a_queue_of_one_grants_a_permit_for_each_message(desk: Desk) -> None:
    consumer = await desk.subscribe(receiver_queue_size=1)
    for payload in (b"0", b"1", b"2"):
        desk.deliver_each(payload)
        assert await payloads(consumer, 1) == [payload]
        await desk.settled(1)
    assert desk.flows == [1, 1, 1, 1]


@pytest.mark.row("S0.40")
async def test_the_queue_has_as_many_messages_as_requested(desk: Desk) -> None:
    consumer = await desk.subscribe(receiver_queue_size=5)
    desk.deliver_each(*(b"%d" % index for index in range(5)))
    await delivered(consumer, 5)
    assert (len(consumer.queue), desk.permits, consumer.available_permits) == (5, 0, 0)
    await payloads(consumer, 3)
    await until(lambda: desk.permits > 0, "a refill")
    assert consumer.available_permits == 3


@pytest.mark.row("S0.46", "S2.3")
async def test_permits_show_whether_anyone_receives(desk: Desk) -> None:
    consumer = await desk.subscribe(receiver_queue_size=4)
    desk.deliver(batch([b"x"] * 6), messages=6)
    await delivered(consumer, 6)
    assert consumer.available_permits == -2
    await payloads(consumer, 4)
    assert consumer.available_permits == 2
    await desk.settled(2)


@pytest.mark.row("S0.51")
async def test_a_message_is_counted_when_it_is_taken(desk: Desk) -> None:
    consumer = await desk.subscribe()
    desk.deliver_each(*(b"12345" for _ in range(10)))
    await delivered(consumer, 10)
    await payloads(consumer, 3)
    assert (consumer.counters.messages_received, consumer.counters.bytes_received) == (3, 15)


@pytest.mark.row("S0.44")
async def test_deliveries_over_a_replaced_connection_are_ignored(desk: Desk) -> None:
    consumer = await desk.subscribe(receiver_queue_size=10)
    desk.deliver_each(*(b"old%d" % index for index in range(5)))
    await delivered(consumer, 5)
    taken = await consumer.receive()
    old = desk.link
    desk.peer.on(events.Subscribe, lambda link, event: None)
    link = consumer.link.connection
    assert link is not None
    # Answer the first SUBSCRIBE late, and later ones at once.
    desk._subscribed(old, desk.peer.of(events.Subscribe)[0])
    desk.peer.on(events.Subscribe, desk._subscribed)
    old.drop()
    await desk.resubscribed(2)
    assert desk.permits == 10
    assert len(consumer.queue) == 0
    consumer.taken(taken)
    consumer.on_message(link, None)  # type: ignore[arg-type]  # the client ignores the message
    assert (consumer.counters.stale_entries, consumer.counters.messages_received) == (1, 1)
    desk.deliver_each(*(b"new%d" % index for index in range(5)))
    assert await payloads(consumer, 5) == [b"new%d" % index for index in range(5)]
    await desk.settled(10)


@pytest.mark.row("S0.44")
async def test_a_message_taken_from_a_lost_connection_gives_no_permit(desk: Desk) -> None:
    consumer = await desk.subscribe(receiver_queue_size=2)
    desk.deliver_each(b"old")
    old = await consumer.receive()
    desk.link.drop()
    await desk.resubscribed(2)
    consumer.taken(old)
    consumer.taken(old)
    await desk.fence(consumer)
    assert desk.flows == [2]


async def test_a_consumer_that_the_broker_closes_comes_back(desk: Desk) -> None:
    consumer = await desk.subscribe()
    desk.link.engine.send_close_consumer(desk.consumer_id)
    desk.link.flush()
    await desk.resubscribed(2)
    await until(consumer.is_connected, "the consumer")
    desk.deliver_each(b"again")
    assert await payloads(consumer, 1) == [b"again"]
    assert len(desk.peer.open_links) == 1


async def test_pausing_stops_the_flow_and_resuming_sends_the_collected_permits(desk: Desk) -> None:
    consumer = await desk.subscribe(receiver_queue_size=4, start_paused=True)
    await desk.fence(consumer)
    assert desk.flows == []
    consumer.resume()
    await desk.settled(4)
    consumer.pause()
    desk.deliver_each(b"0", b"1", b"2", b"3")
    await payloads(consumer, 4)
    consumer.pause()
    assert desk.permits == 0
    desk.link.drop()
    await until(lambda: desk.peer.count(events.Subscribe) == 2 and consumer.is_connected(), "the reconnect")
    assert desk.flows == []
    consumer.resume()
    await until(lambda: desk.flows == [4], "one Flow")


@pytest.mark.row("S0.36")
async def test_an_auto_scaled_queue_begins_at_one_and_doubles(desk: Desk) -> None:
    consumer = await desk.subscribe(receiver_queue_size=8, auto_scaled_receiver_queue_size_enabled=True)
    await desk.settled(1)
    sizes = []
    for _ in range(5):
        desk.deliver_each(*[b"x"] * desk.permits)
        await delivered(consumer, desk.next_entry)
        await payloads(consumer, len(consumer.queue))
        waiting = consumer.receive_async()
        await until(lambda: desk.permits > 0, "permits")
        await desk.fence(consumer)
        sizes.append(desk.permits)
        waiting.cancel()
    assert sizes == [2, 4, 8, 8, 8]


@pytest.mark.row("S0.36")
async def test_an_auto_scaled_queue_grows_for_batch_receives(desk: Desk) -> None:
    consumer = await desk.subscribe(
        receiver_queue_size=8,
        auto_scaled_receiver_queue_size_enabled=True,
        batch_receive_policy=ConsumerBatchReceivePolicy(100, -1, 60_000),
    )
    await desk.settled(1)
    for size in (2, 4, 8, 8):
        desk.deliver_each(*[b"x"] * desk.permits)
        await delivered(consumer, desk.next_entry)
        await consumer.batch_receive()
        waiting = asyncio.create_task(consumer.batch_receive())
        await desk.settled(size)
        waiting.cancel()


@pytest.mark.row("S0.36")
@pytest.mark.parametrize("on_thread", [True, False])
async def test_an_auto_scaled_queue_grows_for_a_listener(desk: Desk, on_thread: bool) -> None:
    async def listen(consumer: Any, message: Message) -> None:
        pass

    await desk.subscribe(
        receiver_queue_size=8,
        auto_scaled_receiver_queue_size_enabled=True,
        message_listener=(lambda consumer, message: None) if on_thread else listen,
    )
    await desk.settled(1)
    desk.deliver_each(b"x")
    await desk.settled(2)


@pytest.mark.row("S4.24")
async def test_redelivering_on_exclusive_drops_the_queue_and_messages_under_way(desk: Desk) -> None:
    consumer = await desk.subscribe(receiver_queue_size=10)
    assert desk.peer.of(events.Subscribe)[0].epoch == 0
    for index in range(4):
        desk.deliver(single(b"%d" % index), epoch=0)
    await payloads(consumer, 2)
    await delivered(consumer, 4)
    consumer.redeliver_unacknowledged_messages()
    # The broker sent this entry before it got the redelivery request.
    desk.deliver(batch([b"late", b"late"]), messages=2, epoch=0)
    desk.deliver(single(b"again"), epoch=1)
    assert await payloads(consumer, 1) == [b"again"]
    assert desk.peer.of(events.Redeliver) == [events.Redeliver(desk.consumer_id, [], 1)]
    assert consumer.counters.stale_entries == 1
    desk.deliver_each(*(b"%d" % index for index in range(4)))
    await payloads(consumer, 4)
    await until(lambda: desk.permits + owed(consumer) == 10, "all permits")
    desk.link.drop()
    await desk.resubscribed(2)
    assert desk.peer.of(events.Subscribe)[1].epoch == 1


async def test_redelivering_on_shared_asks_without_an_epoch(desk: Desk) -> None:
    consumer = await desk.subscribe(consumer_type=ConsumerType.Shared, receiver_queue_size=4)
    desk.deliver_each(b"0", b"1", b"2")
    await delivered(consumer, 3)
    consumer.redeliver_unacknowledged_messages()
    await desk.settled(4)
    assert desk.peer.of(events.Redeliver) == [events.Redeliver(desk.consumer_id, [], None)]
    assert desk.peer.of(events.Subscribe)[0].epoch is None


async def test_a_negative_ack_on_shared_takes_the_entry_out_of_the_queue(desk: Desk) -> None:
    consumer = await desk.subscribe(
        consumer_type=ConsumerType.Shared, receiver_queue_size=8, negative_ack_redelivery_delay_ms=100
    )
    desk.deliver(batch([b"0", b"1", b"2"]), messages=3)
    desk.deliver_each(b"other")
    message = await consumer.receive()
    consumer.negative_acknowledge(message)
    await until(lambda: desk.peer.count(events.Redeliver) == 1, "the request")
    assert await payloads(consumer, 1) == [b"other"]
    await until(lambda: desk.permits + owed(consumer) == 8, "all permits")


@pytest.mark.row("S0.19")
async def test_permits_are_conserved_in_every_order_of_events(desk: Desk) -> None:
    consumer = await desk.subscribe(receiver_queue_size=20)
    good = 0
    for index in range(200):
        kind = index % 5
        size = index % 7 + 1
        sent = batch([b"m%d" % index] * size)
        if kind == 0:
            desk.deliver(damage(sent), messages=size)
        elif kind == 1:
            desk.deliver(sent, messages=size)
            good += size
        elif kind == 2:
            desk.deliver(single(b"s%d" % index))
            good += 1
        elif kind == 3:
            desk.deliver(sent, messages=1, ack_set=1)
            good += 1
        else:
            desk.deliver(batch([b"m"] * 3, cut=1), messages=3)
            good += 2
        await delivered(consumer, good)
        while consumer.receive_nowait() is not None:
            pass
    await until(lambda: desk.permits + owed(consumer) == 20, "all permits")
    assert consumer.counters.messages_received == good
    await desk.fence(consumer)
    assert len(desk.discards()) == 80
