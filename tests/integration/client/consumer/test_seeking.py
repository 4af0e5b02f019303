"""A seek whose answer comes late."""

from __future__ import annotations

import asyncio

import pytest

from broker.doors.binary.wire import events
from tests.integration.client.consumer.desk import TOPIC, Desk
from tests.support.scripted_peer import LEDGER_ID, Link
from tests.support.waiting import until
from tests.unit.client.entries import single
from vela.errors import AlreadyClosed, NotConnected
from vela.message import MessageId
from vela.wire.binary.enums import ServerError


async def test_a_consumer_subscribes_again_only_after_its_seek_was_answered(desk: Desk) -> None:
    consumer = await desk.subscribe()
    asked: list[events.Seek] = []

    def move(link: Link, event: events.Seek) -> None:
        asked.append(event)
        link.engine.send_close_consumer(desk.consumer_id)  # the answer to the seek comes later

    desk.peer.on(events.Seek, move)
    lookups = desk.peer.count(events.Lookup)
    seeking = asyncio.create_task(consumer.seek(MessageId.earliest))
    await until(lambda: desk.peer.count(events.Lookup) > lookups, "the consumer to look its topic up again")
    for _ in range(3):
        # After this answer, everything that the client sent before has arrived.
        await desk.client.partitions(TOPIC)
    assert desk.peer.count(events.Subscribe) == 1, "deliveries before the answer would be dropped"
    desk.link.engine.send_success(asked[0].request_id)
    desk.link.flush()
    await desk.resubscribed(2)
    desk.deliver_each(b"first")
    await seeking
    assert (await consumer.receive(5000)).data() == b"first"


@pytest.mark.row("I18")
@pytest.mark.parametrize("back_to", [0, 1], ids=["before the target", "to the target"])
async def test_a_cursor_that_is_moved_back_after_a_seek_brings_the_message_of_the_seek_too(
    desk: Desk, back_to: int
) -> None:
    def move(link: Link, event: events.Seek) -> None:
        link.engine.send_close_consumer(desk.consumer_id)
        link.engine.send_success(event.request_id)

    desk.peer.on(events.Seek, move)
    consumer = await desk.subscribe()
    await consumer.seek(MessageId(-1, LEDGER_ID, 1))
    for number in (1, 2):
        desk.deliver(single(b"%d" % number), entry_id=number)
    assert (await consumer.receive(5000)).data() == b"2"
    desk.link.engine.send_close_consumer(desk.consumer_id)  # an operator resets the subscription
    desk.link.flush()
    await desk.resubscribed(3)
    for number in range(back_to, 3):
        desk.deliver(single(b"%d" % number), entry_id=number)
    received = [(await consumer.receive(5000)).data() for _ in range(back_to, 3)]
    assert received == [b"0", b"1", b"2"][back_to:]


async def test_a_seek_away_from_the_end_of_the_topic_takes_the_end_back(desk: Desk) -> None:
    consumer = await desk.subscribe()
    desk.link.engine.send_reached_end_of_topic(desk.consumer_id)
    desk.link.flush()
    await until(consumer.has_reached_end_of_topic, "the end")

    def move(link: Link, event: events.Seek) -> None:
        link.engine.send_close_consumer(desk.consumer_id)
        link.engine.send_success(event.request_id)

    desk.peer.on(events.Seek, move)
    await consumer.seek(MessageId.earliest)
    assert not consumer.has_reached_end_of_topic()


async def test_a_seek_says_why_a_consumer_with_a_listener_failed_meanwhile(desk: Desk) -> None:
    consumer = await desk.subscribe(message_listener=lambda consumer, message: None)

    def move(link: Link, event: events.Seek) -> None:
        link.engine.send_close_consumer(desk.consumer_id)
        link.engine.send_success(event.request_id)

    def gone(link: Link, event: events.Lookup) -> None:
        link.engine.send_lookup_failed(event.request_id, ServerError.TOPIC_NOT_FOUND, "no such topic")

    desk.peer.on(events.Seek, move)
    desk.peer.on(events.Lookup, gone)
    with pytest.raises(NotConnected):
        await consumer.seek(MessageId.earliest)


async def test_a_seek_that_ends_while_the_consumer_closes_says_so_at_once(desk: Desk) -> None:
    consumer = await desk.subscribe(ack_receipt_enabled=True)
    acks: list[events.Ack] = []
    seeks: list[events.Seek] = []
    desk.peer.on(events.Ack, lambda link, event: acks.append(event))
    desk.peer.on(events.Seek, lambda link, event: seeks.append(event))
    desk.deliver_each(b"x")
    consumer.acknowledge(await consumer.receive(5_000))
    seeking = asyncio.create_task(consumer.seek(MessageId.earliest))
    await until(lambda: seeks, "the seek")
    closing = asyncio.create_task(consumer.close())
    await desk.client.partitions(TOPIC)  # by then, the close waits for the receipt of the ack
    assert not closing.done()
    desk.link.engine.send_close_consumer(desk.consumer_id)
    desk.link.engine.send_success(seeks[0].request_id)
    desk.link.flush()
    async with asyncio.timeout(5):
        with pytest.raises(AlreadyClosed):
            await seeking
    for each in acks:
        assert each.request_id is not None
        desk.link.engine.send_ack_response(desk.consumer_id, each.request_id)
    desk.link.flush()
    await closing
