"""A client of a whole Vela counts the payload bytes that it holds, and releases each of them once."""

from __future__ import annotations

import gc
import itertools
import tracemalloc
from collections.abc import Sequence

import pytest

from tests.acceptance.client.consumer.consuming import all_acknowledged, becomes, publish, take
from tests.acceptance.client.publishing import publish_entries
from tests.support.frame_relay import Frame, FrameRelay
from tests.support.waiting import until
from tests.unit.client.entries import batch, damage
from vela.aio.client import Client
from vela.aio.consumers.topic_consumer import TopicConsumer

PAYLOAD = bytes(2000)
BATCH = batch([PAYLOAD] * 10)
BATCHES = 120
QUEUE = 50


def damages_every_third_batch(relay: FrameRelay) -> None:
    numbers = itertools.count()

    def hand_on(frame: Frame) -> Sequence[Frame]:
        if frame.payload == BATCH and next(numbers) % 3 == 0:
            return (Frame(frame.command, damage(BATCH)),)
        return (frame,)

    relay.to_client = hand_on


@pytest.mark.row("S0.5")
async def test_bytes_of_payloads_are_released_exactly_once(
    relay: FrameRelay, client: Client, topic: str
) -> None:
    async with Client(relay.service_url, memory_limit_bytes=1 << 30, initial_backoff_ms=20) as reading:
        consumer = await reading.subscribe(topic, "s", receiver_queue_size=QUEUE)
        assert isinstance(consumer, TopicConsumer)
        await publish_entries(client, topic, *[(BATCH, 10)] * BATCHES)
        await publish(client, topic, [b"last"])
        await until(lambda: len(consumer.queue) >= QUEUE, "a full queue")
        damages_every_third_batch(relay)
        tracemalloc.start()
        try:
            for turn in itertools.count():
                if (await take(consumer, 1))[0].data() == b"last":
                    break
                if turn == 200:
                    await relay.cut()  # the client drops its queue
                if turn == 400:
                    consumer.redeliver_unacknowledged_messages()  # this also drops the queue; its messages come again
            await becomes(lambda: all_acknowledged(consumer), "all of it acknowledged")
            gc.collect()
            held_bytes, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert consumer.counters.discards.total() > BATCHES / 4
        assert relay.connections == 2
        assert reading.memory.used_bytes == 0
        assert held_bytes < 10 * len(BATCH)

        relay.to_client = lambda frame: (frame,)
        await publish_entries(client, topic, *[(BATCH, 10)] * 10)
        await until(lambda: len(consumer.queue) >= QUEUE // 2, "the messages that permits allow")
        assert reading.memory.used_bytes == len(consumer.queue) * len(PAYLOAD)
        await consumer.close()
        assert reading.memory.used_bytes == 0
