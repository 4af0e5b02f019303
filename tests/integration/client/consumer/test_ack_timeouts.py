"""Ack timeouts on the wire, with timers that the test controls (S4)."""

from __future__ import annotations

import logging
import time

import pytest

from broker.doors.binary.wire import events
from tests.integration.client.consumer.acking import SHARED, asked, take
from tests.integration.client.consumer.desk import Desk
from tests.support.manual_timers import ManualTimers
from tests.support.waiting import until
from tests.unit.client.entries import compose, metadata, single
from vela import errors
from vela.core.consuming.prefetch import LOOK_MS
from vela.wire.redelivery_backoff import RedeliveryBackoff


@pytest.mark.row("S4.1", "S0.45", "S4.21")
async def test_a_received_message_without_an_ack_is_redelivered(desk: Desk, timers: ManualTimers) -> None:
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
    assert asked(desk) == [[1]], "messages in the queue have no timeout"


@pytest.mark.row("S4.24")
async def test_on_exclusive_everything_is_redelivered_in_order(desk: Desk, timers: ManualTimers) -> None:
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


@pytest.mark.row("S4.1")
async def test_a_lost_chunk_does_not_silence_the_warning_about_timeouts(
    desk: Desk, timers: ManualTimers, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = await desk.subscribe(
        consumer_type=SHARED, unacked_messages_timeout_ms=1000, negative_ack_redelivery_delay_ms=100
    )
    second = metadata(uuid="u", chunk_id=1, num_chunks_from_msg=2, total_chunk_msg_size=2)
    second.publish_time = int(time.time() * 1000)  # else it counts as old, and is acked
    desk.deliver(compose(second, b"x"))
    desk.deliver_each(b"forgotten")
    await take(consumer, 1)
    timers.advance(140)
    await desk.fence(consumer)
    assert asked(desk) == [[0]]
    with caplog.at_level(logging.WARNING, "vela"):
        timers.advance(5000)
    assert ["negative_acknowledge" in text for text in caplog.messages] == [True]


@pytest.mark.row("S4.25", "S4.26")
async def test_a_consumer_that_hoards_gets_a_warning(
    desk: Desk, timers: ManualTimers, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = await desk.subscribe(consumer_type=SHARED, unacked_messages_timeout_ms=1000)
    desk.deliver_each(*[b"x"] * 100)
    await until(lambda: len(consumer.queue) == 100, "the deliveries")
    with caplog.at_level(logging.WARNING, "vela"):
        timers.advance(LOOK_MS)
        timers.advance(LOOK_MS)
    assert asked(desk) == [], "messages that nobody took have no timeout"
    assert ["the 100 messages in its queue" in text for text in caplog.messages] == [True]
