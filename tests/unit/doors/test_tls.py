"""TLS on the broker's ports: Apache's client, WebSockets and HTTPS against the real listeners, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import http.client
import json
import logging
import os
import shutil
import socket
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pulsar
import pytest
import websockets

from broker.conf import BrokerSettings
from broker.doors.asgi import Receive, Scope, Send, certificate_of, respond
from broker.doors.binary.tcp import TcpListener
from broker.listening.connection_limits import ConnectionLimits
from broker.listening.tls_certificates import CertificateUnusable, TlsCertificates, client_certificate
from broker.listening.tls_listener import TlsListener
from tests.support.certificates import Authority, KeyPair
from tests.support.waiting import until, wait_until
from tests.unit.doors.daphne_thread import DaphneThread
from tests.unit.doors.fake_broker import FakeBroker
from vela import errors
from vela.aio import Client
from vela.errors import VelaError
from vela.options import InitialPosition
from vela.wire.binary import commands


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"), "Stranger")


@pytest.fixture(scope="module")
def client_pair(authority: Authority) -> KeyPair:
    return authority.issue("billing")


@pytest.fixture
def environment(authority: Authority, tmp_path: Path) -> dict[str, str]:
    """Settings that name copies of the certificate files, which the test may replace."""
    pair = authority.issue("vela", "localhost", "127.0.0.1")
    names = {"VELA_TLS_CERTIFICATE_FILE": pair.certificate, "VELA_TLS_KEY_FILE": pair.private_key}
    return {name: str(shutil.copy(file, tmp_path / name)) for name, file in names.items()} | {
        "VELA_TLS_TRUST_FILE": authority.file
    }


def certificates_of(environment: dict[str, str]) -> TlsCertificates:
    return TlsCertificates(BrokerSettings.from_environment(environment), asks_clients=True)


@contextlib.asynccontextmanager
async def serving(environment: dict[str, str], **changes: Any) -> AsyncIterator[Any]:
    """Run a listener with TLS, and yield its broker, its URL and its certificates."""
    broker = FakeBroker()
    broker.settings = BrokerSettings.from_environment({"VELA_PULSAR_PORT": "0", **environment})
    broker.settings = dataclasses.replace(broker.settings, **changes)
    broker.connections = ConnectionLimits(broker.settings)
    certificates = TlsCertificates(broker.settings, asks_clients=True)
    listener = TcpListener(broker)
    port = await listener.start_tls("127.0.0.1", 0, certificates)
    url = f"pulsar+ssl://localhost:{port}"
    broker.settings = dataclasses.replace(broker.settings, advertised_tls_url=url)
    try:
        yield broker, url, certificates
    finally:
        await listener.stop()


def produce_and_consume(url: str, **tls: Any) -> bytes:
    """Send a message with Apache's client, receive it again, and return its payload."""
    client = pulsar.Client(
        url, tls_validate_hostname=True, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error), **tls
    )
    try:
        consumer = client.subscribe("orders", "s")
        client.create_producer("orders").send(b"x" * 300_000)
        message = consumer.receive(10_000)
        consumer.acknowledge(message)
        return bytes(message.data())
    finally:
        client.close()


async def test_apaches_client_works_with_a_trust_file_and_with_a_certificate(
    environment: dict[str, str], authority: Authority, client_pair: KeyPair
) -> None:
    async with serving(environment) as (broker, url, _):
        trust: dict[str, Any] = {"tls_trust_certs_file_path": authority.file}
        assert await asyncio.to_thread(produce_and_consume, url, **trust) == b"x" * 300_000
        assert {identity.certificate_name for identity in broker.identities} == {""}
        broker.identities.clear()
        own = pulsar.AuthenticationTLS(client_pair.certificate, client_pair.private_key)
        assert await asyncio.to_thread(produce_and_consume, url, authentication=own, **trust)
        assert {identity.certificate_name for identity in broker.identities} == {"billing"}
        await until(lambda: broker.connections.open == 0, "the connections to be counted as gone")


