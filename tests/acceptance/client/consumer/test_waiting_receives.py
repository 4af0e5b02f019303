"""Waiting receives, with a whole Vela: their order, cancelled ones, and races with deliveries."""

from __future__ import annotations

import asyncio
import random
import threading

import pytest

import vela
from tests.acceptance.client.consumer.consuming import data, numbers, publish, take
from tests.support.waiting import until, wait_until
from vela.aio.client import Client

THREADS = 8
MESSAGES = 800


@pytest.mark.row("S0.21")
async def test_waiting_receives_are_served_in_the_order_of_their_calls(client: Client, topic: str) -> None:
    consumer = await client.subscribe(topic, "s")
    first = [consumer.receive_async() for _ in range(2)]
    waiting = asyncio.create_task(consumer.receive())
    await asyncio.sleep(0)
    last = consumer.receive_async()
    await publish(client, topic, numbers(6), size=3)
    async with asyncio.timeout(20):
        assert data([await each for each in (*first, waiting, last)]) == numbers(4)
    await until(lambda: len(consumer.queue) == 2, "the messages for which no receive waits")
    assert data(await take(consumer, 2)) == numbers(6)[4:]


@pytest.mark.row("S0.21")
async def test_waiting_calls_are_served_and_the_queue_stays_empty(client: Client, topic: str) -> None:
    consumer = await client.subscribe(topic, "s")
    waiting = [consumer.receive_async() for _ in range(3)]
    await publish(client, topic, numbers(3))
    async with asyncio.timeout(20):
        assert data(await asyncio.gather(*waiting)) == numbers(3)
    assert (len(consumer.queue), consumer.receive_nowait()) == (0, None)


@pytest.mark.row("S0.24")
@pytest.mark.parametrize("queue_size", [0, 10])
async def test_cancelled_receives_are_passed_over(client: Client, topic: str, queue_size: int) -> None:
    consumer = await client.subscribe(topic, "s", receiver_queue_size=queue_size)
    gone, stays = consumer.receive_async(), consumer.receive_async()
    gone.cancel()
    await publish(client, topic, numbers(2))
    async with asyncio.timeout(20):
        assert (await stays).data() == b"0"
        assert (await consumer.receive()).data() == b"1"
    assert consumer.statistics().messages_received == 2


@pytest.mark.row("S0.22")
def test_receives_that_race_with_deliveries_neither_repeat_nor_lose_messages(
    service_url: str, topic: str
) -> None:
    """Some threads receive, often with too short a time limit, while others publish. A small queue makes many Flows."""
    with vela.Client(service_url) as client:
        consumer = client.subscribe(topic, "s", receiver_queue_size=16)
        producer = client.create_producer(topic, max_pending_messages=0, batching_enabled=True)
        taken: list[int] = []
        given_up: list[int] = []

        def work(seed: int) -> None:
            chance = random.Random(seed)
            while True:
                try:
                    message = consumer.receive(chance.choice([1, 2, 20_000]))
                except vela.Timeout:
                    given_up.append(seed)
                except vela.AlreadyClosed:
                    return
                else:
                    consumer.acknowledge(message)
                    taken.append(int(message.data()))
                    if len(taken) == MESSAGES:
                        consumer.close()

        def publish_some(first: int) -> None:
            for number in range(first, MESSAGES, 2):
                producer.send_async(b"%d" % number, lambda _, __: None)
                if number % 50 < 2:
                    producer.flush()

        taking = [threading.Thread(target=work, args=(seed,)) for seed in range(THREADS)]
        publishing = [threading.Thread(target=publish_some, args=(first,)) for first in range(2)]
        for thread in taking:
            thread.start()
        # Do this before publishing: afterwards, every receive may find a message.
        wait_until(lambda: given_up, "a receive to be given up")
        for thread in publishing:
            thread.start()
        for thread in taking + publishing:
            thread.join(30)
        assert not any(thread.is_alive() for thread in taking + publishing)
        again = client.subscribe(topic, "s")
        with pytest.raises(vela.Timeout):
            again.receive(100)
    assert sorted(taken) == list(range(MESSAGES))
