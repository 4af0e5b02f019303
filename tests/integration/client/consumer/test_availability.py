"""has_message_available is True only if a message will come. If the last entries contain no message, it is False."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from broker.doors.binary.wire import events
from tests.integration.client.consumer.desk import TOPIC, Desk, desk_running
from tests.support.scripted_peer import LEDGER_ID, Link, silent
from tests.support.waiting import until
from tests.unit.client.entries import batch, compose, damage, metadata, sealed, single
from vela.errors import AlreadyClosed, VelaError
from vela.message import MessageId
from vela.options import ConsumerType
from vela.wire.message_id import MessageId as WireId

NOTHING = WireId(ledger_id=LEDGER_ID, entry_id=-1)


class Topic:
    """The broker's answers about the topic."""

    def __init__(self, desk: Desk) -> None:
        self.last = NOTHING
        self.mark_delete = NOTHING
        self.asked = 0
        desk.peer.on(events.GetLastMessageId, self._answer)

    def _answer(self, link: Link, event: events.GetLastMessageId) -> None:
        self.asked += 1
        link.engine.send_last_message_id(event.request_id, last=self.last, mark_delete=self.mark_delete)

    def ends_at(self, entry_id: int) -> None:
        self.last = WireId(ledger_id=LEDGER_ID, entry_id=entry_id)


@pytest.fixture
def has(desk: Desk) -> Topic:
    return Topic(desk)


async def quickly(answer: Awaitable[bool]) -> bool:
    async with asyncio.timeout(5):
        return await answer


async def waiting(has: Topic, answer: Awaitable[bool]) -> asyncio.Future[bool]:
    """Call has_message_available, which must wait for the topic's last entries. Return its task."""
    future = asyncio.ensure_future(answer)
    await until(lambda: has.asked > 0, "the broker to be asked")
    assert not future.done()
    return future


UNREADABLE = [
    pytest.param(damage(single(b"x")), 1, id="damaged"),
    pytest.param(damage(batch([b"x"] * 3)), 3, id="a damaged batch"),
    pytest.param(sealed(b"x"), 1, id="encrypted"),
    pytest.param(
        compose(metadata(uuid="u", chunk_id=0, num_chunks_from_msg=2, total_chunk_msg_size=2), b"x"),
        1,
        id="a first chunk",
    ),
]


@pytest.mark.parametrize(("entry", "messages"), UNREADABLE)
async def test_a_last_entry_without_a_message_is_the_end(
    desk: Desk, has: Topic, entry: bytes, messages: int
) -> None:
    reader = await desk.client.create_reader(TOPIC, MessageId.earliest)
    has.ends_at(1)
    found = await waiting(has, reader.has_message_available())
    desk.deliver_each(b"first")
    assert await quickly(found)
    assert (await reader.read_next(5000)).data() == b"first"
    has.asked = 0
    found = await waiting(has, reader.has_message_available())
    desk.deliver(entry, messages=messages)
    assert not await quickly(found)
    assert not await quickly(reader.has_message_available())


async def test_a_message_that_the_broker_does_not_send_is_not_waited_for(desk: Desk, has: Topic) -> None:
    reader = await desk.client.create_reader(TOPIC, MessageId.earliest)
    has.ends_at(0)
    found = await waiting(has, reader.has_message_available())
    has.mark_delete = has.last
    assert not await quickly(found)


async def test_after_a_lost_connection_the_client_asks_again(desk: Desk, has: Topic) -> None:
    reader = await desk.client.create_reader(TOPIC, MessageId.earliest)
    has.ends_at(0)
    found = await waiting(has, reader.has_message_available())
    desk.drop()
    await desk.resubscribed(2)
    desk.next_entry = 0
    desk.deliver_each(b"again")
    assert await quickly(found)


async def test_a_question_that_a_lost_connection_left_unanswered_is_asked_again(
    desk: Desk, has: Topic
) -> None:
    reader = await desk.client.create_reader(TOPIC, MessageId.earliest)
    desk.peer.on(events.GetLastMessageId, silent)
    found = asyncio.ensure_future(reader.has_message_available())
    await until(lambda: desk.peer.count(events.GetLastMessageId), "the question")
    Topic(desk)
    desk.drop()
    assert not await quickly(found)


async def test_closing_fails_a_call_that_waits_for_the_last_entries(desk: Desk, has: Topic) -> None:
    reader = await desk.client.create_reader(TOPIC, MessageId.earliest)
    has.ends_at(0)
    found = await waiting(has, reader.has_message_available())
    await reader.close()
    with pytest.raises(VelaError) as raised:
        await quickly(found)
    assert isinstance(raised.value, AlreadyClosed)


async def test_redelivered_messages_are_still_available(desk: Desk, has: Topic) -> None:
    consumer = await desk.subscribe()
    desk.deliver_each(b"one", b"two")
    await until(lambda: len(consumer.queue) == 2, "both")
    has.ends_at(1)
    consumer.redeliver_unacknowledged_messages()
    found = await waiting(has, consumer.has_message_available())
    desk.next_entry = 0
    desk.deliver_each(b"one")
    assert await quickly(found)


async def test_a_table_is_whole_although_the_last_entry_cannot_be_read(desk: Desk, has: Topic) -> None:
    has.ends_at(1)
    making = asyncio.ensure_future(desk.client.create_table_view(TOPIC))
    await until(lambda: has.asked > 0, "the table to look")
    desk.deliver(compose(metadata(partition_key="k"), b"v"))
    desk.deliver(damage(single(b"x")))
    async with asyncio.timeout(5):
        table = await making
    assert (len(table), table.get("k")) == (1, b"v")
    await table.close()


async def test_at_the_memory_limit_a_last_entry_without_a_message_is_the_end() -> None:
    """At the limit, a consumer without messages gets one entry at a time, so the last one arrives too."""
    async with desk_running(memory_limit_bytes=100) as desk:
        hoarder = await desk.subscribe()
        desk.deliver_each(b"x" * 100)
        await until(lambda: desk.client.memory.is_reached, "the hoarder's message")
        has = Topic(desk)
        has.ends_at(1)
        reader = await desk.client.create_reader(TOPIC, MessageId.earliest)
        await desk.settled(1)
        found = await waiting(has, reader.has_message_available())
        desk.next_entry = 0
        desk.deliver_each(b"first")
        assert await quickly(found)
        assert (await reader.read_next(5000)).data() == b"first"
        await desk.settled(1)
        has.asked = 0
        found = await waiting(has, reader.has_message_available())
        desk.deliver(damage(single(b"x")))
        assert not await quickly(found)
        await hoarder.close()


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"consumer_type": ConsumerType.Shared}, id="shared"),
        pytest.param({"start_paused": True}, id="paused"),
        pytest.param({"receiver_queue_size": 0}, id="without a queue"),
        pytest.param({"message_listener": print}, id="with a listener"),
    ],
)
async def test_a_consumer_that_fetches_nothing_in_advance_returns_the_brokers_answer(
    desk: Desk, has: Topic, options: dict[str, object]
) -> None:
    consumer = await desk.subscribe(**options)
    has.ends_at(0)
    assert await quickly(consumer.has_message_available())
    assert has.asked == 1


async def test_a_consumer_of_several_topics_with_a_listener_returns_the_brokers_answer(
    desk: Desk, has: Topic
) -> None:
    consumer = await desk.client.subscribe([TOPIC, f"{TOPIC}-2"], "billing", message_listener=print)
    has.ends_at(0)
    assert await quickly(consumer.has_message_available())
    assert has.asked == 2
