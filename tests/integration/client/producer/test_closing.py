"""Flush and close."""

from __future__ import annotations

import asyncio
import threading

import pytest

import vela
from broker.doors.binary.wire import events
from tests.integration.client.producer.outcomes import BATCHED, answers, kinds
from tests.support.scripted_peer import silent
from tests.support.storing_peer import StoringPeer
from tests.support.waiting import until
from vela import errors
from vela.aio import Client
from vela.wire.binary.enums import ServerError


async def test_flush_waits_for_everything_before_it_even_in_the_queue(
    store: StoringPeer, client: Client
) -> None:
    producer = await client.create_producer(
        "t", max_pending_messages=2, block_if_queue_full=True, batching_max_publish_delay_ms=60_000, **BATCHED
    )
    futures = [producer.send_async(b"%d" % n) for n in range(5)]
    await asyncio.wait_for(producer.flush(), 5)
    assert all(future.done() for future in futures)
    await asyncio.wait_for(producer.flush(), 5)


async def test_flush_raises_the_first_error_it_waited_for(store: StoringPeer, client: Client) -> None:
    producer = await client.create_producer("t")
    store.on_send = lambda link, event: link.engine.send_send_error(
        event.producer_id, event.sequence_id, ServerError.NOT_ALLOWED_ERROR, "no"
    )
    failing = producer.send_async(b"x")
    with pytest.raises(errors.NotAllowedError):
        await producer.flush()
    assert isinstance(failing.exception(), errors.NotAllowedError)
    await producer.flush()


async def test_close_sends_the_current_batch_and_refuses_later_messages(
    store: StoringPeer, client: Client
) -> None:
    producer = await client.create_producer("t", batching_max_publish_delay_ms=60_000, **BATCHED)
    future = producer.send_async(b"x")
    closing = [asyncio.ensure_future(producer.close()) for _ in range(2)]
    await asyncio.gather(*closing)
    assert future.result().entry_id() == 0
    assert [type(event) for event in store.peer.heard][-2:] == [events.Send, events.CloseProducer]
    with pytest.raises(errors.AlreadyClosed):
        await producer.send(b"y")
    assert not producer.is_connected()
    await producer.close()


async def test_close_leaves_no_future_hanging(store: StoringPeer) -> None:
    store.on_send = store.ignore
    async with Client(store.peer.url, operation_timeout_seconds=1) as client:
        producer = await client.create_producer(
            "t", max_pending_messages=1, block_if_queue_full=True, send_timeout_millis=0
        )
        futures = [producer.send_async(b"x") for _ in range(3)]
        flushing = asyncio.ensure_future(producer.flush())
        await producer.close()
        assert kinds(await answers(futures)) == [errors.AlreadyClosed] * 3
        with pytest.raises(errors.AlreadyClosed):
            await flushing


async def test_close_waits_once_for_a_broker_that_answers_nothing(store: StoringPeer) -> None:
    store.on_send = store.ignore
    store.peer.on(events.CloseProducer, silent)
    async with Client(store.peer.url, operation_timeout_seconds=2) as client:
        producer = await client.create_producer("t", send_timeout_millis=0)
        future = producer.send_async(b"x")
        async with asyncio.timeout(3.5):  # two waits would take 4 s
            await producer.close()
        assert kinds(await answers([future])) == [errors.AlreadyClosed]
    assert store.peer.count(events.CloseProducer) == 1


async def test_closing_the_client_twice_at_once_still_waits_for_receipts(store: StoringPeer) -> None:
    store.on_send = store.ignore
    client = Client(store.peer.url, initial_backoff_ms=1, operation_timeout_seconds=5)
    producer = await client.create_producer("t")
    sent = producer.send_async(b"x")
    send = await until(lambda: store.peer.of(events.Send), "the send")
    closing = [asyncio.ensure_future(client.close()) for _ in range(2)]
    await asyncio.sleep(0.05)
    assert not any(task.done() for task in closing)
    store.accept(store.peer.link, send[0])
    store.peer.link.flush()
    assert (await sent).entry_id() == 0
    await asyncio.gather(*closing)
    await client.close()


async def test_closing_the_client_closes_its_producers(store: StoringPeer) -> None:
    client = Client(store.peer.url)
    producer = await client.create_producer("t", **BATCHED)
    future = producer.send_async(b"x")
    await client.close()
    assert future.result().entry_id() == 0
    with pytest.raises(errors.AlreadyClosed):
        await producer.send(b"y")


async def test_shutting_down_answers_every_send_and_frees_threads_that_wait_for_room(
    store: StoringPeer,
) -> None:
    store.on_send = store.ignore
    client = await asyncio.to_thread(vela.Client, store.peer.url)
    producer = await asyncio.to_thread(
        client.create_producer, "t", max_pending_messages=1, block_if_queue_full=True, send_timeout_millis=0
    )
    results: list[vela.Result] = []
    refused: list[vela.VelaError] = []

    def send_two() -> None:
        try:
            for payload in (b"first", b"waits for room"):
                producer.send_async(payload, lambda result, _: results.append(result))
        except vela.VelaError as error:
            refused.append(error)

    threading.Thread(target=send_two, daemon=True).start()
    await until(lambda: store.peer.count(events.Send) == 1, "the first message")
    await asyncio.to_thread(client.shutdown)
    await until(lambda: bool(refused), "the end of the second call")
    assert isinstance(refused[0], errors.AlreadyClosed)
    await until(lambda: results == [vela.Result.AlreadyClosed], "the callback of the first message")


async def test_shutting_down_answers_sends_at_once_although_the_broker_is_away(store: StoringPeer) -> None:
    store.on_send = store.ignore
    client = await asyncio.to_thread(
        vela.Client, store.peer.url, initial_backoff_ms=60_000, max_backoff_ms=60_000
    )
    producer = await asyncio.to_thread(client.create_producer, "t", send_timeout_millis=0)
    results: list[vela.Result] = []
    producer.send_async(b"x", lambda result, _: results.append(result))
    await until(lambda: store.peer.count(events.Send) == 1, "the message")
    store.peer.link.drop()
    await until(lambda: not producer.is_connected(), "the end of the connection")
    await asyncio.to_thread(client.shutdown)
    await until(lambda: results == [vela.Result.AlreadyClosed], "the callback")
