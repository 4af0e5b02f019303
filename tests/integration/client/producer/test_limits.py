"""Limits on pending messages, cancelled sends, timeouts."""

from __future__ import annotations

import asyncio
from functools import partial

from broker.doors.binary.wire import events
from tests.integration.client.producer.outcomes import ALONE, BATCHED, answers, kinds, note
from tests.support.scripted_peer import Link
from tests.support.storing_peer import StoringPeer
from tests.support.waiting import until
from vela import errors
from vela.aio import Client
from vela.message import MessageId


def more_sends(store: StoringPeer, than: int) -> bool:
    return store.peer.count(events.Send) > than


async def test_beyond_the_limit_a_message_is_refused_and_room_comes_back(
    store: StoringPeer, client: Client
) -> None:
    store.on_send = store.ignore
    for options in (ALONE, BATCHED):
        producer = await client.create_producer("t", max_pending_messages=3, **options)
        sends = store.peer.count(events.Send)
        futures = [producer.send_async(b"%d" % n) for n in range(4)]
        assert isinstance(futures[3].exception(), errors.ProducerQueueIsFull)
        await until(partial(more_sends, store, sends), "the sends")
        store.on_send = store.accept
        store.peer.link.drop()
        await asyncio.gather(*futures[:3])
        await producer.send(b"4")
        store.on_send = store.ignore


async def test_with_blocking_messages_wait_in_line_and_keep_their_order(
    store: StoringPeer, client: Client
) -> None:
    held: list[tuple[Link, events.Send]] = []
    store.on_send = lambda link, event: held.append((link, event))
    producer = await client.create_producer("t", max_pending_messages=2, block_if_queue_full=True)
    waiting = [asyncio.ensure_future(producer.send(b"%d" % n)) for n in range(6)]
    await until(lambda: len(held) == 2, "two sends")
    await asyncio.sleep(0)
    waiting[3].cancel()  # this message waited in line, so it is never sent
    store.on_send = store.accept
    for link, event in held:
        store.accept(link, event)
        link.flush()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert kinds(outcomes) == [MessageId] * 3 + [asyncio.CancelledError] + [MessageId] * 2
    assert store.payloads == [b"0", b"1", b"2", b"4", b"5"]


async def test_a_cancelled_send_does_not_disturb_others(store: StoringPeer, client: Client) -> None:
    producer = await client.create_producer("t", max_pending_messages=3, **BATCHED)
    waiting = [asyncio.ensure_future(producer.send(b"%d" % n)) for n in range(3)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert kinds(outcomes) == [MessageId, asyncio.CancelledError, MessageId]
    assert store.payloads == [b"0", b"1", b"2"]  # the client had already sent the cancelled message
    assert producer.statistics().messages_pending == 0


async def test_without_a_receipt_sends_time_out_in_order_and_late_receipts_are_ignored(
    store: StoringPeer, client: Client
) -> None:
    held: list[tuple[Link, events.Send]] = []
    store.on_send = lambda link, event: held.append((link, event))
    producer = await client.create_producer("t", send_timeout_millis=100)
    failed: list[int] = []
    futures = [producer.send_async(b"%d" % n) for n in range(3)]
    for n, future in enumerate(futures):
        future.add_done_callback(partial(note, failed, n))
    assert kinds(await answers(futures)) == [errors.Timeout] * 3
    assert failed == [0, 1, 2]
    for link, event in held:
        store.accept(link, event)
        link.flush()
    store.on_send = store.accept
    assert (await producer.send(b"next")).entry_id() == 3
    assert len(store.peer.links) == 1


async def test_properties_that_no_frame_takes_are_refused_and_the_connection_stays(
    store: StoringPeer, client: Client
) -> None:
    key = "k" * (store.peer.max_message_bytes + 11_000)
    for options in (ALONE, BATCHED):
        producer = await client.create_producer("t", **options)
        before = producer.send_async(b"before")
        await producer.flush()
        big = producer.send_async(b"big", partition_key=key)
        await asyncio.wait([big])
        after = producer.send_async(b"after")
        outcomes = await answers([before, big, after])
        assert kinds(outcomes) == [MessageId, errors.MessageTooBig, MessageId]
    assert len(store.peer.links) == 1
