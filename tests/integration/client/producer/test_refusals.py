"""Answers that are late, that are wrong, or that are errors."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.doors.binary.wire import events
from broker.log.sends import Receipt
from tests.integration.client.producer.outcomes import BATCHED, answers, kinds
from tests.support.scripted_peer import Link
from tests.support.storing_peer import StoringPeer
from tests.support.waiting import until
from vela import errors
from vela.aio import Client
from vela.message import MessageId
from vela.wire.binary.enums import ServerError


async def test_an_unexpected_receipt_is_ignored(store: StoringPeer, client: Client) -> None:
    def twice(link: Link, event: events.Send) -> None:
        store.accept(link, event)
        link.engine.send_receipts(event.producer_id, [Receipt(event.sequence_id, 0, 1, 1, 0)])

    store.on_send = twice
    producer = await client.create_producer("t")
    ids = await asyncio.gather(*[producer.send_async(b"x") for _ in range(3)])
    assert [each.entry_id() for each in ids] == [0, 1, 2]
    assert len(store.peer.links) == 1


async def test_a_receipt_of_something_not_sent_closes_the_connection_and_all_is_sent_again(
    store: StoringPeer, client: Client
) -> None:
    def beyond(link: Link, event: events.Send) -> None:
        link.engine.send_receipts(event.producer_id, [Receipt(event.sequence_id + 50, 0, 1, 1, 0)])
        store.on_send = store.accept

    store.on_send = beyond
    producer = await client.create_producer("t")
    await producer.send(b"x")
    assert store.payloads == [b"x"]
    assert len(store.peer.links) == 2


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ServerError.CHECKSUM_ERROR, errors.ChecksumError),
        (ServerError.NOT_ALLOWED_ERROR, errors.NotAllowedError),
        (ServerError.METADATA_ERROR, errors.BrokerMetadataError),
    ],
)
@pytest.mark.parametrize("options", [{}, {"batching_max_messages": 2, **BATCHED}], ids=["single", "batches"])
async def test_a_refused_message_fails_and_the_others_do_not(
    store: StoringPeer,
    client: Client,
    code: ServerError,
    kind: type[errors.VelaError],
    options: dict[str, Any],
) -> None:
    def refuse_second(link: Link, event: events.Send) -> None:
        if store.peer.count(events.Send) == 2:
            highest = max(event.sequence_id, event.highest_sequence_id or 0)
            link.engine.send_send_error(event.producer_id, highest, code, "no")
        else:
            store.accept(link, event)

    store.on_send = refuse_second
    producer = await client.create_producer("t", **options)
    count = 6 if options else 3
    outcomes = await answers([producer.send_async(b"%d" % n) for n in range(count)])
    third = count // 3
    assert kinds(outcomes) == [MessageId] * third + [kind] * third + [MessageId] * third
    assert len(store.peer.links) == 1
    assert producer.statistics().messages_failed == third


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ServerError.TOPIC_TERMINATED_ERROR, errors.TopicTerminated),
        (ServerError.PRODUCER_FENCED, errors.ProducerFenced),
    ],
)
async def test_some_refusals_end_the_producer(
    store: StoringPeer, client: Client, code: ServerError, kind: type[errors.VelaError]
) -> None:
    store.on_send = lambda link, event: link.engine.send_send_error(
        event.producer_id, event.sequence_id, code, "over"
    )
    producer = await client.create_producer("t")
    assert kinds(await answers([producer.send_async(b"x") for _ in range(3)])) == [kind] * 3
    with pytest.raises(kind):
        await producer.send(b"y")
    with pytest.raises(kind):
        await producer.flush()
    assert not producer.is_connected()
    await producer.close()


@pytest.mark.parametrize("code", [ServerError.PERSISTENCE_ERROR, ServerError.SERVICE_NOT_READY])
async def test_other_refusals_reattach_only_the_refused_producer(
    store: StoringPeer, client: Client, code: ServerError
) -> None:
    def refuse_once(link: Link, event: events.Send) -> None:
        if store.peer.count(events.Send) == 1:
            link.engine.send_send_error(event.producer_id, event.sequence_id, code, "disk")
            # Later messages of the first attachment would be stored out of order, so they get no answer.
            store.on_send = refuse_once
        elif store.peer.count(events.OpenProducer) > 1:
            store.accept(link, event)

    store.on_send = refuse_once
    producer = await client.create_producer("t")
    await asyncio.gather(*[producer.send_async(b"%d" % n) for n in range(3)])
    assert store.payloads == [b"0", b"1", b"2"]
    assert len(store.peer.links) == 1
    closed = [type(event) for event in store.peer.heard]
    assert closed.index(events.CloseProducer) < closed.index(events.OpenProducer, 4)


async def test_a_full_backlog_fails_waiting_messages_and_the_producer_reattaches(
    store: StoringPeer, client: Client
) -> None:
    producer = await client.create_producer("t")
    store.on_send = store.ignore
    store.peer.on(
        events.OpenProducer,
        lambda link, event: link.engine.send_error(
            event.request_id, ServerError.PRODUCER_BLOCKED_QUOTA_EXCEEDED_EXCEPTION, "full"
        ),
    )
    waiting = [producer.send_async(b"x") for _ in range(2)]
    await until(lambda: store.peer.count(events.Send) == 2, "the sends")
    store.peer.link.drop()
    assert kinds(await answers(waiting)) == [errors.ProducerBlockedQuotaExceededException] * 2
    StoringPeer(store.peer)
    await producer.send(b"y")


async def test_a_producer_blocked_by_a_quota_keeps_its_messages_until_there_is_room(
    store: StoringPeer, client: Client
) -> None:
    producer = await client.create_producer("t")
    store.on_send = store.ignore
    refused = 0

    def hold(link: Link, event: events.OpenProducer) -> None:
        nonlocal refused
        refused += 1
        code = ServerError.PRODUCER_BLOCKED_QUOTA_EXCEEDED_ERROR
        link.engine.send_error(event.request_id, code, "full")

    store.peer.on(events.OpenProducer, hold)
    waiting = producer.send_async(b"x")
    await until(lambda: store.peer.count(events.Send), "the send")
    store.peer.link.drop()
    await until(lambda: refused > 1, "two attempts")
    assert not waiting.done()
    again = StoringPeer(store.peer)
    await waiting
    assert again.payloads == [b"x"]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ServerError.PRODUCER_BUSY, errors.ProducerBusy),
        (ServerError.TOPIC_TERMINATED_ERROR, errors.TopicTerminated),
        (ServerError.PRODUCER_BLOCKED_QUOTA_EXCEEDED_ERROR, errors.ProducerBlockedQuotaExceededError),
        (ServerError.INCOMPATIBLE_SCHEMA, errors.IncompatibleSchema),
    ],
)
async def test_a_producer_refused_at_its_creation_raises_at_once(
    store: StoringPeer, client: Client, code: ServerError, kind: type[errors.VelaError]
) -> None:
    store.peer.on(
        events.OpenProducer, lambda link, event: link.engine.send_error(event.request_id, code, "no")
    )
    with pytest.raises(kind):
        await client.create_producer("t")
    assert store.peer.count(events.OpenProducer) == 1


async def test_a_creation_that_times_out_or_is_cancelled_leaves_nothing_behind(store: StoringPeer) -> None:
    store.peer.on(events.OpenProducer, lambda link, event: None)
    async with Client(store.peer.url, operation_timeout_seconds=1) as client:
        with pytest.raises(errors.Timeout):
            await client.create_producer("t")
        await until(lambda: store.peer.count(events.CloseProducer) == 1, "CLOSE_PRODUCER")
    async with Client(store.peer.url) as client:
        creating = asyncio.ensure_future(client.create_producer("t"))
        await until(lambda: store.peer.count(events.OpenProducer) == 2, "PRODUCER")
        creating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await creating
        await until(lambda: store.peer.count(events.CloseProducer) == 2, "CLOSE_PRODUCER")
