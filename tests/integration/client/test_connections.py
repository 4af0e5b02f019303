"""The client's pool of connections, and how connections are made, against a scripted peer."""

from __future__ import annotations

import asyncio
import gc
import socket
import tracemalloc
from typing import Any

import pytest

from broker.doors.binary.wire import events
from tests.integration.client.sinks import Sink
from tests.support.scripted_peer import Link, ScriptedPeer, silent
from tests.support.waiting import until
from vela import errors
from vela.aio import Client
from vela.aio.connections.connection import Connection
from vela.wire.binary import commands, replies
from vela.wire.binary.enums import ServerError

TOPIC = "persistent://public/default/t"


@pytest.mark.row("S0.1")
async def test_fifty_lookups_share_one_connection_and_one_attempt(peer: ScriptedPeer) -> None:
    async with Client(peer.url) as client:
        await asyncio.gather(*(client.partitions(TOPIC) for _ in range(50)))
        assert (peer.count(events.Connect), peer.count(events.PartitionMetadata)) == (1, 50)


@pytest.mark.row("S0.1")
async def test_all_allowed_connections_are_used(tcp_peer: ScriptedPeer) -> None:
    async with Client(tcp_peer.url, connections_per_broker=3) as client:
        await asyncio.gather(*(client.partitions(TOPIC) for _ in range(100)))
        assert len(tcp_peer.links) == 3


@pytest.mark.row("S0.1")
async def test_without_pooling_each_producer_and_consumer_has_a_connection_and_lookups_leave_none(
    tcp_peer: ScriptedPeer,
) -> None:
    async with Client(tcp_peer.url, connections_per_broker=0) as client:
        first = await client.connection_for(TOPIC)
        second = await client.connection_for(TOPIC)
        assert first is not second
        first.consumers[1] = Sink()
        client.release(first)
        client.release(second)
        await until(lambda: len(tcp_peer.open_links) == 1, "only the used one stays")
        assert not first.is_lost


@pytest.mark.row("S0.1")
async def test_an_attempt_that_failed_is_not_remembered(tcp_peer: ScriptedPeer) -> None:
    def refuse(link: Link, _event: events.Connect) -> None:
        link.engine.refuse_connection(ServerError.NOT_ALLOWED_ERROR, "too many")

    tcp_peer.on(events.Connect, refuse)
    async with Client(tcp_peer.url) as client:
        outcomes = await asyncio.gather(*(client.partitions(TOPIC) for _ in range(5)), return_exceptions=True)
        assert {type(each) for each in outcomes} == {errors.NotAllowedError}
        assert len(tcp_peer.links) == 1
        tcp_peer.forget_script(events.Connect)
        assert await client.partitions(TOPIC) == 0


async def test_a_connection_that_breaks_while_opening_is_not_reused(peer: ScriptedPeer) -> None:
    def admit_and_babble(link: Link, _event: events.Connect) -> None:
        link.engine.send_connected()
        link.raw(b"".join(link.engine.data_to_send()) + bytes(100))  # CONNECTED and garbage, in one piece

    peer.on(events.Connect, admit_and_babble)
    async with Client(peer.url) as client:
        with pytest.raises(errors.ReadError, match="broke the protocol"):
            await client.connection_for(TOPIC)
        assert not client.pool.connections
        peer.forget_script(events.Connect)
        assert await client.partitions(TOPIC) == 0


async def test_a_caller_that_gives_up_does_not_disturb_others_that_wait_for_the_same_attempt(
    tcp_peer: ScriptedPeer,
) -> None:
    tcp_peer.on(events.Connect, silent)
    async with Client(tcp_peer.url) as client:
        impatient = asyncio.create_task(client.partitions(TOPIC))
        patient = asyncio.create_task(client.partitions(TOPIC))
        await until(lambda: tcp_peer.count(events.Connect), "CONNECT")
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        tcp_peer.link.engine.send_connected()
        tcp_peer.link.flush()
        assert await patient == 0
        assert len(tcp_peer.links) == 1


async def test_a_refused_client_learns_why_at_once(peer: ScriptedPeer) -> None:
    def refuse(link: Link, _event: events.Connect) -> None:
        link.engine.refuse_connection(ServerError.AUTHENTICATION_ERROR, "who are you?")

    peer.on(events.Connect, refuse)
    async with Client(peer.url) as client:
        with pytest.raises(errors.AuthenticationError, match="who are you"):
            await client.partitions(TOPIC)


async def test_a_closed_port_is_a_connect_error_that_is_retried_until_the_timeout() -> None:
    async with Client("pulsar://127.0.0.1:1", operation_timeout_seconds=0.4) as client:
        with pytest.raises(errors.ConnectError, match=r"127\.0\.0\.1:1"):
            await client.connection_for(TOPIC)
        with pytest.raises(errors.Timeout, match=r"given up after 0\.4 s.*127\.0\.0\.1:1"):
            await client.partitions(TOPIC)


@pytest.mark.row("S0.3")
def test_connecting_takes_ten_seconds_at_most_unless_told_otherwise() -> None:
    settings = Client("pulsar://h").settings
    assert settings.connection_timeout_s == 10
    assert (settings.initial_backoff_ms, settings.max_backoff_ms) == (100, 60_000)


