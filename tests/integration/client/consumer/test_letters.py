"""Dead letters and retry letters on the wire, with timers that the test controls (S4)."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import timedelta
from typing import Any

import pytest

from broker.doors.binary.wire import events
from broker.log.sends import Receipt
from tests.integration.client.consumer.acking import SHARED, acked, asked, take
from tests.integration.client.consumer.desk import TOPIC, Desk
from tests.support.manual_timers import ManualTimers
from tests.support.scripted_peer import LEDGER_ID, Link
from tests.support.waiting import until
from tests.unit.client.entries import batch, single
from vela import errors
from vela.aio.consumers.consumer import Consumer
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.core.consuming.prefetch import LOOK_MS
from vela.options import ConsumerDeadLetterPolicy
from vela.wire.binary.enums import ServerError
from vela.wire.checksum import with_checksum
from vela.wire.entry.header import parse_metadata

DEAD = f"{TOPIC}-billing-DLQ"
RETRY = f"{TOPIC}-billing-RETRY"


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
    """Answer that there is no topic with a name that old clients used."""
    if event.topic.endswith("/billing-DLQ"):
        assert not event.create
        link.engine.send_partition_metadata_failed(
            event.request_id, ServerError.TOPIC_NOT_FOUND, "no such topic"
        )
    else:
        link.engine.send_partition_metadata(event.request_id, 0)


@pytest.mark.parametrize(
    "options", [{"dead_letter_policy": ConsumerDeadLetterPolicy(2)}, {"retry_enable": True}]
)
async def test_a_default_name_that_is_too_long_is_refused_by_subscribe(
    desk: Desk, options: dict[str, Any]
) -> None:
    with pytest.raises(errors.InvalidTopicName, match="in the consumer's options"):
        await desk.client.subscribe(TOPIC, "s" * 1000, consumer_type=SHARED, **options)


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
async def test_waiting_messages_of_a_batch_at_the_limit_are_shown_and_cost_permits_once(
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
async def test_messages_that_wait_in_a_consumer_of_several_topics_become_no_letters(
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


async def test_messages_kept_during_a_failed_seek_wait_and_are_shown_once(
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
async def test_a_dead_letter_needs_no_right_to_the_name_that_old_clients_used(
    desk: Desk, timers: ManualTimers
) -> None:
    def not_yours(link: Link, event: events.PartitionMetadata) -> None:
        if event.topic.endswith("/billing-DLQ"):
            link.engine.send_partition_metadata_failed(
                event.request_id, ServerError.AUTHORIZATION_ERROR, "not yours"
            )
        else:
            link.engine.send_partition_metadata(event.request_id, 0)

    desk.peer.on(events.PartitionMetadata, not_yours)
    await dead_lettering(desk)
    desk.deliver(single(b"bad"), redelivery_count=3)
    await until(lambda: acked(desk) == [[0]], "the ack of the original")
    assert [event.topic for event in desk.peer.of(events.OpenProducer)] == [DEAD]


@pytest.mark.row("I16")
async def test_letters_have_a_new_producer_after_the_former_one_ended(
    desk: Desk, timers: ManualTimers
) -> None:
    desk.peer.on(events.PartitionMetadata, no_old_names)

    def terminated(link: Link, event: events.Send) -> None:
        link.engine.send_send_error(
            event.producer_id, event.sequence_id, ServerError.TOPIC_TERMINATED_ERROR, "ended"
        )

    desk.peer.on(events.Send, terminated)
    consumer = await dead_lettering(desk)
    desk.deliver(single(b"bad"), redelivery_count=3)
    await until(lambda: timers.running > 1, "the pause after the failure")
    timers.advance(1)
    await desk.fence(consumer)
    assert asked(desk) == [[0]]
    desk.peer.forget_script(events.Send)  # the topic was deleted, so it can be created again
    desk.deliver(single(b"bad"), entry_id=0, redelivery_count=4)
    await until(lambda: acked(desk) == [[0]], "the ack of the original")
    assert desk.peer.count(events.OpenProducer) == 2


@pytest.mark.row("I16")
async def test_more_letters_than_their_producer_has_room_for_wait_and_are_written_once(
    desk: Desk, timers: ManualTimers, caplog: pytest.LogCaptureFixture
) -> None:
    desk.peer.on(events.PartitionMetadata, no_old_names)
    await dead_lettering(desk, receiver_queue_size=2000)
    for _ in range(11):
        desk.deliver(batch([b"bad"] * 100), messages=100, redelivery_count=3)
    await until(lambda: len(acked(desk)) == 11, "the acks of the originals")
    assert (desk.peer.count(events.Send), asked(desk)) == (1100, [])
    assert "cannot store a letter" not in caplog.text


@pytest.mark.row("I16")
async def test_after_a_refused_letter_the_message_comes_again(desk: Desk, timers: ManualTimers) -> None:
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


async def test_a_consumer_without_a_queue_asks_again_after_a_message_whose_letter_is_under_way(
    desk: Desk, timers: ManualTimers
) -> None:
    desk.peer.on(events.PartitionMetadata, no_old_names)
    sends: list[tuple[Link, events.Send]] = []
    desk.peer.on(events.Send, lambda link, event: sends.append((link, event)))
    consumer = await dead_lettering(desk, receiver_queue_size=0)
    receiving = asyncio.ensure_future(consumer.receive())
    await desk.settled(1)
    desk.deliver(single(b"bad"), redelivery_count=2)
    consumer.negative_acknowledge(await receiving)
    timers.advance(140)
    await until(lambda: sends, "the letter")
    receiving = asyncio.ensure_future(consumer.receive())
    await desk.settled(1)
    desk.deliver(single(b"bad"), entry_id=0, redelivery_count=3)
    await desk.settled(1)
    desk.deliver(single(b"good"))
    assert (await receiving).data() == b"good"
    ((link, letter),) = sends
    link.engine.send_receipts(letter.producer_id, [Receipt(letter.sequence_id, 0, LEDGER_ID, 0, 0)])
    link.flush()
    await until(lambda: acked(desk) == [[0]], "the ack of the original")


async def test_a_dead_letter_policy_without_effect_is_warned_of(
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
    """Return a consumer with retry letters, and the id of its part that consumes the topic itself."""
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
async def test_a_timed_out_message_is_put_off_if_the_option_says_so(
    desk: Desk, timers: ManualTimers, is_chosen: bool
) -> None:
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
