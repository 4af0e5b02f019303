"""Acks and negative acks on the wire, with timers that the test controls (S4)."""

from __future__ import annotations

import asyncio

import pytest

from broker.doors.binary.wire import events
from tests.integration.client.consumer.acking import SHARED, acked, asked, take
from tests.integration.client.consumer.desk import Desk, desk_running
from tests.support.manual_timers import ManualTimers
from tests.support.scripted_peer import Link, silent
from tests.support.waiting import until
from tests.unit.client.entries import batch, single
from vela import errors
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.core.acks.negative_acks import NegativeAckTimer
from vela.wire.binary.enums import ServerError


@pytest.mark.row("S4.9")
async def test_ten_acks_are_one_command(desk: Desk, timers: ManualTimers) -> None:
    consumer = await desk.subscribe()
    desk.deliver_each(*[b"x"] * 10)
    for message in await take(consumer, 10):
        await consumer.acknowledge(message)
        timers.advance(9)
    await desk.fence(consumer)
    assert acked(desk) == []
    timers.advance(50)
    await desk.fence(consumer)
    assert acked(desk) == [list(range(10))]


@pytest.mark.row("S4.5", "S4.7")
async def test_a_cumulative_ack_is_sent_on_exclusive_and_refused_on_shared(
    desk: Desk, timers: ManualTimers
) -> None:
    consumer = await desk.subscribe()
    desk.deliver_each(b"x")
    desk.deliver(batch([b"0", b"1", b"2"]), messages=3)
    first, inside, *_ = await take(consumer, 4)
    consumer.acknowledge_cumulative(inside)
    timers.advance(100)
    await desk.fence(consumer)
    assert [(ack.cumulative, ack.ids[0].entry_id) for ack in desk.peer.of(events.Ack)] == [(True, 0)]
    shared = await desk.subscribe(consumer_type=SHARED)
    with pytest.raises(errors.CumulativeAcknowledgementNotAllowedError):
        shared.acknowledge_cumulative(first)


@pytest.mark.row("S0.26", "S4.6", "S4.7")
@pytest.mark.parametrize("batch_index_ack", [True, False])
async def test_a_partly_acked_batch_is_sent_as_the_options_say(
    desk: Desk, timers: ManualTimers, batch_index_ack: bool
) -> None:
    consumer = await desk.subscribe(batch_index_ack_enabled=batch_index_ack)
    desk.deliver(batch([b"%d" % index for index in range(10)]), messages=10)
    messages = await take(consumer, 10)
    for message in messages[:9]:
        consumer.acknowledge(message)
    timers.advance(100)
    await desk.fence(consumer)
    assert acked(desk) == ([[(0, 1 << 9)]] if batch_index_ack else [])
    consumer.acknowledge(messages[9])
    timers.advance(100)
    await desk.fence(consumer)
    assert acked(desk)[-1] == [0]


@pytest.mark.row("S4.8")
async def test_no_ack_is_sent_for_a_topic_that_stores_nothing(desk: Desk, timers: ManualTimers) -> None:
    consumer = await desk.client.subscribe("non-persistent://public/default/orders", "billing")
    assert isinstance(consumer, TopicConsumer)
    desk.deliver_each(b"x")
    (message,) = await take(consumer, 1)
    await consumer.acknowledge(message)
    timers.advance(1000)
    await desk.fence(consumer)
    assert acked(desk) == []


@pytest.mark.row("S4.12")
async def test_a_receipt_is_the_brokers_answer(desk: Desk) -> None:
    consumer = await desk.subscribe(ack_receipt_enabled=True, ack_group_time_ms=0)
    desk.deliver_each(b"a", b"b", b"c")
    first, second, third = await take(consumer, 3)
    await consumer.acknowledge(first)
    assert [ack.request_id is not None for ack in desk.peer.of(events.Ack)] == [True]

    def refuse(link: Link, event: events.Ack) -> None:
        assert event.request_id is not None
        link.engine.send_ack_response(
            event.consumer_id, event.request_id, code=ServerError.NOT_ALLOWED_ERROR, message="no"
        )

    desk.peer.on(events.Ack, refuse)
    with pytest.raises(errors.NotAllowedError):
        await consumer.acknowledge(second)
    desk.peer.on(events.Ack, lambda link, event: link.drop())
    with pytest.raises(errors.ReadError) as lost:
        await consumer.acknowledge(third)
    assert lost.value.retriable


