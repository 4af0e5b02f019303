"""Where a reader begins again after a lost connection and after a seek."""

from __future__ import annotations

import time

from broker.doors.binary.wire import events
from tests.integration.client.consumer.desk import TOPIC, Desk
from tests.support.scripted_peer import LEDGER_ID, Link
from tests.support.waiting import until
from tests.unit.client.entries import batch
from vela.aio.readers.reader import Reader
from vela.message import MessageId


async def reader_of(desk: Desk, start: MessageId = MessageId.latest, *, inclusive: bool = False) -> Reader:
    desk.peer.on(events.Seek, _moved)
    return await desk.client.create_reader(TOPIC, start, start_message_id_inclusive=inclusive)


def _moved(link: Link, event: events.Seek) -> None:
    link.engine.send_close_consumer(event.consumer_id)
    link.engine.send_success(event.request_id)


def last_start(desk: Desk) -> tuple[int, int] | None:
    start = desk.peer.of(events.Subscribe)[-1].start
    return None if start is None else (start.ledger_id, start.entry_id)


async def test_messages_that_arrived_and_were_not_read_come_again(desk: Desk) -> None:
    reader = await reader_of(desk)
    at = desk.deliver(batch([b"a", b"b"]), messages=2)
    await until(lambda: reader.statistics().messages_waiting == 2, "the messages")
    for times in (2, 3):  # the second loss comes before the messages have come again
        desk.drop()
        await desk.resubscribed(times)
        assert last_start(desk) == (LEDGER_ID, at)
    desk.deliver(batch([b"a", b"b"]), messages=2, entry_id=at)
    assert [(await reader.read_next(5_000)).data() for _ in range(2)] == [b"a", b"b"]


async def test_a_seek_after_a_lost_connection_still_begins_with_the_message_itself(desk: Desk) -> None:
    reader = await reader_of(desk, MessageId.earliest, inclusive=True)
    desk.deliver_each(b"0", b"1")
    first = await reader.read_next(5_000)
    await reader.read_next(5_000)
    desk.drop()
    await desk.resubscribed(2)
    await reader.seek(first.message_id())
    desk.deliver(batch([b"0"]), entry_id=first.message_id().entry_id())
    assert (await reader.read_next(5_000)).data() == b"0"


async def test_a_seek_by_time_counts_after_a_lost_connection(desk: Desk) -> None:
    reader = await reader_of(desk)
    ago_s = 3600
    await reader.seek(int(time.time() * 1000) - ago_s * 1000)
    desk.drop()
    await desk.resubscribed(3)
    assert last_start(desk) is None
    assert ago_s <= desk.peer.of(events.Subscribe)[-1].rollback_s < 2 * ago_s
    desk.deliver_each(b"later")
    await until(lambda: reader.statistics().messages_waiting == 1, "the message")
    desk.drop()
    await desk.resubscribed(4)
    assert desk.peer.of(events.Subscribe)[-1].rollback_s == 0
    assert last_start(desk) is not None
