"""Consumers and producers stay attached: first attempts, losses, fatal errors, closing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from broker.doors.binary.wire import events
from tests.integration.client.sinks import Sink
from tests.support.scripted_peer import Link, ScriptedPeer
from tests.support.waiting import until
from vela import errors
from vela.aio import Client
from vela.aio.attachment import Attachment
from vela.aio.connections.connection import Connection
from vela.errors import VelaError
from vela.wire.binary import commands, replies
from vela.wire.binary.enums import ServerError, SubType

TOPIC = "persistent://public/default/t"


@pytest.fixture(params=[False, True], ids=["tcp", "websocket"])
async def peer(request: pytest.FixtureRequest) -> AsyncIterator[ScriptedPeer]:
    async with ScriptedPeer.started(websocket=request.param) as started:
        yield started


@pytest.fixture
async def client(peer: ScriptedPeer) -> AsyncIterator[Client]:
    async with Client(peer.url, initial_backoff_ms=5, max_backoff_ms=20) as made:
        yield made


class Subscriber(Sink):
    """The smallest possible consumer."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.consumer_id = client.new_consumer_id()
        self.attachment = Attachment(client, TOPIC, self.attach, on_failed=self.failed)
        self.failure: VelaError | None = None
        self.attached = 0

    async def attach(self, connection: Connection) -> None:
        connection.consumers[self.consumer_id] = self
        await connection.request(
            lambda request_id: commands.subscribe(
                TOPIC, "s", type=SubType.SHARED, consumer_id=self.consumer_id, request_id=request_id
            ),
            timeout_s=5,
        )
        self.attached += 1

    def failed(self, error: VelaError) -> None:
        self.failure = error

    def on_closed_by_broker(self, connection: Connection) -> None:
        super().on_closed_by_broker(connection)
        self.attachment.lost(connection)

    def on_connection_lost(self, connection: Connection, error: VelaError) -> None:
        super().on_connection_lost(connection, error)
        self.attachment.lost(connection, error)

    @property
    def is_attached(self) -> bool:
        return self.attachment.connection is not None


def refuse_subscribe(peer: ScriptedPeer, code: ServerError, times: int) -> None:
    """Refuse the next `times` SUBSCRIBEs."""
    left = [times]

    def script(link: Link, event: events.Subscribe) -> None:
        if left[0] > 0:
            left[0] -= 1
            link.engine.send_error(event.request_id, code, "refused by the script")
        else:
            link.engine.send_success(event.request_id)

    peer.on(events.Subscribe, script)


async def test_a_consumer_attaches_again_after_each_lost_connection(
    peer: ScriptedPeer, client: Client
) -> None:
    subscriber = Subscriber(client)
    await subscriber.attachment.open()
    assert subscriber.is_attached
    for attached in range(2, 6):
        peer.link.drop()
        await until(lambda: subscriber.attached == attached, "attached again")  # noqa: B023 - awaited at once
    await subscriber.attachment.close()
    assert subscriber.failure is None


async def test_a_consumer_that_the_broker_closes_attaches_again_on_the_same_connection(
    peer: ScriptedPeer, client: Client
) -> None:
    subscriber = Subscriber(client)
    await subscriber.attachment.open()
    peer.link.raw(commands.close_consumer(subscriber.consumer_id, request_id=-1))
    await until(lambda: subscriber.attached == 2 and subscriber.is_attached, "attached again")
    assert len(peer.links) == 1
    await subscriber.attachment.close()


async def test_without_pooling_a_consumer_that_the_broker_closes_leaves_no_connection_behind(
    peer: ScriptedPeer,
) -> None:
    async with Client(peer.url, initial_backoff_ms=5, max_backoff_ms=20, connections_per_broker=0) as client:
        subscriber = Subscriber(client)
        await subscriber.attachment.open()
        for attached in range(2, 5):
            peer.link.raw(commands.close_consumer(subscriber.consumer_id, request_id=-1))
            await until(lambda: subscriber.attached == attached, "attached again")  # noqa: B023 - awaited at once
            await until(lambda: len(peer.open_links) == 1, "only the connection of the consumer")
        await subscriber.attachment.close()


