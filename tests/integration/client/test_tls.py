"""Encryption and certificates, against a peer that terminates TLS itself; both transports."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from broker.doors.binary.wire import events
from tests.support.certificates import Authority, KeyPair
from tests.support.scripted_peer import ScriptedPeer
from vela import errors
from vela.aio import Client
from vela.authentication import AuthenticationTLS, AuthenticationToken

TOPIC = "persistent://public/default/t"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> KeyPair:
    return authority.issue("server", "127.0.0.1", "localhost")


@pytest.fixture(params=[False, True], ids=["tcp", "websocket"])
def websocket(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.row("S0.6")
async def test_a_client_without_tls_cannot_use_a_port_with_tls(server: KeyPair, websocket: bool) -> None:
    async with ScriptedPeer.started(websocket=websocket, tls=server.server_context()) as peer:
        plain = peer.url.replace("+ssl", "").replace("wss", "ws")
        async with Client(plain) as client:
            with pytest.raises(errors.HandshakeError, match="speaks TLS"):
                await client.partitions(TOPIC)
        assert not peer.heard


@pytest.mark.row("S0.6")
async def test_with_tls_everything_is_encrypted(
    server: KeyPair, authority: Authority, websocket: bool
) -> None:
    async with (
        ScriptedPeer.started(websocket=websocket, tls=server.server_context()) as peer,
        Client(peer.url, tls_trust_certs_file_path=authority.file) as client,
    ):
        assert await client.partitions(TOPIC) == 0
        assert peer.count(events.PartitionMetadata) == 1


@pytest.mark.row("S0.6")
async def test_use_tls_encrypts_for_any_scheme(server: KeyPair, authority: Authority) -> None:
    async with (
        ScriptedPeer.started(tls=server.server_context()) as peer,
        Client(
            peer.url.replace("+ssl", ""),
            use_tls=True,
            operation_timeout_seconds=5,
            tls_trust_certs_file_path=authority.file,
        ) as client,
    ):
        assert await client.partitions(TOPIC) == 0


@pytest.mark.row("S0.6")
async def test_a_door_without_tls_is_a_handshake_error(websocket: bool) -> None:
    async with ScriptedPeer.started() as peer:
        url = f"{'wss' if websocket else 'pulsar+ssl'}://127.0.0.1:{peer.port}"
        peer.max_message_bytes = (
            1000  # the peer mistakes the TLS hello for a frame above this limit, and hangs up
        )
        async with Client(url, AuthenticationToken("secret")) as client:
            with pytest.raises(errors.HandshakeError, match="does not speak TLS"):
                await client.partitions(TOPIC)
        # The request with which the client checks for another protocol contains no credentials and no topic.
        assert [(type(event), getattr(event, "auth_data", b"")) for event in peer.heard] == [
            (events.Connect, None)
        ]


@pytest.mark.row("S0.7")
async def test_an_untrusted_certificate_is_accepted_if_the_option_allows_it(
    server: KeyPair, websocket: bool
) -> None:
    async with ScriptedPeer.started(websocket=websocket, tls=server.server_context()) as peer:
        async with Client(peer.url) as client:
            with pytest.raises(errors.HandshakeError, match="certificate is not trusted"):
                await client.partitions(TOPIC)
        async with Client(peer.url, tls_allow_insecure_connection=True) as client:
            assert await client.partitions(TOPIC) == 0


@pytest.mark.row("S0.8")
async def test_a_trust_file_replaces_the_system_trust_store(
    server: KeyPair, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Authority(tmp_path, "Another")
    async with ScriptedPeer.started(tls=server.server_context()) as peer:
        for trusted, is_accepted in [(None, False), ("", False), (other.file, False), (authority.file, True)]:
            async with Client(peer.url, tls_trust_certs_file_path=trusted) as client:
                if is_accepted:
                    assert await client.partitions(TOPIC) == 0
                else:
                    with pytest.raises(errors.HandshakeError, match="not trusted"):
                        await client.partitions(TOPIC)
        # OpenSSL reads the system's trust store; this variable names another one.
        monkeypatch.setenv("SSL_CERT_FILE", authority.file)
        async with Client(peer.url) as client:
            assert await client.partitions(TOPIC) == 0
        async with Client(peer.url, tls_trust_certs_file_path=other.file) as client:
            with pytest.raises(errors.HandshakeError, match="not trusted"):
                await client.partitions(TOPIC)


@pytest.mark.row("S0.8")
async def test_the_hosts_name_is_checked_if_the_option_is_set(authority: Authority, websocket: bool) -> None:
    elsewhere = authority.issue("elsewhere", "broker.example")
    async with ScriptedPeer.started(websocket=websocket, tls=elsewhere.server_context()) as peer:
        async with Client(peer.url, tls_trust_certs_file_path=authority.file) as client:
            assert await client.partitions(TOPIC) == 0
        async with Client(
            peer.url, tls_trust_certs_file_path=authority.file, tls_validate_hostname=True
        ) as client:
            with pytest.raises(errors.HandshakeError, match=r"not trusted.*127"):
                await client.partitions(TOPIC)


@pytest.mark.row("S0.9")
async def test_a_client_certificate_is_shown_when_there_is_one(
    server: KeyPair, authority: Authority, websocket: bool
) -> None:
    own = authority.issue("client")
    context = server.server_context(clients_of=authority)
    async with ScriptedPeer.started(websocket=websocket, tls=context) as peer:
        trust = authority.file
        async with Client(peer.url, tls_trust_certs_file_path=trust, operation_timeout_seconds=0.3) as client:
            with pytest.raises(
                (errors.ConnectError, errors.Timeout), match=r"requires? a client certificate"
            ):
                await client.partitions(TOPIC)
        assert not peer.heard
        authentication = AuthenticationTLS(own.certificate, own.private_key)
        async with Client(
            peer.url, authentication, operation_timeout_seconds=5, tls_trust_certs_file_path=trust
        ) as client:
            assert await client.partitions(TOPIC) == 0
            assert peer.of(events.Connect)[-1].auth_method == "tls"
        async with Client(
            peer.url,
            tls_trust_certs_file_path=trust,
            tls_certificate_file_path=own.certificate,
            tls_private_key_file_path=own.private_key,
            operation_timeout_seconds=5,
        ) as client:
            assert await client.partitions(TOPIC) == 0


def test_unusable_files_raise_at_once(server: KeyPair) -> None:
    with pytest.raises(errors.InvalidConfiguration, match=r"tls_trust_certs_file_path: .*No such file"):
        Client("pulsar+ssl://h", tls_trust_certs_file_path="/no/such/file")
    with pytest.raises(errors.InvalidConfiguration, match="tls_certificate_file_path and"):
        Client(
            "pulsar+ssl://h",
            tls_certificate_file_path=server.certificate,
            tls_private_key_file_path=server.certificate,
        )
    with pytest.raises(errors.InvalidConfiguration, match="together, or neither"):
        Client("wss://h", tls_certificate_file_path=server.certificate)


def test_old_versions_of_tls_are_refused() -> None:
    context = Client("pulsar+ssl://h").settings.tls
    assert context is not None
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