@pytest.mark.row("S0.3")
async def test_a_black_hole_is_an_error_when_the_time_is_up() -> None:
    with socket.socket() as hole:  # when its queue is full, further connections get no answer
        hole.bind(("127.0.0.1", 0))
        hole.listen(0)
        port = hole.getsockname()[1]
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        await took_as_long_as_it_may(f"pulsar://127.0.0.1:{port}")
        for filler in fillers:
            filler.close()


@pytest.mark.row("S0.3")
async def test_a_broker_that_does_not_answer_the_handshake_is_an_error_when_the_time_is_up(
    peer: ScriptedPeer,
) -> None:
    peer.on(events.Connect, silent)
    await took_as_long_as_it_may(peer.url)
    await until(lambda: not peer.open_links, "nothing left open")


async def took_as_long_as_it_may(url: str) -> None:
    """Check that a connection to `url` fails after connection_timeout_ms, not before and not much later."""
    async with Client(url, connection_timeout_ms=300) as client:
        loop = asyncio.get_running_loop()
        started = loop.time()
        with pytest.raises(errors.ConnectError, match=r"within 0\.3 s"):
            await client.connection_for(TOPIC)
        assert 0.27 <= loop.time() - started < 3


@pytest.mark.row("S0.4")
@pytest.mark.parametrize("switch", [True, False])
async def test_tcp_no_delay_reaches_the_socket(peer: ScriptedPeer, switch: bool) -> None:
    async with Client(peer.url, tcp_no_delay=switch) as client:
        connection = await client.connection_for(TOPIC)
        transport: Any = connection._transport
        option = transport._transport.get_extra_info("socket").getsockopt(
            socket.IPPROTO_TCP, socket.TCP_NODELAY
        )
        assert bool(option) is switch


@pytest.mark.row("S0.2")
async def test_an_entry_of_any_size_that_a_broker_may_allow_arrives_over_websocket() -> None:
    async with ScriptedPeer.started(websocket=True) as peer:
        peer.max_message_bytes = 256 << 20  # the most that VELA_MAX_MESSAGE_BYTES takes
        async with Client(peer.url) as client:
            connection = await client.connection_for(TOPIC)
            connection.consumers[1] = sink = Sink()
            peer.link.deliver(1, bytes(65 << 20), entry_id=0)
            await until(lambda: sink.told, "the entry")
            assert sink.told[0][:2] == ("message", 0)
            assert len(sink.told[0][2]) == 65 << 20


@pytest.mark.row("S0.2")
async def test_what_is_written_together_is_split_into_messages_that_the_broker_accepts(
    peer: ScriptedPeer,
) -> None:
    peer.max_message_bytes = 1024
    async with Client(peer.url) as client:
        connection = await client.connection_for(TOPIC)
        for _ in range(10_000):
            connection.write(commands.ping())
        await client.partitions(TOPIC)
        assert peer.count(events.Ping) == 10_000
        assert len(peer.links) == 1


@pytest.mark.row("S0.5")
async def test_bytes_of_payloads_are_always_released(peer: ScriptedPeer) -> None:
    class Picky(Sink):
        """A sink that accepts every second message and keeps none."""

        taken = 0

        def on_message(self, connection: Connection, reply: replies.Message) -> None:
            self.taken += reply.entry_id % 2

    peer.max_message_bytes = 1 << 20
    async with Client(peer.url) as client:
        connection = await client.connection_for(TOPIC)
        connection.consumers[1] = sink = Picky()
        payload = bytes(100_000)
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for number in range(0, 500, 5):
                for entry_id in range(number, number + 5):
                    # One message in three is for a consumer that does not exist.
                    peer.link.deliver(1 + entry_id % 3 // 2, payload, entry_id=entry_id)
                peer.link.flush()
                await client.partitions(TOPIC)  # the answer comes after all messages
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert sink.taken > 100
        assert after - before < 20 * len(payload)


async def test_a_second_host_is_asked_when_the_first_does_not_answer(tcp_peer: ScriptedPeer) -> None:
    url = f"pulsar://127.0.0.1:1,127.0.0.1:{tcp_peer.port},127.0.0.1:2"
    async with Client(url) as client:
        for _ in range(5):
            assert await client.partitions(TOPIC) == 0
    assert len(tcp_peer.links) == 1


async def test_a_host_that_is_not_ready_is_not_asked_again_while_there_are_others(
    tcp_peer: ScriptedPeer,
) -> None:
    async with ScriptedPeer.started() as other:
        for each in (tcp_peer, other):
            each.on(
                events.Lookup,
                lambda link, event: link.engine.send_lookup_failed(
                    event.request_id, ServerError.SERVICE_NOT_READY, "starting"
                ),
            )
        url = f"pulsar://127.0.0.1:{tcp_peer.port},127.0.0.1:{other.port}"
        async with Client(url) as client:
            for _ in range(4):
                with pytest.raises(errors.ServiceUnitNotReady):
                    await client.connection_for(TOPIC)
        assert (tcp_peer.count(events.Lookup), other.count(events.Lookup)) == (2, 2)


async def test_callers_that_fail_together_move_to_the_next_host_once(tcp_peer: ScriptedPeer) -> None:
    async with Client(f"pulsar://127.0.0.1:1,127.0.0.1:{tcp_peer.port}") as client:
        client._lookups._at = 0
        assert await asyncio.gather(*(client.partitions(TOPIC) for _ in range(10))) == [0] * 10
        assert client._lookups._at == 1