@pytest.mark.row("S0.10")
async def test_a_frame_that_is_too_large_closes_the_connection_and_the_consumer_reconnects(
    peer: ScriptedPeer, client: Client
) -> None:
    subscriber = Subscriber(client)
    await subscriber.attachment.open()
    size = peer.max_message_bytes
    peer.link.deliver(subscriber.consumer_id, bytes(size), entry_id=1)
    await until(lambda: len(subscriber.told) == 1, "the largest frame")
    peer.link.raw((size + 20 * 1024).to_bytes(4, "big") + bytes(20))
    await until(lambda: subscriber.attached == 2 and subscriber.is_attached, "attached again")
    assert subscriber.told[1] == ("lost", errors.ReadError)
    assert len(peer.links) == 2
    await subscriber.attachment.close()


async def test_retriable_refusals_are_tried_again(peer: ScriptedPeer, client: Client) -> None:
    refuse_subscribe(peer, ServerError.SERVICE_NOT_READY, 3)
    subscriber = Subscriber(client)
    await subscriber.attachment.open()
    assert peer.count(events.Subscribe) == 4
    await subscriber.attachment.close()


async def test_refusals_that_are_not_retriable_are_raised_at_once(peer: ScriptedPeer, client: Client) -> None:
    refuse_subscribe(peer, ServerError.CONSUMER_BUSY, 1)
    subscriber = Subscriber(client)
    with pytest.raises(errors.ConsumerBusy, match="refused by the script"):
        await subscriber.attachment.open()
    assert peer.count(events.Subscribe) == 1


async def test_a_timeout_names_the_last_error(peer: ScriptedPeer) -> None:
    refuse_subscribe(peer, ServerError.SERVICE_NOT_READY, 1000)
    async with Client(peer.url, operation_timeout_seconds=0.2, initial_backoff_ms=5) as client:
        with pytest.raises(errors.Timeout, match="refused by the script"):
            await Subscriber(client).attachment.open()


async def test_an_attachment_survives_temporary_refusals(peer: ScriptedPeer, client: Client) -> None:
    subscriber = Subscriber(client)
    await subscriber.attachment.open()
    # The broker may not know yet that this client's own connection is dead.
    refuse_subscribe(peer, ServerError.CONSUMER_BUSY, 2)
    peer.link.drop()
    await until(lambda: subscriber.attached == 2, "attached again")
    assert subscriber.failure is None
    await subscriber.attachment.close()


async def test_a_permanent_refusal_ends_the_attachment(peer: ScriptedPeer, client: Client) -> None:
    subscriber = Subscriber(client)
    await subscriber.attachment.open()
    refuse_subscribe(peer, ServerError.TOPIC_NOT_FOUND, 1)
    peer.link.drop()
    await until(lambda: subscriber.failure, "the end")
    assert isinstance(subscriber.failure, errors.TopicNotFound)
    await subscriber.attachment.close()


async def test_a_connection_lost_while_the_answer_is_on_its_way_is_noticed(
    peer: ScriptedPeer, client: Client
) -> None:
    dropped: list[Link] = []

    def answer_and_drop(link: Link, event: events.Subscribe) -> None:
        link.engine.send_success(event.request_id)
        if not dropped:
            dropped.append(link)
            link.raw(commands.close_consumer(event.consumer_id, request_id=-1))

    peer.on(events.Subscribe, answer_and_drop)
    subscriber = Subscriber(client)
    await subscriber.attachment.open()
    assert subscriber.is_attached
    assert subscriber.attached == 2
    await subscriber.attachment.close()


