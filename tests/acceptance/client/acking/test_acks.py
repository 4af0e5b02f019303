"""Acks against a whole Vela: acked messages stay acked."""

from __future__ import annotations

import asyncio

import pytest

from tests.acceptance.client.acking.taking import NUMBERS, nothing_comes, publish, subscribed, take, texts
from tests.acceptance.client.sent_frames import acked, fence
from tests.support.frame_relay import FrameRelay
from tests.support.manual_timers import ManualTimers
from vela.aio.client import Client
from vela.options import ConsumerType

SHARED = ConsumerType.Shared


@pytest.mark.row("S4.4")
async def test_a_single_ack_acks_one_message_and_no_other(client: Client, topic: str) -> None:
    await publish(client, topic, NUMBERS[:5])
    consumer = await subscribed(client, topic)
    messages = await take(consumer, 5)
    consumer.acknowledge(messages[2])
    await consumer.close()
    again = await subscribed(client, topic)
    assert texts(await take(again, 4)) == ["0", "1", "3", "4"]
    await nothing_comes(again)


@pytest.mark.row("S4.5")
async def test_a_cumulative_ack_acks_everything_up_to_its_message(client: Client, topic: str) -> None:
    await publish(client, topic, NUMBERS)
    consumer = await subscribed(client, topic, ack_receipt_enabled=True)
    messages = await take(consumer, 10)
    await consumer.acknowledge_cumulative(messages[6])
    await consumer.close()
    again = await subscribed(client, topic)
    assert texts(await take(again, 3)) == ["7", "8", "9"]


@pytest.mark.row("S4.6", "S4.7")
@pytest.mark.parametrize("batch_index_ack", [True, False])
@pytest.mark.parametrize("cumulative", [True, False])
async def test_a_partly_acked_batch_is_redelivered_as_the_options_say(
    client: Client, topic: str, batch_index_ack: bool, cumulative: bool
) -> None:
    await publish(client, topic, [b"before"])
    await publish(client, topic, NUMBERS, batch=10)
    options = {"batch_index_ack_enabled": batch_index_ack, "ack_receipt_enabled": True}
    consumer = await subscribed(client, topic, **options)
    messages = await take(consumer, 11)
    if cumulative:
        await consumer.acknowledge_cumulative(messages[3])
    else:
        await consumer.acknowledge(messages[:4])
    await consumer.close()
    again = await subscribed(client, topic, **options)
    expected = [str(number) for number in range(3 if batch_index_ack else 0, 10)]
    messages = await take(again, len(expected))
    assert texts(messages) == expected
    await again.acknowledge(messages)
    await again.close()
    last = await subscribed(client, topic)
    await nothing_comes(last)


@pytest.mark.row("S4.10", "S4.12")
async def test_each_ack_gets_its_receipt_when_acks_are_sent_one_by_one(client: Client, topic: str) -> None:
    await publish(client, topic, NUMBERS)
    consumer = await subscribed(client, topic, ack_group_time_ms=0, ack_receipt_enabled=True)
    async with asyncio.timeout(20):
        for message in await take(consumer, 10):
            await consumer.acknowledge(message)
        last = await consumer.last_message()
    assert last.mark_delete is not None
    assert (last.mark_delete.ledger_id, last.mark_delete.entry_id) == (
        last.last.ledger_id,
        last.last.entry_id,
    )


@pytest.mark.row("S4.13")
async def test_acks_that_were_not_sent_are_lost_with_their_client(
    client: Client, topic: str, service_url: str
) -> None:
    await publish(client, topic, NUMBERS[:3])
    dying = Client(service_url)
    consumer = await subscribed(dying, topic, ack_group_time_ms=3_600_000)
    for message in await take(consumer, 3):
        consumer.acknowledge(message)
    connection = consumer.link.connection
    assert connection is not None
    consumer.acks.flush = lambda properties=None: None  # type: ignore[method-assign]  # as if the client was killed
    await dying.close()
    again = await subscribed(client, topic)
    assert texts(await take(again, 3)) == ["0", "1", "2"]


@pytest.mark.row("S4.8")
async def test_on_a_non_persistent_topic_acks_are_harmless(client: Client, topic: str) -> None:
    name = topic.replace("persistent://", "non-persistent://")
    consumer = await subscribed(client, name, consumer_type=SHARED, ack_receipt_enabled=True)
    await publish(client, name, [b"x"])
    (message,) = await take(consumer, 1)
    async with asyncio.timeout(20):
        await consumer.acknowledge(message)


@pytest.mark.row("S4.9")
async def test_acks_within_100_ms_are_sent_as_one_command(
    relayed: Client, relay: FrameRelay, timers: ManualTimers, topic: str
) -> None:
    await publish(relayed, topic, NUMBERS)
    consumer = await subscribed(relayed, topic)
    for message in await take(consumer, 10):
        consumer.acknowledge(message)
        timers.advance(9)
    await fence(consumer)
    assert acked(relay) == []
    timers.advance(10)
    last = await consumer.last_message()
    assert acked(relay) == [[(entry_id, None) for entry_id in range(10)]]
    assert last.mark_delete is not None
    assert last.mark_delete.entry_id == last.last.entry_id == 9


@pytest.mark.row("S4.9")
async def test_a_thousand_acks_are_sent_at_once(
    relayed: Client, relay: FrameRelay, timers: ManualTimers, topic: str
) -> None:
    await publish(relayed, topic, [b"%d" % number for number in range(1001)])
    consumer = await subscribed(relayed, topic)
    messages = await take(consumer, 1001)
    for message in messages[:999]:
        consumer.acknowledge(message)
    await fence(consumer)
    assert acked(relay) == []
    for message in messages[999:]:
        consumer.acknowledge(message)
    last = await consumer.last_message()
    assert acked(relay) == [[(entry_id, None) for entry_id in range(1000)]]
    assert last.mark_delete is not None
    assert last.mark_delete.entry_id == 999


@pytest.mark.row("S4.11")
async def test_a_message_acked_twice_is_sent_once_and_a_fully_acked_batch_as_one_entry(
    relayed: Client, relay: FrameRelay, timers: ManualTimers, topic: str
) -> None:
    await publish(relayed, topic, [b"alone"])
    for _ in range(2):
        await publish(relayed, topic, NUMBERS[:3], batch=3)
    consumer = await subscribed(relayed, topic, batch_index_ack_enabled=True)
    alone, *messages = await take(consumer, 7)
    for message in (alone, alone, messages[0], messages[0], *messages[3:]):
        consumer.acknowledge(message)
    timers.advance(100)
    await fence(consumer)
    assert acked(relay) == [[(0, None), (1, 0b110), (2, None)]]
    consumer.acknowledge(messages[:3])
    timers.advance(100)
    last = await consumer.last_message()
    assert acked(relay)[1:] == [[(1, None)]]
    assert last.mark_delete is not None
    assert last.mark_delete.entry_id == 2
