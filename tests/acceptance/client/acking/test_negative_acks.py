"""Negative acks against a whole Vela: the messages are redelivered when they are due."""

from __future__ import annotations

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
from vela.aio.client import Client
from vela.options import ConsumerType

SHARED = ConsumerType.Shared


@pytest.mark.row("S4.16", "S4.20")
async def test_a_negative_ack_redelivers_its_message(client: Client, topic: str) -> None:
    await publish(client, topic, NUMBERS[:3], batch=3)
    consumer = await subscribed(
        client,
        topic,
        consumer_type=SHARED,
        negative_ack_redelivery_delay_ms=100,
        batch_index_ack_enabled=True,
    )
    first, refused, last = await take(consumer, 3)
    consumer.acknowledge([first, last])
    consumer.negative_acknowledge(refused)
    (again,) = await take(consumer, 1)
    assert (again.data(), again.redelivery_count(), again.message_id()) == (b"1", 1, refused.message_id())
    consumer.acknowledge(again)
    await nothing_comes(consumer)


@pytest.mark.row("S4.17")
async def test_many_negatively_acked_messages_are_redelivered_together(client: Client, topic: str) -> None:
    await publish(client, topic, [b"%d" % number for number in range(1500)])
    consumer = await subscribed(
        client, topic, consumer_type=SHARED, negative_ack_redelivery_delay_ms=100, receiver_queue_size=2000
    )
    for message in await take(consumer, 1500):
        consumer.negative_acknowledge(message)
    again = await take(consumer, 1500)
    assert {message.redelivery_count() for message in again} == {1}
    assert sorted(map(int, texts(again))) == list(range(1500))


@pytest.mark.row("S4.18", "S4.29")
async def test_a_closed_consumers_messages_go_to_the_next_at_once(client: Client, topic: str) -> None:
    await publish(client, topic, NUMBERS[:2])
    consumer = await subscribed(
        client, topic, consumer_type=SHARED, negative_ack_redelivery_delay_ms=3_600_000
    )
    refused, _ = await take(consumer, 2)
    consumer.negative_acknowledge(refused)
    await nothing_comes(consumer)
    await consumer.close()
    again = await subscribed(client, topic, consumer_type=SHARED)
    assert texts(await take(again, 2)) == ["0", "1"]


@pytest.mark.row("S4.24")
async def test_on_exclusive_a_negative_ack_redelivers_everything_unacked_in_order(
    client: Client, topic: str
) -> None:
    await publish(client, topic, NUMBERS)
    consumer = await subscribed(client, topic, negative_ack_redelivery_delay_ms=100, receiver_queue_size=20)
    messages = await take(consumer, 10)
    await consumer.acknowledge(messages[3])
    consumer.negative_acknowledge(messages[5])
    assert texts(await take(consumer, 9)) == [str(number) for number in range(10) if number != 3]
    consumer.redeliver_unacknowledged_messages()
    assert texts(await take(consumer, 1)) == ["0"]


@pytest.mark.row("S4.19")
async def test_a_negative_ack_ends_the_ack_timeout_and_a_second_one_adds_nothing(
    relayed: Client, relay: FrameRelay, timers: ManualTimers, topic: str
) -> None:
    consumer = await shared_with_one(
        relayed, topic, unacked_messages_timeout_ms=1000, negative_ack_redelivery_delay_ms=3000
    )
    (refused,) = await take(consumer, 1)
    consumer.negative_acknowledge(refused)
    timers.advance(2500)
    consumer.negative_acknowledge(refused)
    await fence(consumer)
    assert asked_again(relay, consumer) == []
    timers.advance(600)
    (again,) = await take(consumer, 1)
    assert (again.message_id(), again.redelivery_count()) == (refused.message_id(), 1)
    consumer.acknowledge(again)
    timers.advance(60_000)
    await fence(consumer)
    assert asked_again(relay, consumer) == [[0]]