@pytest.mark.row("S4.13")
async def test_a_client_that_dies_within_the_window_has_acked_nothing(
    desk: Desk, timers: ManualTimers
) -> None:
    consumer = await desk.subscribe()
    desk.deliver_each(b"x")
    (message,) = await take(consumer, 1)
    consumer.acknowledge(message)
    timers.advance(99)
    desk.peer.on(events.Subscribe, lambda link, event: None)
    desk.link.drop()  # as if the process died before it sent the collected acks
    assert acked(desk) == []


@pytest.mark.row("S4.14")
async def test_an_acked_message_is_not_shown_again_and_costs_no_permit(
    desk: Desk, timers: ManualTimers
) -> None:
    consumer = await desk.subscribe(receiver_queue_size=10, batch_index_ack_enabled=True)
    desk.deliver_each(b"a", b"b")
    desk.deliver(batch([b"0", b"1", b"2"]), messages=3)
    messages = await take(consumer, 5)
    before = desk.peer.count(events.Subscribe)
    desk.drop()
    await until(lambda: not consumer.is_connected(), "the loss")
    for message in (messages[0], messages[3]):
        consumer.acknowledge(message)
    # The client sends acks as soon as it has a link. Here the broker delivers before it reads the acks.
    consumer.acks.flush = lambda properties=None: None  # type: ignore[method-assign]
    await desk.resubscribed(before + 1)
    desk.deliver(single(b"a"), entry_id=0)
    desk.deliver(single(b"b"), entry_id=1)
    desk.deliver(batch([b"0", b"1", b"2"]), entry_id=2, messages=3)
    assert [message.data() for message in await take(consumer, 3)] == [b"b", b"0", b"2"]
    await desk.settled(10)


@pytest.mark.row("S4.15")
async def test_acks_without_a_link_are_the_first_thing_sent_on_the_next(
    desk: Desk, timers: ManualTimers
) -> None:
    consumer = await desk.subscribe()
    desk.deliver_each(*[b"x"] * 5)
    messages = await take(consumer, 5)
    desk.drop()
    await until(lambda: not consumer.is_connected(), "the loss")
    for message in messages:
        consumer.acknowledge(message)
    timers.advance(5000)
    await desk.resubscribed(2)
    kinds = [type(event) for event in desk.link.heard if isinstance(event, events.Ack | events.Flow)]
    assert kinds == [events.Ack, events.Flow]
    assert acked(desk) == [[0, 1, 2, 3, 4]]


@pytest.mark.row("S4.15")
async def test_acks_are_kept_when_the_broker_closes_the_consumer(desk: Desk, timers: ManualTimers) -> None:
    """CLOSE_CONSUMER does not say whether a topic was unloaded or a cursor moved (docs/decisions/0020)."""
    consumer = await desk.subscribe()
    desk.deliver_each(b"0", b"1", b"2")
    messages = await take(consumer, 3)
    consumer.acknowledge_cumulative(messages[1])
    desk.link.engine.send_close_consumer(desk.consumer_id)
    desk.link.flush()
    await until(lambda: not consumer.is_connected(), "the close")
    consumer.acknowledge_cumulative(messages[2])
    assert acked(desk) == []
    await desk.resubscribed(2)
    assert acked(desk) == [[2]]
    heard = [type(each) for each in desk.link.heard]
    assert heard.index(events.Ack) < len(heard) - 1 - heard[::-1].index(events.Flow), "before its permits"


@pytest.mark.row("S4.14")
async def test_closing_sends_the_collected_acks(desk: Desk, timers: ManualTimers) -> None:
    consumer = await desk.subscribe()
    desk.deliver_each(b"x")
    (message,) = await take(consumer, 1)
    consumer.acknowledge(message)
    await consumer.close()
    order = [type(event) for event in desk.link.heard if isinstance(event, events.Ack | events.CloseConsumer)]
    assert order == [events.Ack, events.CloseConsumer]
    with pytest.raises(errors.AlreadyClosed):
        consumer.acknowledge(message)


async def test_closing_waits_once_for_a_broker_that_answers_nothing() -> None:
    async with desk_running(operation_timeout_seconds=2) as desk:
        for kind in (events.Ack, events.CloseConsumer):
            desk.peer.on(kind, silent)
        consumer = await desk.subscribe(ack_receipt_enabled=True)
        desk.deliver_each(b"x")
        (message,) = await take(consumer, 1)
        acked = asyncio.ensure_future(consumer.acknowledge(message))
        async with asyncio.timeout(3.5):  # two waits would take 4 s
            await consumer.close()
        with pytest.raises(errors.Timeout):
            await acked
        # close() may have returned before the request arrived.
        await until(lambda: desk.peer.count(events.CloseConsumer) == 1, "the close")


