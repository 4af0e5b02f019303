"""A client's memory limit over its consumers, against a scripted broker."""

from __future__ import annotations

import asyncio

import pytest

from broker.doors.binary.wire import events
from tests.integration.client.consumer.desk import desk_running
from tests.support.scripted_peer import silent
from tests.support.waiting import until
from tests.unit.client.entries import batch, damage, single
from vela.aio.client import Client
from vela.errors import InvalidConfiguration


async def test_at_the_limit_nothing_is_granted_until_messages_are_taken() -> None:
    async with desk_running(memory_limit_bytes=100) as desk:
        consumer = await desk.subscribe(receiver_queue_size=10)
        await desk.settled(10)
        desk.deliver_each(*[b"x" * 25] * 8)
        await until(lambda: desk.client.memory.used_bytes == 200, "the messages")
        for _ in range(4):
            consumer.acknowledge(await consumer.receive())
        await desk.fence(consumer)
        assert desk.client.memory.used_bytes == 100
        await consumer.receive()
        await desk.fence(consumer)
        assert desk.client.memory.used_bytes == 75
        await desk.settled(7)  # memory is below its limit again, and permits for half a queue are owed


async def test_a_postponed_refill_is_sent_when_there_is_room() -> None:
    async with desk_running(memory_limit_bytes=100) as desk:
        consumer = await desk.subscribe(receiver_queue_size=10)
        desk.deliver_each(*[b"x" * 50] * 10)
        await until(lambda: desk.client.memory.used_bytes == 500, "the messages")
        for _ in range(8):
            await consumer.receive()
        await desk.fence(consumer)
        assert desk.flows == [10]
        await consumer.receive()
        await desk.fence(consumer)
        assert sum(desk.flows) == 15  # the client sent five permits; it owes four, less than half a queue
        assert desk.client.memory.used_bytes == 50


async def test_an_empty_consumer_gets_one_message_at_a_time_beside_a_full_one() -> None:
    async with desk_running(memory_limit_bytes=100) as desk:
        hoarder = await desk.subscribe(receiver_queue_size=10)
        desk.deliver_each(*[b"x" * 50] * 10)
        await until(lambda: desk.client.memory.used_bytes == 500, "the hoarder's messages")
        other = await desk.subscribe(receiver_queue_size=10)
        await desk.settled(1)
        for number in range(3):
            desk.deliver_each(b"%d" % number)
            assert (await other.receive(5_000)).data() == b"%d" % number
            await desk.settled(1)
        await hoarder.close()
        await until(lambda: desk.permits >= 6, "the withheld permits")
        assert desk.client.memory.used_bytes == 0


async def test_beside_a_full_consumer_batches_come_one_after_the_other() -> None:
    async with desk_running(memory_limit_bytes=100) as desk:
        hoarder = await desk.subscribe(receiver_queue_size=10)
        desk.deliver_each(*[b"x" * 50] * 10)
        await until(lambda: desk.client.memory.used_bytes == 500, "the hoarder's messages")
        other = await desk.subscribe(receiver_queue_size=10)
        for _ in range(3):
            await desk.settled(1)
            desk.deliver(batch([b"a", b"b", b"c"] * 5), messages=15)
            for number in range(15):
                assert (await other.receive(5_000)).data() == b"abc"[number % 3 : number % 3 + 1]
        await desk.settled(1)
        await hoarder.close()


@pytest.mark.parametrize("queue", [0, 10])
async def test_beside_a_full_consumer_an_entry_without_a_message_does_not_end_the_deliveries(
    queue: int,
) -> None:
    async with desk_running(memory_limit_bytes=100) as desk:
        hoarder = await desk.subscribe(receiver_queue_size=10)
        desk.deliver_each(*[b"x" * 50] * 10)
        await until(lambda: desk.client.memory.used_bytes == 500, "the hoarder's messages")
        other = await desk.subscribe(receiver_queue_size=queue)
        async with asyncio.TaskGroup() as tasks:
            received = tasks.create_task(other.receive())
            await desk.settled(1)
            desk.deliver(damage(single(b"damaged")))
            for chunk_id, piece in enumerate((b"two ", b"chunks")):
                await desk.settled(1)
                desk.deliver(
                    single(piece, uuid="u", chunk_id=chunk_id, num_chunks_from_msg=2, total_chunk_msg_size=10)
                )
        assert received.result().data() == b"two chunks"
        await hoarder.close()


async def test_a_lost_connection_frees_the_memory_of_dropped_messages() -> None:
    async with desk_running(memory_limit_bytes=100) as desk:
        consumer = await desk.subscribe(receiver_queue_size=10)
        desk.deliver_each(*[b"x" * 50] * 10)
        await until(lambda: desk.client.memory.used_bytes == 500, "the messages")
        desk.drop()
        await desk.resubscribed(2)
        await desk.settled(10)
        assert desk.client.memory.used_bytes == 0
        consumer.redeliver_unacknowledged_messages()
        desk.deliver_each(b"x" * 30)
        await consumer.receive(5_000)
        assert desk.client.memory.used_bytes == 0


async def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(InvalidConfiguration, match="memory_limit_bytes"):
        Client("pulsar://127.0.0.1:1", memory_limit_bytes=-1)


async def test_messages_that_arrive_while_the_consumer_closes_take_no_memory() -> None:
    async with desk_running(memory_limit_bytes=100) as desk:
        consumer = await desk.subscribe(ack_receipt_enabled=True)
        desk.deliver_each(b"one")
        consumer.acknowledge(await consumer.receive(5_000))
        desk.peer.on(events.Ack, silent)
        closing = asyncio.create_task(consumer.close())
        await until(lambda: desk.peer.count(events.Ack) == 1, "the ack, whose receipt close() awaits")
        desk.deliver_each(b"x" * 500)
        desk.link.engine.send_ping()
        desk.link.flush()
        await until(lambda: desk.peer.count(events.Pong) == 1, "the client to have handled it")
        request_id = desk.peer.of(events.Ack)[0].request_id
        assert request_id is not None
        desk.link.engine.send_ack_response(desk.consumer_id, request_id)
        desk.link.flush()
        await closing
        assert desk.client.memory.used_bytes == 0
