"""Requests, losses and keep-alive of one connection, against a scripted peer."""

from __future__ import annotations

import asyncio
import time

import pytest

from broker.doors.binary.wire import answers, events
from tests.integration.client.sinks import Sink
from tests.support.scripted_peer import Link, ScriptedPeer, silent
from tests.support.waiting import until
from vela import errors
from vela.aio import Client
from vela.aio.connections.connection import Connection
from vela.errors import VelaError
from vela.wire.binary import commands, replies
from vela.wire.binary.enums import ServerError

TOPIC = "persistent://public/default/t"


async def ask(connection: Connection, timeout_s: float | None = 5.0) -> replies.Answer:
    return await connection.request(
        lambda request_id: commands.partition_metadata(TOPIC, request_id=request_id), timeout_s=timeout_s
    )


async def test_a_late_answer_of_a_cancelled_request_is_harmless(peer: ScriptedPeer) -> None:
    async with Client(peer.url) as client:
        connection = await client.connection_for(TOPIC)
        peer.on(events.PartitionMetadata, silent)
        request = asyncio.create_task(ask(connection))
        (event,) = await until(lambda: peer.of(events.PartitionMetadata), "the request")
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        assert not connection.is_used
        peer.link.engine.send_partition_metadata(event.request_id, 5)
        peer.forget_script(events.PartitionMetadata)
        assert await client.partitions(TOPIC) == 0


async def test_a_request_without_an_answer_times_out(tcp_peer: ScriptedPeer) -> None:
    tcp_peer.on(events.PartitionMetadata, silent)
    async with Client(tcp_peer.url) as client:
        connection = await client.connection_for(TOPIC)
        with pytest.raises(errors.Timeout):
            await ask(connection, timeout_s=0.05)
        assert not connection.is_used


async def test_a_queued_producer_waits_for_its_turn_beyond_the_timeout(tcp_peer: ScriptedPeer) -> None:
    def queue(link: Link, event: events.OpenProducer) -> None:
        link.engine.send_producer_success(event.request_id, name="p", ready=False)

    tcp_peer.on(events.OpenProducer, queue)
    async with Client(tcp_peer.url) as client:
        connection = await client.connection_for(TOPIC)
        request = asyncio.create_task(
            connection.request(
                lambda request_id: commands.producer(TOPIC, producer_id=1, request_id=request_id),
                timeout_s=0.2,
            )
        )
        (event,) = await until(lambda: tcp_peer.of(events.OpenProducer), "PRODUCER")
        await asyncio.wait((request,), timeout=0.4)
        assert not request.done()
        tcp_peer.link.engine.send_producer_success(event.request_id, name="p")
        tcp_peer.link.flush()
        answer = await request
        assert isinstance(answer, replies.ProducerSuccess)
        assert answer.ready


async def test_sinks_get_their_events_in_order(peer: ScriptedPeer) -> None:
    async with Client(peer.url) as client:
        connection = await client.connection_for(TOPIC)
        consumer, producer = Sink(), Sink()
        connection.consumers[1] = consumer
        connection.producers[2] = producer
        link = peer.link
        link.raw(answers.active_consumer_change(1, is_active=True))
        link.deliver(1, b"one", entry_id=1)
        link.deliver(9, b"nobody's", entry_id=2)
        link.deliver(1, b"three", entry_id=3)
        link.raw(answers.reached_end_of_topic(1) + commands.close_consumer(1, request_id=-1))
        link.deliver(1, b"late", entry_id=4)
        link.raw(answers.send_receipts(2, [(5, 0, 77, 6, 0)])[0])
        link.raw(answers.send_error(2, 6, ServerError.CHECKSUM_ERROR, "bad"))
        await until(lambda: len(producer.told) == 2, "both")
        link.drop()
        await until(lambda: len(producer.told) == 3, "the loss")
        assert consumer.told == [
            ("active", True),
            ("message", 1, b"one"),
            ("message", 3, b"three"),
            ("end",),
            ("closed",),
        ]
        assert producer.told[0] == ("receipt", 5, 6)
        assert producer.told[1] == ("send error", 6, ServerError.CHECKSUM_ERROR)
        assert producer.told[2][0] == "lost"


async def test_a_lost_connection_fails_waiting_requests_and_the_next_call_reconnects(
    peer: ScriptedPeer,
) -> None:
    async with Client(peer.url) as client:
        connection = await client.connection_for(TOPIC)
        peer.on(events.PartitionMetadata, silent)
        request = asyncio.create_task(ask(connection))
        await until(lambda: peer.count(events.PartitionMetadata), "the request")
        peer.link.drop()
        with pytest.raises(errors.ReadError):
            await request
        assert connection.is_lost
        connection.write(commands.ping())
        with pytest.raises(errors.ReadError):
            await ask(connection)
        peer.forget_script(events.PartitionMetadata)
        assert await client.partitions(TOPIC) == 0
        assert len(peer.links) == 2