@pytest.mark.row("S4.16")
@pytest.mark.parametrize(
    ("timer", "not_before_ms", "by_ms"),
    [
        (NegativeAckTimer.PRECISE, 1000, 1033),
        (NegativeAckTimer.TRUNCATED, 744, 1001),
        (NegativeAckTimer.PERIODIC, 1000, 1335),
    ],
)
async def test_negatively_acked_messages_are_redelivered_within_the_window_of_their_timer(
    desk: Desk, timers: ManualTimers, timer: NegativeAckTimer, not_before_ms: int, by_ms: int
) -> None:
    consumer = await desk.subscribe(
        consumer_type=SHARED, negative_ack_redelivery_delay_ms=1000, negative_ack_timer=timer
    )
    desk.deliver_each(b"x", b"y")
    message, other = await take(consumer, 2)
    await consumer.negative_acknowledge(message)
    timers.advance(not_before_ms - 1)
    await desk.fence(consumer)
    assert asked(desk) == []
    timers.advance(by_ms - not_before_ms + 1)
    await desk.fence(consumer)
    assert asked(desk) == [[0]]
    del other


@pytest.mark.row("S4.18")
async def test_negative_acks_go_with_their_consumer(desk: Desk, timers: ManualTimers) -> None:
    consumer = await desk.subscribe(consumer_type=SHARED, negative_ack_redelivery_delay_ms=3_600_000)
    desk.deliver_each(b"x")
    (message,) = await take(consumer, 1)
    consumer.negative_acknowledge(message)
    await consumer.close()
    assert timers.running == 0
    assert desk.peer.count(events.CloseConsumer) == 1
    assert asked(desk) == []


@pytest.mark.row("S4.19")
async def test_a_negative_ack_ends_the_ack_timeout(desk: Desk, timers: ManualTimers) -> None:
    consumer = await desk.subscribe(
        consumer_type=SHARED, unacked_messages_timeout_ms=1000, negative_ack_redelivery_delay_ms=3000
    )
    desk.deliver_each(b"x")
    (message,) = await take(consumer, 1)
    consumer.negative_acknowledge(message)
    timers.advance(1500)
    consumer.negative_acknowledge(message)
    timers.advance(20_000)
    await desk.fence(consumer)
    assert asked(desk) == [[0]]


@pytest.mark.row("S4.20")
@pytest.mark.parametrize("batch_index_ack", [True, False])
async def test_acks_of_neighbours_are_sent_before_the_entry_is_asked_for(
    desk: Desk, timers: ManualTimers, batch_index_ack: bool
) -> None:
    consumer = await desk.subscribe(
        consumer_type=SHARED, negative_ack_redelivery_delay_ms=100, batch_index_ack_enabled=batch_index_ack
    )
    desk.deliver(batch([b"0", b"1", b"2"]), messages=3)
    first, refused, last = await take(consumer, 3)
    consumer.negative_acknowledge(refused)
    timers.advance(90)
    consumer.acknowledge([first, last])
    timers.advance(43)
    await desk.fence(consumer)
    assert asked(desk) == [[0]]
    assert acked(desk) == ([[(0, 0b010)]] if batch_index_ack else [])
    desk.deliver(
        batch([b"0", b"1", b"2"]),
        entry_id=0,
        ack_set=0b010 if batch_index_ack else None,
        redelivery_count=1,
        messages=1 if batch_index_ack else 3,
    )
    again = [message.data() for message in await take(consumer, 1 if batch_index_ack else 3)]
    assert again == ([b"1"] if batch_index_ack else [b"0", b"1", b"2"])


@pytest.mark.row("S4.20")
async def test_waiting_messages_of_a_redelivered_entry_are_dropped(desk: Desk, timers: ManualTimers) -> None:
    consumer = await desk.subscribe(
        consumer_type=SHARED, receiver_queue_size=4, negative_ack_redelivery_delay_ms=100
    )
    desk.deliver(batch([b"0", b"1", b"2"]), messages=3)
    (refused,) = await take(consumer, 1)
    consumer.negative_acknowledge(refused)
    timers.advance(140)
    await desk.settled(4)
    desk.deliver(batch([b"0", b"1", b"2"]), entry_id=0, redelivery_count=1, messages=3)
    assert [message.data() for message in await take(consumer, 3)] == [b"0", b"1", b"2"]
