"""Ack timeouts against a whole Vela: after the timeout, messages without an ack are redelivered."""

from __future__ import annotations

import asyncio

import pytest

from tests.acceptance.client.acking.taking import (
    NUMBERS,
    nothing_comes,
    publish,
    shared_with_one,
    subscribed,
    take,
    texts,
)
from tests.acceptance.client.sent_frames import asked_again, fence
from tests.support.frame_relay import FrameRelay
from tests.support.manual_timers import ManualTimers
from tests.support.waiting import until
from vela import errors
from vela.aio.client import Client
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.options import ConsumerType
from vela.wire.redelivery_backoff import RedeliveryBackoff

SHARED = ConsumerType.Shared
BACKOFF = RedeliveryBackoff(min_ms=1000, max_ms=8000, multiplier=2)


@pytest.mark.row("S4.1", "S4.2", "S4.21", "S4.22")
async def test_an_ack_timeout_redelivers_a_message_that_was_not_acked(client: Client, topic: str) -> None:
    await publish(client, topic, NUMBERS[:3])
    consumer = await subscribed(
        client, topic, consumer_type=SHARED, unacked_messages_timeout_ms=1000, unacked_messages_tick_ms=100
    )
    loop = asyncio.get_running_loop()
    acked, forgotten, refused = await take(consumer, 3)
    began = loop.time()
    consumer.acknowledge(acked)
    consumer.negative_acknowledge(refused)  # redelivered after a minute; the ack timeout does not count
    (again,) = await take(consumer, 1)
    assert loop.time() - began >= 1.0
    assert (again.data(), again.redelivery_count()) == (forgotten.data(), 1)


@pytest.mark.row("S4.25", "S4.26")
async def test_queued_messages_go_to_other_consumers_only_when_their_consumer_leaves(
    client: Client, topic: str
) -> None:
    hoarder = await subscribed(client, topic, consumer_type=SHARED, unacked_messages_timeout_ms=1000)
    await publish(client, topic, NUMBERS)
    await until(lambda: len(hoarder.queue) == 10, "the queue of the hoarder")
    idle = await subscribed(client, topic, consumer_type=SHARED)
    await nothing_comes(idle)
    await hoarder.close()
    assert sorted(texts(await take(idle, 10))) == [str(number) for number in range(10)]


async def asks_after_s(
    relay: FrameRelay, timers: ManualTimers, consumer: TopicConsumer, most_s: int = 20
) -> int | None:
    """Return the seconds until the client asks for a redelivery, or None if it does not within the limit."""
    before = len(asked_again(relay, consumer))
    for seconds in range(1, most_s + 1):
        timers.advance(1000)
        await fence(consumer)
        if len(asked_again(relay, consumer)) > before:
            return seconds
    return None


@pytest.mark.row("S4.27")
async def test_the_ack_timeout_follows_the_settings(
    relayed: Client, relay: FrameRelay, timers: ManualTimers, topic: str
) -> None:
    await publish(relayed, topic, NUMBERS[:1])
    found: list[int | None] = []
    for options in (
        {},
        {"ack_timeout_redelivery_backoff": BACKOFF},
        {"unacked_messages_timeout_ms": 3000},
        {"unacked_messages_timeout_ms": 3000, "ack_timeout_redelivery_backoff": BACKOFF},
    ):
        consumer = await subscribed(relayed, topic, consumer_type=SHARED, **options)
        await take(consumer, 1)
        found.append(await asks_after_s(relay, timers, consumer))
        if found[-1] is not None:
            assert texts(await take(consumer, 1)) == ["0"]
        await consumer.close()
    assert found == [None, None, 4, 5]


@pytest.mark.row("S4.28")
async def test_with_a_back_off_the_pause_grows_with_each_redelivery(
    relayed: Client, relay: FrameRelay, timers: ManualTimers, topic: str
) -> None:
    consumer = await shared_with_one(
        relayed, topic, unacked_messages_timeout_ms=1000, ack_timeout_redelivery_backoff=BACKOFF
    )
    pauses_s = []
    for count in range(5):
        (message,) = await take(consumer, 1)
        assert message.redelivery_count() == count
        pauses_s.append(await asks_after_s(relay, timers, consumer))
    assert pauses_s == [3, 4, 6, 10, 10]  # 2 s of timeout and tick, plus 1, 2, 4 and 8 s, and never more


@pytest.mark.row("S4.30")
@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"unacked_messages_timeout_ms": 999}, "unacked_messages_timeout_ms"),
        ({"unacked_messages_timeout_ms": 1}, "unacked_messages_timeout_ms"),
        ({"unacked_messages_timeout_ms": -1}, "unacked_messages_timeout_ms"),
        ({"unacked_messages_timeout_ms": 1000, "unacked_messages_tick_ms": 99}, "unacked_messages_tick_ms"),
    ],
)
async def test_an_ack_timeout_that_is_too_short_is_refused(
    client: Client, topic: str, options: dict[str, int], named: str
) -> None:
    with pytest.raises(errors.InvalidConfiguration, match=named):
        await subscribed(client, topic, **options)
    # A refused consumer must not prevent the next one from subscribing.
    for timeout_ms in (0, 1000):
        await (await subscribed(client, topic, unacked_messages_timeout_ms=timeout_ms)).close()


@pytest.mark.row("S4.30")
async def test_a_tick_longer_than_the_timeout_is_shortened_to_it(
    relayed: Client, relay: FrameRelay, timers: ManualTimers, topic: str
) -> None:
    consumer = await shared_with_one(
        relayed, topic, unacked_messages_timeout_ms=1000, unacked_messages_tick_ms=60_000
    )
    await take(consumer, 1)
    assert await asks_after_s(relay, timers, consumer) == 2