async def test_a_client_without_the_required_certificate_is_refused(
    environment: dict[str, str], authority: Authority, stranger: Authority, client_pair: KeyPair
) -> None:
    async with serving(environment | {"VELA_TLS_REQUIRE_CLIENT_CERTIFICATE": "1"}) as (broker, url, _):
        trust: dict[str, Any] = {"tls_trust_certs_file_path": authority.file, "operation_timeout_seconds": 1}
        for pair in (None, stranger.issue("mallory")):
            own: dict[str, Any] = {} if pair is None else files_of(pair)
            async with Client(url, **trust, **own) as client:
                with pytest.raises(errors.VelaError):
                    await client.get_topic_partitions("orders")
        assert broker.connections.failed_tls_handshakes >= 2
        assert not broker.identities
        async with Client(url, **trust, **files_of(client_pair)) as client:
            assert await client.get_topic_partitions("orders")


def files_of(pair: KeyPair) -> dict[str, Any]:
    return {"tls_certificate_file_path": pair.certificate, "tls_private_key_file_path": pair.private_key}


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
async def test_a_client_of_another_authority_or_of_tls_1_1_gets_no_connection(
    environment: dict[str, str], stranger: Authority
) -> None:
    async with serving(environment) as (broker, url, _):
        async with Client(url, tls_trust_certs_file_path=stranger.file) as client:
            with pytest.raises(errors.HandshakeError, match="certificate is not trusted"):
                await client.get_topic_partitions("orders")
        port = int(url.rpartition(":")[2])
        context = unchecked()
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        # The client gets an alert and not a reset.
        with pytest.raises(ssl.SSLError, match=r"(?i)alert protocol version"):
            await asyncio.open_connection("127.0.0.1", port, ssl=context)
        assert broker.connections.failed_tls_handshakes == 2


