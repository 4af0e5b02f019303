"""vela.Client's consumer against a scripted broker, when it has taken messages before the application wants them."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

import vela
from broker.doors.binary.wire import events
from tests.integration.client.consumer.desk import TOPIC, Desk
from tests.support.scripted_peer import Link, ScriptedPeer
from tests.support.waiting import until
from vela.aio.client import Client
from vela.blocking.waiting import Waiter


def call(function: Any, *args: Any, **options: Any) -> Any:
    """Call a blocking function of the client in a thread."""
    return asyncio.wait_for(asyncio.to_thread(function, *args, **options), 10)


class InterruptedWaiter(Waiter[Any]):
    """A waiter that raises KeyboardInterrupt as soon as there is a message."""

    def wait(self) -> Any:
        super().wait()
        self.abandon()
        raise KeyboardInterrupt


async def test_an_interrupted_receive_changes_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = [b"%d" % number for number in range(10)]
    async with ScriptedPeer.started() as peer:
        desk = Desk(peer, cast(Client, None))
        client = await asyncio.to_thread(vela.Client, peer.url)
        consumer = await call(client.subscribe, TOPIC, "billing")
        await desk.settled(1000)
        desk.deliver_each(*sent)
        await until(lambda: consumer.statistics().messages_waiting == 10, "the messages")

        def interrupted() -> None:
            with pytest.raises(KeyboardInterrupt):
                consumer.receive()

        with monkeypatch.context() as patched:
            patched.setattr("vela.blocking.consumer.Waiter", InterruptedWaiter)
            await call(interrupted)
        assert [(await call(consumer.receive)).data() for _ in sent] == sent
        await call(client.close)


async def test_after_a_redelivery_of_everything_the_first_message_comes_first() -> None:
    sent = [b"%d" % number for number in range(10)]
    async with ScriptedPeer.started() as peer:
        desk = Desk(peer, cast(Client, None))
        client = await asyncio.to_thread(vela.Client, peer.url)
        consumer = await call(client.subscribe, TOPIC, "billing", negative_ack_redelivery_delay_ms=100)
        await desk.settled(1000)
        desk.deliver_each(*sent)
        await until(lambda: consumer.statistics().messages_waiting == 10, "the messages")
        first = await call(consumer.receive)
        await call(consumer.negative_acknowledge, first)
        await until(lambda: peer.count(events.Redeliver) == 1, "the request for everything")
        desk.next_entry = 0
        desk.deliver_each(*sent)
        received = [(await call(consumer.receive)).data() for _ in sent]
        assert received == sent
        await call(client.close)


async def test_the_message_of_an_interrupted_read_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedPeer.started() as peer:
        desk = Desk(peer, cast(Client, None))
        client = await asyncio.to_thread(vela.Client, peer.url)
        reader = await call(client.create_reader, TOPIC, vela.MessageId.earliest)
        await desk.settled(1000)
        desk.deliver_each(b"last")

        def interrupted() -> None:
            with pytest.raises(KeyboardInterrupt):
                reader.read_next()

        with monkeypatch.context() as patched:
            patched.setattr("vela.blocking.loop_thread.Waiter", InterruptedWaiter)
            await call(interrupted)
        assert await call(reader.has_message_available)
        assert (await call(reader.read_next)).data() == b"last"
        await call(client.close)


async def test_messages_taken_ahead_on_another_thread_after_a_seek_stay() -> None:
    async with ScriptedPeer.started() as peer:
        desk = Desk(peer, cast(Client, None))

        def moved(link: Link, event: events.Seek) -> None:
            link.engine.send_close_consumer(event.consumer_id)
            link.engine.send_success(event.request_id)

        def flowed(link: Link, event: events.Flow) -> None:
            if peer.count(events.Subscribe) == 2 and not desk.next_entry:
                desk.deliver_each(b"0", b"1", b"2")

        peer.on(events.Seek, moved)
        peer.on(events.Flow, flowed)
        client = await asyncio.to_thread(vela.Client, peer.url, initial_backoff_ms=5)
        consumer = await call(client.subscribe, TOPIC, "billing")
        seek = consumer.aio.seek
        others: Waiter[Any] = Waiter()

        async def seek_while_another_thread_receives(target: Any) -> None:
            await seek(target)
            await until(lambda: len(consumer.aio.queue) == 3, "the messages after the seek")
            consumer._begin(others, None, [])

        consumer.aio.seek = seek_while_another_thread_receives
        await call(consumer.seek, vela.MessageId.earliest)
        assert others.wait().data() == b"0"
        assert [(await call(consumer.receive, 5_000)).data() for _ in range(2)] == [b"1", b"2"]
        await call(client.close)