async def test_a_loss_of_a_former_connection_changes_nothing(peer: ScriptedPeer, client: Client) -> None:
    subscriber = Subscriber(client)
    await subscriber.attachment.open()
    former = subscriber.attachment.connection
    assert former is not None
    peer.link.drop()
    await until(lambda: subscriber.attached == 2 and subscriber.is_attached, "attached again")
    subscriber.attachment.lost(former)
    assert subscriber.is_attached
    await subscriber.attachment.close()


async def test_closing_ends_attempts(peer: ScriptedPeer, client: Client) -> None:
    subscriber = Subscriber(client)
    await subscriber.attachment.open()
    await peer.stop()
    await until(lambda: not subscriber.is_attached, "the loss")
    await subscriber.attachment.close()
    await peer.listen()
    assert await client.partitions(TOPIC) == 0
    assert subscriber.attached == 1
    await subscriber.attachment.close()


async def test_closing_while_a_consumer_opens_raises_already_closed(
    peer: ScriptedPeer, client: Client
) -> None:
    peer.on(events.Subscribe, lambda link, event: None)
    subscriber = Subscriber(client)
    opening = asyncio.create_task(subscriber.attachment.open())
    await until(lambda: peer.count(events.Subscribe), "SUBSCRIBE")
    await subscriber.attachment.close()
    with pytest.raises(errors.AlreadyClosed):
        await opening


async def test_opening_may_be_cancelled(peer: ScriptedPeer, client: Client) -> None:
    peer.on(events.Subscribe, lambda link, event: None)
    subscriber = Subscriber(client)
    opening = asyncio.create_task(subscriber.attachment.open())
    (subscribe,) = await until(lambda: peer.of(events.Subscribe), "SUBSCRIBE")
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    peer.link.engine.send_success(subscribe.request_id)
    peer.link.flush()
    assert await client.partitions(TOPIC) == 0
    assert not subscriber.is_attached


async def test_a_queued_producer_waits_beyond_the_operation_timeout(peer: ScriptedPeer) -> None:
    def queue(link: Link, event: events.OpenProducer) -> None:
        link.engine.send_producer_success(event.request_id, name="p", ready=False)

    async def attach(connection: Connection) -> None:
        answer = await connection.request(
            lambda request_id: commands.producer(TOPIC, producer_id=1, request_id=request_id),
            timeout_s=0.2,
            on_queued=attachment.wait_without_limit,
        )
        assert isinstance(answer, replies.ProducerSuccess)

    peer.on(events.OpenProducer, queue)
    async with Client(peer.url, operation_timeout_seconds=0.2) as client:
        attachment = Attachment(client, TOPIC, attach, on_failed=lambda _error: None)
        opening = asyncio.create_task(attachment.open())
        (event,) = await until(lambda: peer.of(events.OpenProducer), "PRODUCER")
        await asyncio.wait((opening,), timeout=0.4)
        assert not opening.done()
        peer.link.engine.send_producer_success(event.request_id, name="p")
        peer.link.flush()
        await opening
        assert attachment.connection is not None
        await attachment.close()


async def test_reconnects_at_random_moments_leave_one_attachment(peer: ScriptedPeer) -> None:
    chance = random.Random(7)
    async with Client(peer.url, initial_backoff_ms=1, max_backoff_ms=4, connections_per_broker=2) as client:
        subscribers = [Subscriber(client) for _ in range(8)]
        await asyncio.gather(*(each.attachment.open() for each in subscribers))
        for _ in range(60):
            await asyncio.sleep(chance.random() * 0.01)
            if links := peer.open_links:
                chance.choice(links).drop()
        await until(lambda: all(each.is_attached for each in subscribers), "all attached")
        for each in subscribers:
            connection = each.attachment.connection
            assert connection is not None
            assert not connection.is_lost
            assert connection.consumers[each.consumer_id] is each
            assert each.failure is None
        assert len(client.pool.connections) <= 2
        await asyncio.gather(*(each.attachment.close() for each in subscribers))
    await until(lambda: not peer.open_links, "all closed")