def unchecked() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def test_a_new_certificate_is_used_for_new_connections_and_open_ones_go_on(
    environment: dict[str, str], authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with serving(environment) as (_, url, certificates):
        trust: dict[str, Any] = {"tls_trust_certs_file_path": authority.file, "tls_validate_hostname": True}
        async with Client(url, **trust) as client:
            producer = await client.create_producer("orders")
            await producer.send(b"before")
            replace(environment, authority.issue("renewed", "localhost"))
            certificates.reload_if_changed()
            await producer.send(b"after")
            assert await asyncio.to_thread(served_name, url, authority) == "renewed"
            # Half of a renewal changes nothing, and neither does a file that is not a certificate.
            shutil.copy(__file__, environment["VELA_TLS_KEY_FILE"])
            certificates.reload_if_changed()
            assert await asyncio.to_thread(served_name, url, authority) == "renewed"
            assert "a changed TLS file cannot be used: cannot load the certificate" in caplog.text
            assert "stays in use" in caplog.text
            assert 0 < certificates.expires_s <= 24 * 3600
            await producer.send(b"still")
    assert str(Path(environment["VELA_TLS_KEY_FILE"]).parent) not in caplog.text


def test_a_renewed_certificate_that_becomes_readable_later_is_used(
    environment: dict[str, str], authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator may replace the files first, and only then let the broker's user read the key."""

    def refuse(self: TlsCertificates) -> tuple[ssl.SSLContext, float]:
        raise CertificateUnusable("Permission denied")

    certificates = TlsCertificates(BrokerSettings.from_environment(environment), asks_clients=False)
    before = certificates.context
    replace(environment, authority.issue("renewed", "localhost"))
    with monkeypatch.context() as only_root_reads:
        only_root_reads.setattr(TlsCertificates, "_read", refuse)
        certificates.reload_if_changed()
    assert certificates.context is before
    Path(environment["VELA_TLS_KEY_FILE"]).chmod(0o640)
    certificates.reload_if_changed()
    assert certificates.context is not before


def replace(environment: dict[str, str], pair: KeyPair) -> None:
    """Move new files into the place of the old ones, as certbot does."""
    for variable, file in (
        ("VELA_TLS_CERTIFICATE_FILE", pair.certificate),
        ("VELA_TLS_KEY_FILE", pair.private_key),
    ):
        new = shutil.copy(file, environment[variable] + ".new")
        os.replace(new, environment[variable])


def served_name(url: str, authority: Authority) -> str:
    """Return the common name in the certificate that the port presents now."""
    context = ssl.create_default_context(cafile=authority.file)
    with (
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as peer,
    ):
        shown = client_certificate(peer.getpeercert())
        return "" if shown is None else shown.name


async def test_the_broker_checks_the_certificate_files_by_itself(
    environment: dict[str, str], authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.listening.tls_certificates.CHECK_PERIOD_S", 0.01)
    certificates = certificates_of(environment)
    first = certificates.context
    certificates.watch()
    try:
        replace(environment, authority.issue("renewed", "localhost"))
        await until(lambda: certificates.context is not first, "the new certificate")
    finally:
        certificates.stop()


@pytest.mark.parametrize(
    "variable", ["VELA_TLS_CERTIFICATE_FILE", "VELA_TLS_KEY_FILE", "VELA_TLS_TRUST_FILE"]
)
def test_an_unusable_file_is_named_by_its_setting_and_not_by_its_path(
    environment: dict[str, str], variable: str
) -> None:
    for file in ("/no/such/file", __file__):
        with pytest.raises(CertificateUnusable, match=variable) as refused:
            certificates_of(environment | {variable: file})
        assert file not in str(refused.value)


async def test_a_slow_handshake_is_closed(environment: dict[str, str]) -> None:
    async with serving(environment, handshake_timeout_s=0.05) as (broker, url, _):
        port = int(url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\x16\x03\x01")
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        assert broker.connections.failed_tls_handshakes == 1
        # The handshake of Pulsar's protocol has the same time limit.
        reader, writer = await asyncio.open_connection("localhost", port, ssl=unchecked())
        await asyncio.wait_for(reader.read(), 5)
        writer.close()
        await until(lambda: broker.connections.open == 0, "both to be gone")
        assert broker.connections.times_reached["VELA_HANDSHAKE_TIMEOUT_S"] == 1


async def test_bytes_that_are_not_tls_close_the_connection_before_and_after_the_handshake(
    environment: dict[str, str],
) -> None:
    async with serving(environment) as (broker, url, _):
        port = int(url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert len(await asyncio.wait_for(reader.read(), 5)) < 10  # at most an alert
        writer.close()
        assert broker.connections.failed_tls_handshakes == 1
        await asyncio.wait_for(asyncio.to_thread(break_the_record, port), 10)
        await until(lambda: broker.connections.open == 0, "both to be gone")


def break_the_record(port: int) -> None:
    """Shake hands, then send bytes that were not encrypted, and read until the end."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as plain:
        peer = unchecked().wrap_bio(incoming := ssl.MemoryBIO(), outgoing := ssl.MemoryBIO())
        while True:
            try:
                peer.do_handshake()
                break
            except ssl.SSLWantReadError:
                plain.sendall(outgoing.read())
                incoming.write(plain.recv(65536))
        plain.sendall(outgoing.read() + b"\x17\x03\x03\x00\x20" + bytes(32))
        while plain.recv(65536):
            pass


class Pausing(asyncio.Protocol):
    """A protocol that pauses reading whenever it has received something."""

    def __init__(self) -> None:
        self.got = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.got += data
        self.transport.pause_reading()


async def test_a_paused_protocol_gets_the_rest_when_it_resumes_though_nothing_more_arrives(
    environment: dict[str, str],
) -> None:
    protocol = Pausing()
    limits = ConnectionLimits(BrokerSettings())
    listener = TlsListener(lambda: protocol, certificates_of(environment), limits, handshake_timeout_s=5)
    await listener.start("127.0.0.1", 0)
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", listener.port, ssl=unchecked())
        sent = os.urandom(200_000)
        writer.write(sent)
        await writer.drain()
        at = 0
        while at < len(sent):
            await until(lambda: len(protocol.got) > at, "the next piece")  # noqa: B023 - used at once
            at = len(protocol.got)
            for _ in range(5):
                await asyncio.sleep(0)
            assert len(protocol.got) == at
            assert not protocol.transport.is_reading()
            protocol.transport.resume_reading()
            protocol.transport.resume_reading()
        assert protocol.got == sent
        writer.close()
        await until(lambda: limits.open == 0, "the connection to be gone")
    finally:
        listener.stop_accepting()


async def test_frames_cut_anywhere_and_a_peer_that_does_not_read_are_served(
    environment: dict[str, str],
) -> None:
    async with serving(environment, connection_request_rate=0) as (_, url, _):
        reader, writer = await asyncio.open_connection(
            "localhost", int(url.rpartition(":")[2]), ssl=unchecked()
        )
        for byte in commands.connect(client_version="test", protocol_version=19):
            writer.write(bytes([byte]))
        frame = await asyncio.wait_for(reader.readexactly(4), 5)
        await reader.readexactly(int.from_bytes(frame, "big"))
        lookups = b"".join(commands.lookup("orders", request_id=number) for number in range(10_000))
        writer.write(lookups)
        answered = 0
        while answered < 10_000:
            size = int.from_bytes(await asyncio.wait_for(reader.readexactly(4), 10), "big")
            await reader.readexactly(size)
            answered += 1
        writer.close()


def secure_daphne(
    daphne: DaphneThread, environment: dict[str, str], **changed: Any
) -> tuple[FakeBroker, int]:
    """Start Daphne with TLS, and return the broker and the port for https and wss."""
    certificates = certificates_of(environment)
    broker, _ = daphne.start(max_message_bytes=5 * 1024 * 1024, tls=certificates, **changed)
    return broker, daphne.tls_port


def test_https_serves_pages_and_refuses_large_bodies(
    daphne: DaphneThread, environment: dict[str, str], authority: Authority
) -> None:
    broker, port = secure_daphne(daphne, environment)
    context = ssl.create_default_context(cafile=authority.file)
    connection = http.client.HTTPSConnection("localhost", port, timeout=10, context=context)
    for _ in range(2):  # on one connection
        connection.request("GET", "/healthz", headers={"Origin": f"https://localhost:{port}"})
        assert connection.getresponse().read() == b'{"status":"ok"}'
    connection.request("GET", "/healthz", headers={"Origin": f"http://localhost:{port}"})
    assert connection.getresponse().status == 403
    connection.close()
    connection.request("POST", "/healthz", headers={"Content-Length": "5000000"})
    answer = connection.getresponse()
    assert (answer.status, b"a request body may have" in answer.read()) == (413, True)
    connection.close()
    wait_until(lambda: broker.connections.open == 0, "the connections to be counted as gone")


async def test_wss_carries_the_json_api_and_the_binary_protocol_and_names_the_client(
    daphne: DaphneThread, environment: dict[str, str], authority: Authority, client_pair: KeyPair
) -> None:
    broker, port = await asyncio.to_thread(secure_daphne, daphne, environment)
    context = ssl.create_default_context(cafile=authority.file)
    context.load_cert_chain(client_pair.certificate, client_pair.private_key)
    base = f"wss://localhost:{port}"
    payload = base64.b64encode(b"x" * 1_000_000).decode()
    async with websockets.connect(
        f"{base}/ws/v2/producer/persistent/public/default/orders", ssl=context
    ) as peer:
        for _ in range(3):
            await peer.send(json.dumps({"payload": payload}))
            assert json.loads(await peer.recv())["result"] == "ok"
    trust: dict[str, Any] = {"tls_trust_certs_file_path": authority.file, "tls_validate_hostname": True}
    async with Client(base, **trust, **files_of(client_pair)) as client:
        consumer = await client.subscribe("orders", "s", initial_position=InitialPosition.Earliest)
        for _ in range(3):
            assert len((await consumer.receive(10_000)).data()) == 1_000_000
    assert {identity.certificate_name for identity in broker.identities} == {"billing"}
    await until(lambda: broker.connections.open == 0, "the connections to be counted as gone")


def test_an_https_request_names_its_client_in_the_scope(
    daphne: DaphneThread, environment: dict[str, str], client_pair: KeyPair
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        shown = certificate_of(scope)
        if shown is not None:
            assert 23 * 3600 < shown.expires_ms / 1000 - time.time() < 25 * 3600
        await respond(scope, send, 200, b"" if shown is None else shown.name.encode())

    _, port = secure_daphne(daphne, environment, app=app)
    named = unchecked()
    named.load_cert_chain(client_pair.certificate, client_pair.private_key)
    for context, name in ((unchecked(), b""), (named, b"billing")):
        connection = http.client.HTTPSConnection("localhost", port, timeout=10, context=context)
        connection.request("GET", "/")
        assert connection.getresponse().read() == name
        connection.close()


async def test_a_wss_peer_that_does_not_read_pauses_its_deliveries(
    daphne: DaphneThread, environment: dict[str, str]
) -> None:
    broker, port = await asyncio.to_thread(secure_daphne, daphne, environment)
    base = f"wss://localhost:{port}/ws/v2"
    topic = "persistent/public/default/flood"
    payload = json.dumps({"payload": base64.b64encode(os.urandom(500_000)).decode()})
    async with (
        websockets.connect(f"{base}/producer/{topic}", ssl=unchecked()) as producer,
        websockets.connect(f"{base}/consumer/{topic}/s", ssl=unchecked(), max_queue=1) as consumer,
    ):
        sent = 80  # 53 MB; the kernel's buffers for one connection may hold 20 MB
        for _ in range(sent):
            await producer.send(payload)
            await producer.recv()
        (attached,) = broker.topic("flood").subscriptions["s"].consumers
        async with asyncio.timeout(10):
            while not attached.pending:  # noqa: ASYNC110 - another thread's
                await asyncio.sleep(0.01)
        assert len(attached.pending) < sent - 10  # the rest waits in the log, and not in a buffer
        for _ in range(sent):  # every message comes, although the consumer did not read for a while
            message = json.loads(await asyncio.wait_for(consumer.recv(), 10))
            await consumer.send(json.dumps({"messageId": message["messageId"]}))


def test_a_connection_over_the_limit_is_refused_on_http_and_counted(
    daphne: DaphneThread, environment: dict[str, str]
) -> None:
    certificates = certificates_of(environment)
    broker, server = daphne.start(max_message_bytes=1024, tls=certificates, max_connections_per_address=2)
    kept = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(2)]
    wait_until(lambda: broker.connections.open == 2, "both to be counted")
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as third:
        answer = third.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"127.0.0.1 has 2 connections, the most that VELA_MAX_CONNECTIONS_PER_ADDRESS allows" in answer
    with (  # refused before its TLS handshake
        socket.create_connection(("127.0.0.1", daphne.tls_port), timeout=10) as secure,
        pytest.raises((ConnectionResetError, BrokenPipeError, ssl.SSLEOFError)),
    ):
        unchecked().wrap_socket(secure)
    assert broker.connections.times_reached == {"VELA_MAX_CONNECTIONS_PER_ADDRESS": 2}
    for peer in kept:
        peer.close()
    wait_until(lambda: broker.connections.open == 0, "the places to be free")


def test_an_http_connection_without_a_request_is_closed(
    daphne: DaphneThread, environment: dict[str, str]
) -> None:
    _, port = secure_daphne(daphne, environment, http_idle_timeout_s=0.1)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        unchecked().wrap_socket(plain) as peer,
    ):
        assert peer.recv(1) == b""


async def test_velas_client_says_that_a_port_wants_its_certificate(
    daphne: DaphneThread, environment: dict[str, str], authority: Authority
) -> None:
    strict = {**environment, "VELA_TLS_REQUIRE_CLIENT_CERTIFICATE": "1"}
    _, port = await asyncio.to_thread(secure_daphne, daphne, strict)
    trust: dict[str, Any] = {"tls_trust_certs_file_path": authority.file, "operation_timeout_seconds": 1}
    async with serving(strict) as (_, url, _):
        for each in (f"wss://localhost:{port}", url):
            async with Client(each, **trust) as client:
                with pytest.raises(VelaError, match=r"requires? a client certificate"):
                    await client.partitions("orders")
