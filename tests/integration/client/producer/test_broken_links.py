"""Links that break, and producers that the broker closes: messages are stored in order, once, and none is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.doors.binary.wire import events
from tests.integration.client.producer.outcomes import BATCHED
from tests.support.scripted_peer import ScriptedPeer
from tests.support.storing_peer import StoringPeer
from tests.support.waiting import until
from vela.aio import Client


@pytest.mark.parametrize("stores", [True, False], ids=["after storing", "before storing"])
@pytest.mark.parametrize("options", [{}, {"batching_max_messages": 2, **BATCHED}], ids=["single", "batches"])
async def test_messages_without_a_receipt_are_sent_again_in_order_and_stored_once(
    options: dict[str, Any], stores: bool
) -> None:
    async with ScriptedPeer.started() as peer:
        store = StoringPeer(peer, deduplicates=True)
        store.break_after(2, stores=stores)
        async with Client(peer.url, initial_backoff_ms=1) as client:
            producer = await client.create_producer("t", "named", **options)
            outcomes = await asyncio.gather(*[producer.send_async(b"%d" % n) for n in range(12)])
            assert store.payloads == [b"%d" % n for n in range(12)]
            assert len(peer.links) == 2
            # The broker dropped them as duplicates.
            unknown = [each for each in outcomes if each.entry_id() == -1]
            assert len(unknown) == (0 if not stores else 2 if options else 1)
            assert producer.last_sequence_id() == 11
            assert producer.statistics().messages_pending == 0


async def test_messages_sent_without_a_connection_go_out_once_there_is_one(
    store: StoringPeer, client: Client
) -> None:
    producer = await client.create_producer("t", **BATCHED)
    await store.peer.stop()
    await until(lambda: not producer.is_connected(), "the loss")
    futures = [producer.send_async(b"%d" % n) for n in range(3)]
    await asyncio.sleep(0)
    await store.peer.listen()
    await asyncio.gather(*futures)
    assert store.payloads == [b"0", b"1", b"2"]


async def test_a_producer_that_the_broker_closed_attaches_again_on_the_same_link(
    store: StoringPeer, client: Client
) -> None:
    producer = await client.create_producer("t")
    store.on_send = store.ignore
    waiting = producer.send_async(b"x")
    await until(lambda: store.peer.count(events.Send), "the send")
    store.on_send = store.accept
    store.peer.link.engine.send_close_producer(0)
    store.peer.link.flush()
    await waiting
    assert store.payloads == [b"x"]
    assert len(store.peer.links) == 1
    assert [event.epoch for event in store.peer.of(events.OpenProducer)] == [0, 1]
