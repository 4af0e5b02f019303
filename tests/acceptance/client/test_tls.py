"""Encrypted connections to a whole Vela, through a relay that terminates TLS."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.byte_relay import relay
from tests.support.certificates import Authority
from vela import errors
from vela.aio import Client
from vela.authentication import AuthenticationTLS
from vela.wire.binary import commands, replies


@asynccontextmanager
async def door_with_tls(service_url: str, context: ssl.SSLContext) -> AsyncIterator[str]:
    """The encrypted URL of a relay that passes connections on to the unencrypted service URL."""
    inner = urlsplit(service_url)
    assert inner.port is not None
    async with relay(inner.port, context) as port:
        yield f"{'pulsar+ssl' if inner.scheme == 'pulsar' else 'wss'}://localhost:{port}"


@pytest.mark.row("S0.6")
async def test_topics_are_served_through_a_door_with_tls(
    service_url: str, topic: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    context = authority.issue("vela", "localhost").server_context()
    async with door_with_tls(service_url, context) as url:
        trust = authority.file
        async with Client(url, tls_trust_certs_file_path=trust, tls_validate_hostname=True) as client:
            connection = await client.connection_for(topic)
            answer = await connection.request(
                lambda request_id: commands.producer(topic, producer_id=1, request_id=request_id),
                timeout_s=10,
            )
            assert isinstance(answer, replies.ProducerSuccess)
            assert topic in (await client.get_topics_of_namespace("public/default")).topics
        async with Client(url) as client:
            with pytest.raises(errors.HandshakeError, match="not trusted"):
                await client.connection_for(topic)


@pytest.mark.row("S0.7")
async def test_an_untrusted_certificate_is_accepted_if_the_option_allows_it(
    service_url: str, topic: str, tmp_path: Path
) -> None:
    context = Authority(tmp_path).issue("vela", "elsewhere.example").server_context()
    async with door_with_tls(service_url, context) as url:
        for client in (Client(url), Client(url, tls_allow_insecure_connection=False)):
            async with client:
                with pytest.raises(errors.HandshakeError, match="certificate is not trusted"):
                    await client.get_topic_partitions(topic)
        async with Client(url, tls_allow_insecure_connection=True) as client:
            assert await client.get_topic_partitions(topic) == [topic]


@pytest.mark.row("S0.8")
async def test_a_trust_file_replaces_the_system_trust_store(
    service_url: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, other = Authority(tmp_path), Authority(tmp_path, "Another")

    async def outcome(file: str | None) -> str:
        async with Client(url, tls_trust_certs_file_path=file) as client:
            try:
                return str(await client.get_topic_partitions(topic))
            except errors.HandshakeError as error:
                return str(error)

    async with door_with_tls(service_url, ours.issue("vela", "localhost").server_context()) as url:
        for file in (None, "", other.file):
            assert "not trusted" in await outcome(file)
        assert await outcome(ours.file) == str([topic])
        # OpenSSL reads the system's trust store; this variable names another one.
        monkeypatch.setenv("SSL_CERT_FILE", ours.file)
        for file in (None, ""):
            assert await outcome(file) == str([topic])
        assert "not trusted" in await outcome(other.file)


@pytest.mark.row("S0.9")
async def test_a_door_that_wants_a_certificate_accepts_a_client_with_one(
    service_url: str, topic: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    context = authority.issue("vela", "localhost").server_context(clients_of=authority)
    own = authority.issue("client")
    async with door_with_tls(service_url, context) as url:
        async with Client(
            url,
            AuthenticationTLS(own.certificate, own.private_key),
            tls_trust_certs_file_path=authority.file,
        ) as client:
            assert await client.get_topic_partitions(topic) == [topic]
        async with Client(url, tls_trust_certs_file_path=authority.file) as client:
            with pytest.raises(errors.ConnectError):
                await client.connection_for(topic)
        async with Client(
            url,
            tls_allow_insecure_connection=True,
            tls_certificate_file_path=own.certificate,
            tls_private_key_file_path=own.private_key,
        ) as client:
            assert await client.get_topic_partitions(topic) == [topic]