async def test_an_error_in_a_sink_ends_the_connection_and_reaches_the_other_sinks(
    tcp_peer: ScriptedPeer, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Sink):
        def on_message(self, connection: Connection, reply: replies.Message) -> None:
            raise RuntimeError("a fault")

        def on_connection_lost(self, connection: Connection, error: VelaError) -> None:
            raise RuntimeError("another")

    async with Client(tcp_peer.url) as client:
        connection = await client.connection_for(TOPIC)
        other = Sink()
        connection.consumers.update({1: Broken(), 2: other})
        tcp_peer.link.deliver(1, b"x", entry_id=1)
        await until(lambda: other.told, "the loss")
        assert other.told == [("lost", errors.ReadError)]
        assert "a fault" in caplog.text


async def test_data_written_in_one_turn_is_sent_in_one_piece(
    tcp_peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Client(tcp_peer.url) as client:
        connection = await client.connection_for(TOPIC)
        written: list[bytes] = []
        transport = connection._transport
        assert transport is not None
        write = transport.write

        def recorded(data: bytes) -> None:
            written.append(data)
            write(data)

        monkeypatch.setattr(transport, "write", recorded)
        for sequence_id in range(10):
            connection.write(*commands.send(1, sequence_id, b"entry"))
        connection.write(commands.flow(1, 5))
        await until(lambda: tcp_peer.count(events.Flow), "all of it")
        assert len(written) == 1
        assert [each.sequence_id for each in tcp_peer.of(events.Send)] == list(range(10))


@pytest.mark.row("S0.2")
async def test_frames_may_be_cut_into_pieces_and_messages_anywhere(peer: ScriptedPeer) -> None:
    async with Client(peer.url) as client:
        connection = await client.connection_for(TOPIC)
        connection.consumers[1] = sink = Sink()
        stream = b"".join(
            answers.message_head(1, 77, number, -1, 0, None, len(b"entry %d" % number)) + b"entry %d" % number
            for number in range(20)
        )
        for start in range(0, len(stream), 7):
            piece = stream[start : start + 7]
            peer.link.fragments(piece[:2], piece[2:3], piece[3:])
        await until(lambda: len(sink.told) == 20, "all messages")
        assert sink.told == [("message", number, b"entry %d" % number) for number in range(20)]


async def test_pings_are_answered(peer: ScriptedPeer) -> None:
    async with Client(peer.url) as client:
        await client.partitions(TOPIC)
        peer.link.raw(commands.ping())
        await until(lambda: peer.count(events.Pong), "PONG")


async def test_keep_alive_pings_and_gives_up_a_silent_connection(tcp_peer: ScriptedPeer) -> None:
    async with Client(tcp_peer.url, keep_alive_interval_seconds=0.1) as client:
        connection = await client.connection_for(TOPIC)
        await until(lambda: tcp_peer.count(events.Ping) >= 3, "pings")
        assert not connection.is_lost
        tcp_peer.on(events.Ping, silent)
        await until(lambda: connection.is_lost, "the loss")


async def test_an_application_that_keeps_the_loop_busy_keeps_its_connection(tcp_peer: ScriptedPeer) -> None:
    async with Client(tcp_peer.url, keep_alive_interval_seconds=0.1) as client:
        connection = await client.connection_for(TOPIC)
        for _ in range(2):
            pings = tcp_peer.count(events.Ping)
            time.sleep(0.5)  # noqa: ASYNC251 - this is what it is about
            await until(lambda: tcp_peer.count(events.Ping) >= pings + 2, "pings")  # noqa: B023 - awaited here
            assert not connection.is_lost
        tcp_peer.on(events.Ping, silent)
        await until(lambda: connection.is_lost, "the loss")


async def test_idle_connections_are_closed_and_used_ones_are_not(tcp_peer: ScriptedPeer) -> None:
    async with Client(tcp_peer.url, connection_max_idle_seconds=0.1) as client:
        connection = await client.connection_for(TOPIC)
        connection.consumers[1] = Sink()
        await asyncio.sleep(0.3)
        assert not connection.is_lost
        connection.consumers.clear()
        await until(lambda: connection.is_lost, "closed")
        await until(lambda: not tcp_peer.open_links, "closed in order")
