"""Entries and their messages: how a client of a whole Vela counts them, acks them and times them out."""

from __future__ import annotations

import asyncio

import pytest

from broker.doors.binary.wire import events
from tests.acceptance.client.consumer.consuming import (
    all_acknowledged,
    becomes,
    data,
    numbers,
    publish,
    take,
)
from tests.acceptance.client.publishing import publish_entries
from tests.acceptance.client.sent_frames import acked, fence
from tests.support.broker_harness import rows
from tests.support.frame_relay import FrameRelay
from tests.support.manual_timers import ManualTimers
from tests.support.vela import VelaProcess
from tests.support.waiting import until
from tests.unit.client.entries import batch, single
from vela.aio.client import Client
from vela.errors import InvalidMessage
from vela.options import ConsumerType

SHARED = ConsumerType.Shared
TIMEOUT_MS = 10_000


@pytest.mark.row("S0.20")
async def test_a_batch_of_one_message_is_still_a_batch(client: Client, topic: str) -> None:
    consumer = await client.subscribe(topic, "s", SHARED, receiver_queue_size=0)
    await publish_entries(client, topic, (single(b"alone"), 1), (batch([b"a batch of one"]), 1))
    (message,) = await take(consumer, 1)
    assert (message.data(), message.message_id().batch_index()) == (b"alone", -1)
    with pytest.raises(InvalidMessage, match="a batch of 1"):
        await asyncio.wait_for(consumer.receive(), 20)
    other = await client.subscribe(topic, "s", SHARED)
    (message,) = await take(other, 1)
    assert (message.data(), message.message_id().batch_index()) == (b"a batch of one", 0)
    assert message.message_id().batch_size() == 1
    await becomes(lambda: all_acknowledged(other), "both acknowledged")


@pytest.mark.row("S0.26")
async def test_an_entry_is_acked_with_the_last_of_its_messages(
    relayed: Client, relay: FrameRelay, topic: str
) -> None:
    consumer = await relayed.subscribe(topic, "s", batch_index_ack_enabled=False, ack_group_time_ms=0)
    await publish(relayed, topic, numbers(10), size=10)
    messages = await take(consumer, 10, acknowledge=False)
    *all_but_one, last = reversed(messages)
    for message in all_but_one:
        consumer.acknowledge(message)
    assert not await all_acknowledged(consumer)  # this request reaches the broker after every ack
    assert acked(relay) == []
    consumer.acknowledge(last)
    await becomes(lambda: all_acknowledged(consumer), "the ack of the entry")
    assert acked(relay) == [[(last.message_id().entry_id(), None)]]


@pytest.mark.row("S0.26")
async def test_a_batch_that_lacks_one_ack_is_redelivered_whole(client: Client, topic: str) -> None:
    consumer = await client.subscribe(topic, "s", batch_index_ack_enabled=False)
    await publish(client, topic, numbers(10), size=10)
    for message in (await take(consumer, 10, acknowledge=False))[:9]:
        consumer.acknowledge(message)
    await consumer.close()
    again = await client.subscribe(topic, "s", batch_index_ack_enabled=False)
    assert data(await take(again, 10)) == numbers(10)
    await becomes(lambda: all_acknowledged(again), "the ack of the entry")


@pytest.mark.row("S0.28")
async def test_each_message_of_an_entry_counts_against_the_permits(
    client: Client, topic: str, shared_vela: VelaProcess
) -> None:
    consumer = await client.subscribe(topic, "s")
    await publish(client, topic, [b"alone", *numbers(6)])
    await publish(client, topic, numbers(7), size=7)
    await until(lambda: consumer.statistics().messages_delivered == 14, "fourteen messages")

    async def is_counted() -> bool:
        found = await asyncio.to_thread(
            rows,
            shared_vela.database_url,
            "SELECT unacked_messages FROM vela_consumer_session WHERE name = %s",
            consumer.consumer_name(),
        )
        return found == [(14,)]

    await becomes(is_counted, "fourteen unacked messages")


@pytest.mark.row("S0.37")
async def test_a_batch_that_overfills_the_queue_is_kept_whole(
    relayed: Client, relay: FrameRelay, topic: str
) -> None:
    consumer = await relayed.subscribe(topic, "s", receiver_queue_size=10)
    await publish(relayed, topic, numbers(100), size=100)
    await until(lambda: len(consumer.queue) == 100, "the whole batch")
    assert consumer.available_permits == -90
    assert data(await take(consumer, 100)) == numbers(100)
    await fence(consumer)
    assert sum(flow.permits for flow in relay.of(events.Flow)) == 100 + 10
    await publish(relayed, topic, numbers(10))
    assert data(await take(consumer, 10)) == numbers(10)


@pytest.mark.row("S0.38", "S0.45")
async def test_the_ack_timeout_of_an_entry_begins_when_its_first_message_is_taken(
    client: Client, topic: str
) -> None:
    timers = ManualTimers()
    client.make_timers = lambda: timers
    consumer = await client.subscribe(
        topic, "s", SHARED, unacked_messages_timeout_ms=TIMEOUT_MS, ack_group_time_ms=0
    )
    await publish_entries(client, topic, (batch([b"a", b"b"]), 2), (single(b"c"), 1), (single(b"d"), 1))
    await until(lambda: len(consumer.queue) == 4, "all of them")
    timers.advance(10 * TIMEOUT_MS)  # messages in the queue have no deadline
    assert data(await take(consumer, 1, acknowledge=False)) == [b"a"]
    timers.advance(TIMEOUT_MS // 2)
    assert data(await take(consumer, 2, acknowledge=False)) == [b"b", b"c"]
    timers.advance(TIMEOUT_MS // 2 + 2000)  # the timeout of the entry with "a" has passed
    assert [(each.data(), each.redelivery_count()) for each in await take(consumer, 3)] == [
        (b"d", 0),
        (b"a", 1),
        (b"b", 1),
    ]
    timers.advance(TIMEOUT_MS // 2)
    assert [(each.data(), each.redelivery_count()) for each in await take(consumer, 1)] == [(b"c", 1)]
    await becomes(lambda: all_acknowledged(consumer), "all of it acknowledged")


@pytest.mark.row("S0.38")
@pytest.mark.parametrize("timeout_ms", [None, 0, TIMEOUT_MS])
async def test_without_an_ack_timeout_there_is_no_timer(
    client: Client, topic: str, timeout_ms: int | None
) -> None:
    timers = ManualTimers()
    client.make_timers = lambda: timers
    consumer = await client.subscribe(topic, "s", unacked_messages_timeout_ms=timeout_ms)
    await publish(client, topic, numbers(1))
    await until(lambda: len(consumer.queue) == 1, "the message")
    assert timers.running == 0
    await take(consumer, 1, acknowledge=False)
    assert timers.running == (1 if timeout_ms else 0)
