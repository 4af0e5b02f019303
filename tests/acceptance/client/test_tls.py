"""Encrypted connections to a whole Vela, through a relay that terminates TLS."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.byte_relay import relay
from tests.support.certificates import Authority
from vela import errors
from vela.aio import Client
from vela.authentication import AuthenticationTLS
from vela.wire.binary import commands, replies


async def test_s0_6_topics_are_served_through_a_door_with_tls(
    service_url: str, topic: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    inner = urlsplit(service_url)
    assert inner.port is not None
    context = authority.issue("vela", "localhost").server_context()
    async with relay(inner.port, context) as port:
        url = f"{'pulsar+ssl' if inner.scheme == 'pulsar' else 'wss'}://localhost:{port}"
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


async def test_s0_9_a_door_that_wants_a_certificate_opens_for_who_has_one(
    service_url: str, topic: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    inner = urlsplit(service_url)
    assert inner.port is not None
    context = authority.issue("vela", "localhost").server_context(clients_of=authority)
    own = authority.issue("client")
    async with relay(inner.port, context) as port:
        url = f"{'pulsar+ssl' if inner.scheme == 'pulsar' else 'wss'}://localhost:{port}"
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
