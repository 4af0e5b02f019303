"""Pool, requests, loss and keep-alive against a peer that does as it is told."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
import tracemalloc
import warnings
from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker.doors.binary.wire import answers, events
from tests.integration.client.sinks import Sink
from tests.support.scripted_peer import Link, ScriptedPeer, silent
from tests.support.waiting import until
from vela import errors
from vela.aio import Client
from vela.aio.connections.connection import Connection
from vela.authentication import AuthenticationBasic, AuthenticationToken
from vela.errors import VelaError
from vela.wire.binary import commands, replies
from vela.wire.binary.enums import ServerError

TOPIC = "persistent://public/default/t"


@pytest.fixture(params=[False, True], ids=["tcp", "websocket"])
async def peer(request: pytest.FixtureRequest) -> AsyncIterator[ScriptedPeer]:
    async with ScriptedPeer.started(websocket=request.param) as started:
        yield started


@pytest.fixture
async def tcp_peer() -> AsyncIterator[ScriptedPeer]:
    async with ScriptedPeer.started() as started:
        yield started


async def ask(connection: Connection, timeout_s: float | None = 5.0) -> replies.Answer:
    return await connection.request(
        lambda request_id: commands.partition_metadata(TOPIC, request_id=request_id), timeout_s=timeout_s
    )


@pytest.mark.row("S0.1")
async def test_fifty_look_ups_share_one_connection_and_one_attempt(peer: ScriptedPeer) -> None:
    async with Client(peer.url) as client:
        await asyncio.gather(*(client.partitions(TOPIC) for _ in range(50)))
        assert (peer.count(events.Connect), peer.count(events.PartitionMetadata)) == (1, 50)


@pytest.mark.row("S0.1")
async def test_as_many_connections_as_allowed_are_used(tcp_peer: ScriptedPeer) -> None:
    async with Client(tcp_peer.url, connections_per_broker=3) as client:
        await asyncio.gather(*(client.partitions(TOPIC) for _ in range(100)))
        assert len(tcp_peer.links) == 3


@pytest.mark.row("S0.1")
async def test_without_pooling_each_has_its_own_and_look_ups_leave_none(tcp_peer: ScriptedPeer) -> None:
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


async def test_a_connection_that_breaks_as_it_is_made_is_not_remembered(peer: ScriptedPeer) -> None:
    def admit_and_babble(link: Link, _event: events.Connect) -> None:
        link.engine.send_connected()
        link.raw(b"".join(link.engine.data_to_send()) + bytes(100))  # in one piece

    peer.on(events.Connect, admit_and_babble)
    async with Client(peer.url) as client:
        with pytest.raises(errors.ReadError, match="broke the protocol"):
            await client.connection_for(TOPIC)
        assert not client.pool.connections
        peer.forget_script(events.Connect)
        assert await client.partitions(TOPIC) == 0


async def test_a_caller_that_gives_up_does_not_disturb_who_waits_for_the_same_attempt(
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


async def test_nobody_listening_is_a_connect_error_tried_again_until_the_timeout() -> None:
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
    with socket.socket() as hole:  # its queue is full: further connections are not even refused
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
async def test_a_broker_that_does_not_answer_the_handshake_is_one_too(peer: ScriptedPeer) -> None:
    peer.on(events.Connect, silent)
    await took_as_long_as_it_may(peer.url)
    await until(lambda: not peer.open_links, "nothing left open")


async def took_as_long_as_it_may(url: str) -> None:
    """A connection to `url` fails after connection_timeout_ms, not before and not much later."""
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


@pytest.mark.row("S0.5")
async def test_bytes_of_payloads_are_given_back_whatever_becomes_of_them(peer: ScriptedPeer) -> None:
    class Picky(Sink):
        """Takes one in two and remembers none."""

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
                    peer.link.deliver(
                        1 + entry_id % 3 // 2, payload, entry_id=entry_id
                    )  # one in three to nobody
                peer.link.flush()
                await client.partitions(TOPIC)  # behind all of them
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


async def test_hosts_are_changed_once_for_all_who_fail_together(tcp_peer: ScriptedPeer) -> None:
    async with Client(f"pulsar://127.0.0.1:1,127.0.0.1:{tcp_peer.port}") as client:
        client._lookups._at = 0
        assert await asyncio.gather(*(client.partitions(TOPIC) for _ in range(10))) == [0] * 10
        assert client._lookups._at == 1


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


async def test_sinks_are_told_in_order_what_concerns_them(peer: ScriptedPeer) -> None:
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
        link.raw(answers.send_receipt(2, 5, ledger_id=77, entry_id=6))
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


async def test_a_loss_fails_what_waits_and_the_next_call_connects_again(peer: ScriptedPeer) -> None:
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
        await connection.until_writable()
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


async def test_what_is_written_in_one_turn_leaves_in_one_piece(
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


async def test_a_connection_is_not_writable_while_much_is_unsent(tcp_peer: ScriptedPeer) -> None:
    async with Client(tcp_peer.url) as client:
        connection = await client.connection_for(TOPIC)
        assert connection.writable
        written = [connection.writable]
        connection.write(*commands.send(1, 1, bytes(900_000)), *commands.send(1, 2, bytes(900_000)))
        written.append(connection.writable)
        await connection.until_writable()
        written.append(connection.writable)
        assert written == [True, False, True]
        await until(lambda: tcp_peer.count(events.Send) == 2, "both")


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


async def test_keep_alive_pings_and_gives_a_silent_connection_up(tcp_peer: ScriptedPeer) -> None:
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


async def test_more_look_ups_than_allowed_are_refused_here(tcp_peer: ScriptedPeer) -> None:
    tcp_peer.on(events.Lookup, silent)
    async with Client(tcp_peer.url, concurrent_lookup_requests=2) as client:
        waiting = [asyncio.create_task(client.connection_for(TOPIC)) for _ in range(2)]
        await until(lambda: tcp_peer.count(events.Lookup) == 2, "two look-ups")
        with pytest.raises(errors.TooManyLookupRequestException):
            await client.connection_for(TOPIC)
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)
        tcp_peer.forget_script(events.Lookup)
        await client.connection_for(TOPIC)


async def test_redirected_look_ups_are_followed_with_the_flag_repeated(tcp_peer: ScriptedPeer) -> None:
    async with ScriptedPeer.started() as other:

        def redirect(link: Link, event: events.Lookup) -> None:
            link.raw(
                answers.lookup_response(
                    event.request_id, url=other.url, proxy_through_service_url=False, redirect=True
                )
            )

        tcp_peer.on(events.Lookup, redirect)
        async with Client(tcp_peer.url) as client:
            connection = await client.connection_for(TOPIC)
            assert connection.name == other.url
            assert [each.authoritative for each in other.of(events.Lookup)] == [True]


async def test_an_encrypted_broker_is_not_spoken_to_in_clear(tcp_peer: ScriptedPeer) -> None:
    tcp_peer.on(
        events.Lookup,
        lambda link, event: link.engine.send_lookup(
            event.request_id, url="pulsar+ssl://b1:6651", proxy_through_service_url=False
        ),
    )
    async with Client(tcp_peer.url) as client:
        with pytest.raises(errors.LookupError, match="does not name a plain address"):
            await client.connection_for(TOPIC)


async def test_redirections_behind_a_proxy_name_the_next_broker(tcp_peer: ScriptedPeer) -> None:
    def redirect(link: Link, event: events.Lookup) -> None:
        at_the_start = not event.authoritative
        link.raw(
            answers.lookup_response(
                event.request_id,
                url="pulsar://b1:6650" if at_the_start else "pulsar://b2:6650",
                proxy_through_service_url=True,
                redirect=at_the_start,
            )
        )

    tcp_peer.on(events.Lookup, redirect)
    async with Client(tcp_peer.url) as client:
        await client.connection_for(TOPIC)
    assert [each.proxy_to_broker_url for each in tcp_peer.of(events.Connect)] == [None, "b1:6650", "b2:6650"]


async def test_look_ups_that_go_in_a_circle_end(tcp_peer: ScriptedPeer) -> None:
    def redirect(link: Link, event: events.Lookup) -> None:
        link.raw(
            answers.lookup_response(
                event.request_id, url=tcp_peer.url, proxy_through_service_url=False, redirect=True
            )
        )

    tcp_peer.on(events.Lookup, redirect)
    async with Client(tcp_peer.url) as client:
        with pytest.raises(errors.LookupError, match="circle"):
            await client.connection_for(TOPIC)
    assert tcp_peer.count(events.Lookup) == 21


async def test_behind_a_proxy_the_broker_is_named_in_connect(tcp_peer: ScriptedPeer) -> None:
    tcp_peer.on(
        events.Lookup, lambda link, event: link.engine.send_lookup(event.request_id, url="pulsar://b1:6650")
    )
    async with Client(tcp_peer.url) as client:
        await client.connection_for(TOPIC)
    assert [each.proxy_to_broker_url for each in tcp_peer.of(events.Connect)] == [None, "b1:6650"]


async def test_retriable_refusals_are_asked_again_and_others_raised(tcp_peer: ScriptedPeer) -> None:
    refusals = [ServerError.SERVICE_NOT_READY, ServerError.METADATA_ERROR]

    def refuse(link: Link, event: events.PartitionMetadata) -> None:
        if refusals:
            link.engine.send_partition_metadata_failed(event.request_id, refusals.pop(0), "not yet")
        else:
            link.engine.send_partition_metadata(event.request_id, 4)

    tcp_peer.on(events.PartitionMetadata, refuse)
    async with Client(tcp_peer.url, initial_backoff_ms=5) as client:
        assert await client.get_topic_partitions("t") == [f"{TOPIC}-partition-{index}" for index in range(4)]
        refusals.append(ServerError.AUTHORIZATION_ERROR)
        with pytest.raises(errors.AuthorizationError):
            await client.partitions(TOPIC)


async def test_tokens_are_asked_for_at_each_connection_and_challenge(peer: ScriptedPeer) -> None:
    tokens = iter(["one", "two", "three", "four"])

    async def later() -> str:
        return next(tokens)

    async with Client(peer.url, AuthenticationToken(later)) as client:
        await client.partitions(TOPIC)
        assert (peer.of(events.Connect)[0].auth_method, peer.of(events.Connect)[0].auth_data) == (
            "token",
            b"one",
        )
        peer.link.engine.send_auth_challenge("token", b"")
        peer.link.flush()
        await until(lambda: peer.count(events.AuthResponse), "AUTH_RESPONSE")
        assert peer.of(events.AuthResponse) == [events.AuthResponse(auth_method="token", auth_data=b"two")]


async def test_challenges_are_answered_before_the_client_is_admitted(tcp_peer: ScriptedPeer) -> None:
    tcp_peer.on(events.Connect, lambda link, event: link.engine.send_auth_challenge("basic", b"?"))
    tcp_peer.on(events.AuthResponse, lambda link, event: link.engine.send_connected())
    async with Client(tcp_peer.url, AuthenticationBasic("user", "secret")) as client:
        assert await client.partitions(TOPIC) == 0
    assert tcp_peer.of(events.AuthResponse) == [
        events.AuthResponse(auth_method="basic", auth_data=b"user:secret")
    ]


async def test_credentials_that_cannot_be_had_are_an_error_of_their_own(tcp_peer: ScriptedPeer) -> None:
    def broken() -> str:
        raise OSError("no such file")

    async with Client(tcp_peer.url, AuthenticationToken(broken)) as client:
        with pytest.raises(errors.ErrorGettingAuthenticationData, match="no such file"):
            await client.partitions(TOPIC)
    assert not tcp_peer.links


async def test_a_client_keeps_to_its_event_loop(tcp_peer: ScriptedPeer) -> None:
    async with Client(tcp_peer.url) as client:
        await client.partitions(TOPIC)
        with pytest.raises(errors.InvalidConfiguration, match="event loop"):
            await asyncio.to_thread(asyncio.run, client.partitions(TOPIC))


async def test_closing_the_client_ends_an_attempt_to_connect(tcp_peer: ScriptedPeer) -> None:
    tcp_peer.on(events.Connect, silent)
    client = Client(tcp_peer.url)
    waiting = asyncio.create_task(client.partitions(TOPIC))
    await until(lambda: tcp_peer.count(events.Connect), "CONNECT")
    await client.close()
    with pytest.raises(errors.AlreadyClosed):
        await waiting
    await until(lambda: not tcp_peer.open_links, "no connection left")


async def test_what_is_asked_without_waiting_is_sent_in_order_and_answered(peer: ScriptedPeer) -> None:
    async with Client(peer.url) as client:
        connection = await client.connection_for(TOPIC)
        asked = connection.ask(
            lambda number: commands.ack(1, [(1, 2, None)], request_id=number), timeout_s=5.0
        )
        connection.write(commands.flow(1, 1))
        assert isinstance(await asked, replies.AckResponse)
        kinds = [type(event) for event in peer.link.heard]
        assert kinds.index(events.Ack) < kinds.index(events.Flow)
        peer.on(events.Ack, silent)
        late = connection.ask(lambda number: commands.ack(1, [], request_id=number), timeout_s=0.01)
        with pytest.raises(errors.Timeout):
            await late
        unanswered = connection.ask(lambda number: commands.ack(1, [], request_id=number), timeout_s=None)
        peer.link.drop()
        with pytest.raises(errors.ReadError):
            await unanswered
        assert connection.is_lost
        with pytest.raises(errors.ReadError):
            await connection.ask(commands_that_must_not_be_built, timeout_s=None)


def commands_that_must_not_be_built(_request_id: int) -> bytes:
    raise AssertionError("nothing is asked of a connection that is lost")


async def test_closing_does_not_wait_for_a_peer_that_reads_nothing_more(
    peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vela.aio.connections.connection._CLOSE_TIMEOUT_S", 0.1)
    async with Client(peer.url) as client:
        connection = await client.connection_for(TOPIC)
        peer.link.stop_reading()
        for sequence_id in range(30):
            connection.write(*commands.send(1, sequence_id, bytes(900_000)))
        await until(lambda: not connection.writable, "full buffers")
        waiting = asyncio.create_task(connection.until_writable())
        async with asyncio.timeout(3):
            await connection.close()
            await waiting
    assert connection.is_lost


def test_a_client_whose_loop_is_gone_harms_nobody() -> None:
    async def use() -> tuple[Client, Connection, ScriptedPeer]:
        peer = ScriptedPeer()
        await peer.listen()
        client = Client(peer.url)
        connection = await client.connection_for(TOPIC)
        connection.consumers[1] = Sink()
        return client, connection, peer

    client, connection, _peer = asyncio.run(use())
    connection.write(commands.ping())
    with pytest.raises(errors.InvalidConfiguration, match="made on another event loop"):
        asyncio.run(client.close())
    with warnings.catch_warnings():  # asyncio's own: transports that nobody closed
        warnings.simplefilter("ignore", ResourceWarning)
        del client, connection, _peer
        gc.collect()
