"""Names, sequence ids, access to the topic."""

from __future__ import annotations

import asyncio

import pytest

from broker.doors.binary.wire import events
from tests.support.scripted_peer import Link
from tests.support.storing_peer import StoringPeer
from tests.support.waiting import until
from vela import errors
from vela.aio import Client
from vela.options import ProducerAccessMode
from vela.wire.binary.enums import AccessMode, ServerError


async def test_a_name_from_the_broker_is_kept_over_reconnects_and_marked_as_such(
    store: StoringPeer, client: Client
) -> None:
    producer = await client.create_producer("t", properties={"team": "x"})
    assert producer.producer_name() == "made-0"
    store.peer.link.drop()
    await until(
        lambda: store.peer.count(events.OpenProducer) == 2 and producer.is_connected(),
        "the producer to connect again",
    )
    first, second = store.peer.of(events.OpenProducer)
    assert (first.producer_name, second.producer_name) == (None, "made-0")
    assert (first.user_provided_name, second.user_provided_name) == (False, False)
    assert (first.epoch, second.epoch) == (0, 1)
    assert first.properties == second.properties == {"team": "x"}


@pytest.mark.parametrize(("initial", "expected"), [(None, 8), (-1, 8), (0, 1), (20, 21)])
async def test_sequence_ids_continue_after_the_last_stored_or_the_given_one(
    store: StoringPeer, client: Client, initial: int | None, expected: int
) -> None:
    store.peer.on(
        events.OpenProducer,
        lambda link, event: link.engine.send_producer_success(
            event.request_id, name="named", last_sequence_id=7
        ),
    )
    store.on_send = lambda link, event: store.peer.answer(link, event)
    producer = await client.create_producer("t", "named", initial_sequence_id=initial)
    assert producer.last_sequence_id() == expected - 1
    await producer.send(b"x")
    assert [event.sequence_id for event in store.peer.of(events.Send)] == [expected]
    assert producer.last_sequence_id() == expected


async def test_a_reconnect_sends_the_topic_epoch_and_a_fenced_producer_stays_closed(
    store: StoringPeer, client: Client
) -> None:
    def admit_once(link: Link, event: events.OpenProducer) -> None:
        if event.topic_epoch is None:
            link.engine.send_producer_success(event.request_id, name="p", topic_epoch=3)
        else:
            link.engine.send_error(event.request_id, ServerError.PRODUCER_FENCED, "another has the topic")

    store.peer.on(events.OpenProducer, admit_once)
    store.on_send = store.ignore
    producer = await client.create_producer("t", access_mode=ProducerAccessMode.Exclusive)
    waiting = producer.send_async(b"x")
    await until(lambda: store.peer.count(events.Send), "the send")
    store.peer.link.drop()
    with pytest.raises(errors.ProducerFenced):
        await waiting
    first, second = store.peer.of(events.OpenProducer)
    assert (first.access_mode, first.topic_epoch) == (AccessMode.EXCLUSIVE, None)
    assert second.topic_epoch == 3
    with pytest.raises(errors.ProducerFenced):
        await producer.send(b"y")


async def test_waiting_for_the_topic_has_no_timeout(store: StoringPeer) -> None:
    queued: list[tuple[Link, events.OpenProducer]] = []

    def queue(link: Link, event: events.OpenProducer) -> None:
        queued.append((link, event))
        link.engine.send_producer_success(event.request_id, name="p", ready=False)

    store.peer.on(events.OpenProducer, queue)
    async with Client(store.peer.url, operation_timeout_seconds=1.5) as client:
        creating = asyncio.ensure_future(
            client.create_producer("t", access_mode=ProducerAccessMode.WaitForExclusive)
        )
        await until(lambda: queued, "its place in the queue")
        done, _ = await asyncio.wait((creating,), timeout=1.7)
        assert not done
        (link, event), *others = queued
        assert others == []
        link.engine.send_producer_success(event.request_id, name="p", topic_epoch=1)
        link.flush()
        assert (await creating).is_connected()
