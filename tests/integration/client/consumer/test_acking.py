"""Acks, negative acks, ack timeouts and dead letters on the wire, while time passes as the test says (S4)."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import timedelta
from typing import Any

import pytest

from broker.doors.binary.wire import events
from tests.integration.client.consumer.desk import TOPIC, Desk, desk_running
from tests.support.manual_timers import ManualTimers
from tests.support.scripted_peer import Link, silent
from tests.support.waiting import until
from tests.unit.client.entries import batch, single
from vela import errors
from vela.aio.consumers.consumer import Consumer
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.core.acks.negative_acks import NegativeAckTimer
from vela.core.consuming.prefetch import LOOK_MS
from vela.message import Message
from vela.options import ConsumerDeadLetterPolicy, ConsumerType
from vela.wire.binary.enums import ServerError
from vela.wire.checksum import with_checksum
from vela.wire.entry.header import parse_metadata
from vela.wire.redelivery_backoff import RedeliveryBackoff

SHARED = ConsumerType.Shared
DEAD = f"{TOPIC}-billing-DLQ"
RETRY = f"{TOPIC}-billing-RETRY"


@pytest.fixture
def timers(desk: Desk) -> ManualTimers:
    manual = ManualTimers()
    desk.client.make_timers = lambda: manual
    return manual


async def take(consumer: TopicConsumer, count: int) -> list[Message]:
    async with asyncio.timeout(10):
        return [await consumer.receive() for _ in range(count)]


def asked(desk: Desk) -> list[list[int]]:
    """Entries of every redelivery request so far; [] = everything."""
    return [[entry_id for _, entry_id in each.positions] for each in desk.peer.of(events.Redeliver)]


def acked(desk: Desk) -> list[list[Any]]:
    """What every ack command named: entries, or (entry, what remains of it)."""
    return [
        [each.entry_id if each.ack_set is None else (each.entry_id, each.ack_set) for each in ack.ids]
        for ack in desk.peer.of(events.Ack)
    ]


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
async def test_cumulative_acks_by_type(desk: Desk, timers: ManualTimers) -> None:
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
async def test_what_is_sent_of_a_batch(desk: Desk, timers: ManualTimers, batch_index_ack: bool) -> None:
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
async def test_of_a_topic_that_stores_nothing_no_ack_is_sent(desk: Desk, timers: ManualTimers) -> None:
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
    desk.link.drop()  # and what was gathered goes with the process
    assert acked(desk) == []


@pytest.mark.row("S4.14")
async def test_what_was_acked_is_not_shown_again_and_costs_no_permit(
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
    # Acks go out as soon as there is a link; here the broker delivers all the same before it looks at them.
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
    """Whether a topic was unloaded or a cursor moved the command does not say (docs/decisions/0020)."""
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
async def test_closing_sends_what_is_gathered(desk: Desk, timers: ManualTimers) -> None:
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
        async with asyncio.timeout(3.5):  # twice the two seconds before
            await consumer.close()
        with pytest.raises(errors.Timeout):
            await acked
        assert desk.peer.count(events.CloseConsumer) == 1


@pytest.mark.row("S4.16")
@pytest.mark.parametrize(
    ("timer", "not_before_ms", "by_ms"),
    [
        (NegativeAckTimer.PRECISE, 1000, 1033),
        (NegativeAckTimer.TRUNCATED, 744, 1001),
        (NegativeAckTimer.PERIODIC, 1000, 1335),
    ],
)
async def test_negative_acks_come_again_in_the_window_of_their_timer(
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


@pytest.mark.row("S4.17")
async def test_2500_negative_acks_are_three_commands(desk: Desk, timers: ManualTimers) -> None:
    consumer = await desk.subscribe(consumer_type=SHARED, receiver_queue_size=3000)
    desk.deliver_each(*[b"x"] * 2500)
    for message in await take(consumer, 2500):
        consumer.negative_acknowledge(message)
    timers.advance(60_100)
    await desk.fence(consumer)
    assert [len(each) for each in asked(desk)] == [1000, 1000, 500]


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
async def test_what_waits_of_an_entry_that_is_asked_for_is_dropped(desk: Desk, timers: ManualTimers) -> None:
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


@pytest.mark.row("S4.1", "S0.45", "S4.21")
async def test_what_is_taken_and_not_acked_comes_again(desk: Desk, timers: ManualTimers) -> None:
    consumer = await desk.subscribe(
        consumer_type=SHARED, unacked_messages_timeout_ms=1000, unacked_messages_tick_ms=100
    )
    desk.deliver_each(b"acked", b"forgotten", b"in the queue")
    done, _ = await take(consumer, 2)
    consumer.acknowledge(done)
    timers.advance(1000)
    await desk.fence(consumer)
    assert asked(desk) == []
    timers.advance(200)
    await desk.fence(consumer)
    assert asked(desk) == [[1]]
    timers.advance(60_000)
    await desk.fence(consumer)
    assert asked(desk) == [[1]], "S4.25: what waits in the queue has no timeout"


@pytest.mark.row("S4.24")
async def test_on_exclusive_everything_comes_again_in_order(desk: Desk, timers: ManualTimers) -> None:
    consumer = await desk.subscribe(receiver_queue_size=10, negative_ack_redelivery_delay_ms=100)
    desk.deliver_each(*(b"%d" % index for index in range(8)))
    messages = await take(consumer, 3)
    consumer.negative_acknowledge(messages[1])
    timers.advance(140)
    await until(lambda: asked(desk) == [[]], "the request for everything")
    await desk.settled(10 - 3 + 3)
    epoch = desk.peer.of(events.Redeliver)[0].epoch
    assert epoch == 1
    desk.deliver(single(b"old"), entry_id=8, epoch=0)
    desk.deliver(single(b"0"), entry_id=0, epoch=1)
    assert [message.data() for message in await take(consumer, 1)] == [b"0"]


@pytest.mark.row("S4.27", "S4.28")
@pytest.mark.parametrize("is_backed_off", [True, False])
async def test_a_back_off_follows_the_timeout(desk: Desk, timers: ManualTimers, is_backed_off: bool) -> None:
    backoff = RedeliveryBackoff(min_ms=4000, max_ms=60_000, multiplier=2) if is_backed_off else None
    consumer = await desk.subscribe(
        consumer_type=SHARED, unacked_messages_timeout_ms=1000, ack_timeout_redelivery_backoff=backoff
    )
    desk.deliver(single(b"x"), redelivery_count=1)
    await take(consumer, 1)
    seconds = 0
    while not asked(desk):
        timers.advance(1000)
        seconds += 1
        await desk.fence(consumer)
    assert seconds == (10 if is_backed_off else 2)


@pytest.mark.row("S4.2", "S4.29")
async def test_without_timeout_and_negative_ack_nothing_is_asked_for(
    desk: Desk, timers: ManualTimers
) -> None:
    consumer = await desk.subscribe(consumer_type=SHARED)
    desk.deliver_each(b"x")
    await take(consumer, 1)
    timers.advance(600_000)
    await desk.fence(consumer)
    assert asked(desk) == []


@pytest.mark.row("S4.30")
@pytest.mark.parametrize("timeout_ms", [999, 1, -1])
async def test_a_short_ack_timeout_is_refused(desk: Desk, timeout_ms: int) -> None:
    with pytest.raises(errors.InvalidConfiguration, match="unacked_messages_timeout_ms"):
        await desk.subscribe(unacked_messages_timeout_ms=timeout_ms)
    with pytest.raises(errors.InvalidConfiguration, match="unacked_messages_tick_ms"):
        await desk.subscribe(unacked_messages_timeout_ms=1000, unacked_messages_tick_ms=99)


@pytest.mark.row("S4.25", "S4.26")
async def test_a_consumer_that_hoards_is_told_so(
    desk: Desk, timers: ManualTimers, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = await desk.subscribe(consumer_type=SHARED, unacked_messages_timeout_ms=1000)
    desk.deliver_each(*[b"x"] * 100)
    await until(lambda: len(consumer.queue) == 100, "the deliveries")
    with caplog.at_level(logging.WARNING, "vela"):
        timers.advance(LOOK_MS)
        timers.advance(LOOK_MS)
    assert asked(desk) == [], "no timeout for what nobody took"
    assert ["100 messages wait in this consumer" in text for text in caplog.messages] == [True]


# -- dead letters --------------------------------------------------------------------------------------------------


async def dead_lettering(desk: Desk, **options: Any) -> TopicConsumer:
    policy = ConsumerDeadLetterPolicy(2, initial_subscription_name="morgue")
    return await desk.subscribe(
        consumer_type=SHARED,
        dead_letter_policy=policy,
        negative_ack_redelivery_delay_ms=100,
        ack_group_time_ms=0,
        consumer_name="c1",
        **options,
    )


def no_old_names(link: Link, event: events.PartitionMetadata) -> None:
    """There is no topic of a name that old clients used."""
    if event.topic.endswith("/billing-DLQ"):
        assert not event.create
        link.engine.send_partition_metadata_failed(
            event.request_id, ServerError.TOPIC_NOT_FOUND, "no such topic"
        )
    else:
        link.engine.send_partition_metadata(event.request_id, 0)


@pytest.mark.row("I16", "S4.31")
async def test_a_dead_letter_is_stored_then_acked_and_nothing_is_asked_for(
    desk: Desk, timers: ManualTimers
) -> None:
    desk.peer.on(events.PartitionMetadata, no_old_names)
    consumer = await dead_lettering(desk)
    desk.deliver(single(b"bad", partition_key="k"), redelivery_count=2)
    (message,) = await take(consumer, 1)
    consumer.negative_acknowledge(message)
    timers.advance(140)
    await until(lambda: acked(desk) == [[0]], "the ack of the original")
    assert asked(desk) == []
    (opened,) = desk.peer.of(events.OpenProducer)
    assert opened.topic == DEAD
    assert opened.initial_subscription == "morgue"
    assert opened.producer_name is not None
    assert opened.producer_name.startswith(f"{TOPIC}-billing-c1-")
    assert opened.producer_name.endswith("-DLQ")
    heard = [type(event) for event in desk.peer.heard if isinstance(event, events.Send | events.Ack)]
    assert heard == [events.Send, events.Ack]


@pytest.mark.row("I16")
async def test_what_waits_of_a_batch_at_the_limit_is_shown_and_costs_its_permits_once(
    desk: Desk, timers: ManualTimers
) -> None:
    desk.peer.on(events.PartitionMetadata, no_old_names)
    consumer = await dead_lettering(desk, receiver_queue_size=1)
    desk.deliver(batch([b"0", b"1", b"2"]), messages=3, redelivery_count=2)
    (bad,) = await take(consumer, 1)
    consumer.negative_acknowledge(bad)
    timers.advance(140)
    await until(lambda: desk.peer.count(events.Send) == 1, "the letter")
    await desk.fence(consumer)
    assert (asked(desk), acked(desk), len(consumer.queue)) == ([], [], 2)
    for message in await take(consumer, 2):
        consumer.acknowledge(message)
    await until(lambda: acked(desk) == [[0]], "the ack of the batch")
    await desk.settled(1)
    assert desk.peer.count(events.Send) == 1


@pytest.mark.row("I16")
async def test_what_waits_in_a_consumer_of_several_topics_makes_no_letter(
    desk: Desk, timers: ManualTimers
) -> None:
    consumer, consumer_id = await retrying(
        desk,
        dead_letter_policy=ConsumerDeadLetterPolicy(2),
        negative_ack_redelivery_delay_ms=100,
        unacked_messages_timeout_ms=10_000,
    )
    desk.link.deliver(consumer_id, batch([b"0", b"1", b"2"]), entry_id=4, redelivery_count=2)
    async with asyncio.timeout(10):
        consumer.negative_acknowledge(await consumer.receive())
        timers.advance(140)
        await until(lambda: desk.peer.count(events.Send) == 1, "the letter")
        for _ in range(2):
            consumer.acknowledge(await consumer.receive())
    await until(lambda: acked(desk) == [[4]], "the ack of the batch")
    assert (asked(desk), desk.peer.count(events.Send)) == ([], 1)


async def test_what_is_held_during_a_seek_that_fails_waits_too_and_is_shown_once(
    desk: Desk, timers: ManualTimers
) -> None:
    desk.peer.on(events.PartitionMetadata, no_old_names)
    seeks: list[events.Seek] = []
    desk.peer.on(events.Seek, lambda link, event: seeks.append(event))
    consumer = await dead_lettering(desk)
    desk.deliver(batch([b"0", b"1"]), messages=2)
    desk.deliver(batch([b"2", b"3"]), messages=2, redelivery_count=2)
    below, _, at_the_limit = await take(consumer, 3)
    seeking = asyncio.ensure_future(consumer.seek(0))
    await until(lambda: seeks, "the seek")
    consumer.negative_acknowledge(at_the_limit)

    async def come_again(times: int) -> None:
        consumer.negative_acknowledge(below)
        timers.advance(140)
        await until(lambda: asked(desk) == [[0]] * times, "the request")
        desk.deliver(batch([b"0", b"1"]), messages=2, entry_id=0, redelivery_count=1)
        await desk.fence(consumer)

    await come_again(1)
    await come_again(2)
    desk.link.engine.send_error(seeks[0].request_id, ServerError.UNKNOWN_ERROR, "not now")
    desk.link.flush()
    with pytest.raises(errors.VelaError, match="not now"):
        await seeking
    shown = [message.data() for message in await take(consumer, 3)]
    assert (shown, len(consumer.queue)) == ([b"3", b"0", b"1"], 0)
    await until(lambda: desk.peer.count(events.Send), "the letter")
    await desk.fence(consumer)
    assert desk.peer.count(events.Send) == 1


async def test_a_dead_letter_goes_where_old_clients_put_it_when_that_exists(
    desk: Desk, timers: ManualTimers
) -> None:
    consumer = await dead_lettering(desk)
    desk.deliver(single(b"bad"), redelivery_count=3)
    await until(lambda: acked(desk) == [[0]], "the ack of the original")
    assert [event.topic for event in desk.peer.of(events.OpenProducer)] == [
        "persistent://public/default/billing-DLQ"
    ]
    assert consumer.counters.messages_received == 0


@pytest.mark.row("I16")
async def test_a_letter_that_is_refused_brings_the_message_again(desk: Desk, timers: ManualTimers) -> None:
    desk.peer.on(events.PartitionMetadata, no_old_names)

    def refuse(link: Link, event: events.OpenProducer) -> None:
        link.engine.send_error(event.request_id, ServerError.AUTHORIZATION_ERROR, "not yours")

    desk.peer.on(events.OpenProducer, refuse)
    consumer = await dead_lettering(desk, receiver_queue_size=1)
    desk.deliver(single(b"bad"), redelivery_count=3)
    await until(lambda: desk.peer.count(events.OpenProducer), "the refused producer")
    await until(lambda: timers.running > 1, "the pause after the failure")
    timers.advance(1)
    await desk.fence(consumer)
    assert asked(desk) == [[0]]
    await desk.settled(1)
    assert acked(desk) == []
    desk.peer.forget_script(events.OpenProducer)
    desk.deliver(single(b"bad"), entry_id=0, redelivery_count=4)
    await until(lambda: acked(desk) == [[0]], "the ack of the original")
    await desk.settled(1)
    await consumer.close()
    assert desk.peer.count(events.CloseProducer) == 1


async def test_dead_letters_of_a_consumer_without_a_queue_cost_no_permit(
    desk: Desk, timers: ManualTimers
) -> None:
    desk.peer.on(events.PartitionMetadata, no_old_names)
    consumer = await dead_lettering(desk, receiver_queue_size=0)
    receiving = asyncio.ensure_future(consumer.receive())
    await desk.settled(1)
    desk.deliver(single(b"bad"), redelivery_count=3)
    await desk.settled(1)
    desk.deliver(single(b"good"))
    assert (await receiving).data() == b"good"
    assert desk.permits == 0


async def test_a_dead_letter_policy_that_cannot_work_is_said(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "vela"):
        await desk.subscribe(dead_letter_policy=ConsumerDeadLetterPolicy(2))
        await desk.subscribe(dead_letter_policy=ConsumerDeadLetterPolicy(2), consumer_type=SHARED)
    assert ["has no effect on Exclusive" in text for text in caplog.messages] == [True]


# -- retry letters -------------------------------------------------------------------------------------------------


def no_topics_of_old_names(link: Link, event: events.PartitionMetadata) -> None:
    if event.topic.endswith(("/billing-DLQ", "/billing-RETRY")):
        link.engine.send_partition_metadata_failed(
            event.request_id, ServerError.TOPIC_NOT_FOUND, "no such topic"
        )
    else:
        link.engine.send_partition_metadata(event.request_id, 0)


async def retrying(desk: Desk, **options: Any) -> tuple[Consumer, int]:
    """A consumer with retry letters, and the id of its part that consumes the topic itself."""
    desk.peer.on(events.PartitionMetadata, no_topics_of_old_names)
    consumer = await desk.client.subscribe(
        TOPIC,
        "billing",
        consumer_type=SHARED,
        retry_enable=True,
        ack_group_time_ms=0,
        consumer_name="c1",
        **options,
    )
    subscribed = {event.topic: event for event in desk.peer.of(events.Subscribe)}
    assert set(subscribed) == {TOPIC, RETRY}
    assert {event.subscription for event in subscribed.values()} == {"billing"}
    return consumer, subscribed[TOPIC].consumer_id


@pytest.mark.row("I16")
async def test_reconsume_later_stores_a_copy_with_its_delay_and_then_acks(
    desk: Desk, timers: ManualTimers
) -> None:
    consumer, consumer_id = await retrying(desk)
    desk.link.deliver(consumer_id, single(b"bad", partition_key="k"), entry_id=4)
    async with asyncio.timeout(10):
        message = await consumer.receive()
        before_ms = int(time.time() * 1000)
        await consumer.reconsume_later(message, timedelta(seconds=30), {"why": "busy"})
    (opened,) = desk.peer.of(events.OpenProducer)
    assert opened.topic == RETRY
    assert opened.producer_name is not None
    assert opened.producer_name.endswith("-RETRY")
    (sent,) = desk.peer.of(events.Send)
    metadata, _ = parse_metadata(with_checksum(sent.entry_block))
    assert before_ms + 30_000 <= metadata.deliver_at_time <= int(time.time() * 1000) + 30_000
    properties = {pair.key: pair.value for pair in metadata.properties}
    assert (properties["RECONSUMETIMES"], properties["DELAY_TIME"], properties["why"]) == (
        "1",
        "30000",
        "busy",
    )
    assert properties["REAL_TOPIC"] == TOPIC
    heard = [type(event) for event in desk.peer.heard if isinstance(event, events.Send | events.Ack)]
    assert heard == [events.Send, events.Ack]
    assert acked(desk) == [[4]]
    await consumer.close()
    assert (desk.peer.count(events.CloseProducer), desk.peer.count(events.CloseConsumer)) == (1, 2)


@pytest.mark.row("S4.32")
@pytest.mark.parametrize("is_chosen", [True, False])
async def test_by_choice_what_times_out_is_put_off(desk: Desk, timers: ManualTimers, is_chosen: bool) -> None:
    consumer, consumer_id = await retrying(
        desk, unacked_messages_timeout_ms=1000, retry_on_ack_timeout=is_chosen
    )
    desk.link.deliver(consumer_id, single(b"slow"), entry_id=4)
    async with asyncio.timeout(10):
        await consumer.receive()
    timers.advance(3000)
    if is_chosen:
        await until(lambda: acked(desk) == [[4]], "the ack of the original")
        assert [event.topic for event in desk.peer.of(events.OpenProducer)] == [RETRY]
    else:
        await until(lambda: asked(desk) == [[4]], "the request for the message")
    assert len(asked(desk)) == (0 if is_chosen else 1)


@pytest.mark.row("S4.2")
async def test_retry_letters_without_an_ack_timeout_are_warned_of(
    desk: Desk, timers: ManualTimers, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "vela"):
        _, consumer_id = await retrying(desk)
        desk.link.deliver(consumer_id, single(b"x"), entry_id=4)
        timers.advance(LOOK_MS * 20)
    said = [text for text in caplog.messages if "retry_enable without unacked_messages_timeout_ms" in text]
    assert len(said) == 1
    assert asked(desk) == [], "it waits until the consumer leaves"


async def test_reconsume_later_without_retry_letters_is_refused(desk: Desk) -> None:
    consumer = await desk.subscribe(consumer_type=SHARED)
    desk.deliver_each(b"x")
    (message,) = await take(consumer, 1)
    with pytest.raises(errors.InvalidConfiguration, match="retry_enable"):
        await consumer.reconsume_later(message, 100)
