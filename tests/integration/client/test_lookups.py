"""Lookups, credentials and the end of a client, against a scripted peer."""

from __future__ import annotations

import asyncio
import gc
import warnings

import pytest

from broker.doors.binary.wire import answers, events
from tests.integration.client.sinks import Sink
from tests.support.scripted_peer import Link, ScriptedPeer, silent
from tests.support.waiting import until
from vela import errors
from vela.aio import Client
from vela.aio.connections.connection import Connection
from vela.authentication import Authentication, AuthenticationBasic, AuthenticationToken
from vela.wire.binary import commands, replies
from vela.wire.binary.enums import ServerError

TOPIC = "persistent://public/default/t"


async def test_the_client_refuses_more_lookups_than_it_allows(tcp_peer: ScriptedPeer) -> None:
    tcp_peer.on(events.Lookup, silent)
    async with Client(tcp_peer.url, concurrent_lookup_requests=2) as client:
        waiting = [asyncio.create_task(client.connection_for(TOPIC)) for _ in range(2)]
        await until(lambda: tcp_peer.count(events.Lookup) == 2, "two lookups")
        with pytest.raises(errors.TooManyLookupRequestException):
            await client.connection_for(TOPIC)
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)
        tcp_peer.forget_script(events.Lookup)
        await client.connection_for(TOPIC)


async def test_redirected_lookups_repeat_the_authoritative_flag(tcp_peer: ScriptedPeer) -> None:
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


async def test_a_client_without_tls_does_not_connect_to_a_tls_address(tcp_peer: ScriptedPeer) -> None:
    tcp_peer.on(
        events.Lookup,
        lambda link, event: link.engine.send_lookup(
            event.request_id, url="pulsar+ssl://b1:6651", proxy_through_service_url=False
        ),
    )
    async with Client(tcp_peer.url) as client:
        with pytest.raises(
            errors.LookupError, match=r"a plain address of the broker; it names pulsar\+ssl://b1:6651$"
        ):
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


async def test_lookups_that_go_in_a_circle_end(tcp_peer: ScriptedPeer) -> None:
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


async def test_requests_are_repeated_only_after_a_retriable_refusal(tcp_peer: ScriptedPeer) -> None:
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


class Remembered(Authentication):
    """Credentials that stay the same until the client hears that the broker does not accept them."""

    method = "token"

    def __init__(self) -> None:
        self.number = 1

    def data(self) -> bytes:
        return b"token %d" % self.number

    def refused(self, data: bytes) -> None:
        assert data == self.data()
        self.number += 1


async def test_credentials_that_the_broker_does_not_accept_are_not_sent_again(tcp_peer: ScriptedPeer) -> None:
    tcp_peer.on(
        events.Connect,
        lambda link, event: link.engine.refuse_connection(ServerError.AUTHENTICATION_ERROR, "revoked"),
    )
    async with Client(tcp_peer.url, Remembered()) as client:
        with pytest.raises(errors.AuthenticationError):
            await client.partitions(TOPIC)
        tcp_peer.forget_script(events.Connect)
        await client.partitions(TOPIC)
        tcp_peer.link.engine.send_auth_challenge("token", b"")
        tcp_peer.link.flush()
        await until(lambda: tcp_peer.count(events.AuthResponse), "AUTH_RESPONSE")
        tcp_peer.link.engine.refuse_connection(ServerError.AUTHENTICATION_ERROR, "revoked")
        tcp_peer.link.flush()
        await until(lambda: not tcp_peer.open_links, "no connection left")
        await client.partitions(TOPIC)
    sent = [each.auth_data for each in tcp_peer.of(events.Connect)]
    assert sent == [b"token 1", b"token 2", b"token 4"]
    assert [each.auth_data for each in tcp_peer.of(events.AuthResponse)] == [b"token 3"]


async def test_a_failure_to_get_credentials_has_its_own_error(tcp_peer: ScriptedPeer) -> None:
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


async def test_requests_without_waiting_are_sent_in_order_and_answered(peer: ScriptedPeer) -> None:
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


async def test_closing_does_not_wait_for_a_peer_that_stopped_reading(
    peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vela.aio.connections.connection._CLOSE_TIMEOUT_S", 0.1)
    async with Client(peer.url) as client:
        connection = await client.connection_for(TOPIC)
        peer.link.stop_reading()
        for sequence_id in range(30):
            connection.write(*commands.send(1, sequence_id, bytes(900_000)))
        async with asyncio.timeout(3):
            await connection.close()
    assert connection.is_lost


def test_a_client_whose_loop_is_closed_does_no_harm() -> None:
    async def use() -> tuple[Client, Connection, ScriptedPeer]:
        peer = ScriptedPeer()
        await peer.listen()
        client = Client(peer.url)
        connection = await client.connection_for(TOPIC)
        connection.consumers[1] = Sink()
        return client, connection, peer

    client, connection, _peer = asyncio.run(use())
    connection.write(commands.ping())
    with pytest.raises(errors.InvalidConfiguration, match="belongs to another event loop"):
        asyncio.run(client.close())
    with warnings.catch_warnings():  # asyncio warns about transports that nobody closed
        warnings.simplefilter("ignore", ResourceWarning)
        del client, connection, _peer
        gc.collect()
