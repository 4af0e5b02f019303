"""Passwords, certificates that expire, and proxies, at every door."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from broker.core.access.credentials import ClientCertificate
from broker.core.access.permissions import Grants, Permission
from broker.doors.http_credentials import challenge_fields
from broker.doors.pull.answers import MustWait, PullAnswers
from broker.doors.websocket.application import websocket_application
from broker.storage.access import StoredAccess
from tests.support.tokens import ENVIRONMENT, token
from tests.support.waiting import until
from tests.unit.doors.fake_broker import FakeBroker
from tests.unit.doors.socket_peer import Peer
from tests.unit.doors.test_outsiders import TLS_FILES, ask
from tests.unit.doors.wire_client import TOPIC, WireClient
from vela.wire.binary import commands
from vela.wire.binary.commands.connection import frame_of
from vela.wire.pb import vela_pulsar_pb2 as pb

EVERYTHING = frozenset({Permission.PRODUCE, Permission.CONSUME})
SECRET = "app:$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/\n"
PRODUCER = "/ws/v2/producer/persistent/public/default/orders"
ADMIN = "/admin/v2/brokers/version"


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def allow(broker: FakeBroker, *roles: str) -> None:
    grants = Grants(namespaces={"public/default": dict.fromkeys(roles, EVERYTHING)})
    broker.access.take(StoredAccess(grants=grants, revoked_tokens=frozenset()))


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "htpasswd"
    write(path, SECRET)
    return path


@pytest.fixture
async def broker(users: Path) -> FakeBroker:
    environment = {"VELA_AUTHENTICATION": "basic", "VELA_BASIC_FILE": str(users), "VELA_METRICS_ROLES": "app"}
    broker = FakeBroker(environment=environment)
    allow(broker, "app")
    return broker


def basic(text: str) -> tuple[bytes, bytes]:
    return b"authorization", b"Basic " + base64.b64encode(text.encode())


def connecting(broker: FakeBroker, *more: bytes, data: str, method: str = "basic") -> WireClient:
    client = WireClient(broker, connect=False)
    connect = commands.connect(
        client_version="test", protocol_version=21, auth_method=method, auth_data=data.encode()
    )
    client.tell(connect, *more)
    return client


async def test_a_binary_client_is_not_read_from_until_its_password_is_checked(broker: FakeBroker) -> None:
    lookup = commands.partition_metadata(TOPIC, request_id=3)
    client = connecting(broker, lookup, data="app:secret")
    assert not client.is_read_from()
    assert client.names() == []
    await until(lambda: client.is_read_from() and len(client.link.writes) > 1, "the answers")
    assert client.names() == ["CONNECTED", "PARTITIONED_METADATA_RESPONSE"]
    again = connecting(broker, data="app:secret")
    assert again.names() == ["CONNECTED"]  # answered at once, because the broker remembers the password
    assert broker.access.successes == {"basic": 2}


async def test_a_wrong_password_closes_a_binary_connection(broker: FakeBroker) -> None:
    client = connecting(broker, data="app:wrong")
    await until(client.is_closed, "the connection to be closed")
    (refusal,) = client.heard()
    assert refusal.error.error == pb.AuthenticationError
    assert connecting(broker, data="app:wrong").is_closed()  # refused at once
    assert broker.refused_requests["Connect"] == 2
    assert broker.access.failures == {"basic": 2}


async def test_a_connection_that_is_lost_while_its_password_is_checked_leaves_nothing(
    broker: FakeBroker,
) -> None:
    client = connecting(broker, data="app:secret")
    client.connection.lost()
    await client.settle()
    assert client.names() == []


@pytest.mark.parametrize(("data", "statuses"), [("app:secret", (200, 200, 101)), ("app:x", (401, 401, 401))])
async def test_http_and_websockets_take_a_password(
    broker: FakeBroker, data: str, statuses: tuple[int, ...]
) -> None:
    found = [(await ask(broker, "GET", target, basic(data)))[0] for target in ("/metrics", ADMIN)]
    peer = Peer(websocket_application(broker), PRODUCER, headers=[basic(data)])
    if statuses[2] == 101:
        await peer.opened()
        assert tuple(found) == statuses[:2]
    else:
        assert (*found, (await peer.refused())[0]) == statuses
    assert (await ask(broker, "GET", ADMIN, basic(data), (b"x-pulsar-auth-method-name", b"token")))[0] == 401


@pytest.mark.parametrize(
    ("methods", "schemes"),
    [("token", ["Bearer"]), ("basic", ["Basic"]), ("token,basic", ["Bearer", "Basic"]), ("tls", ["Bearer"])],
)
async def test_a_refusal_names_the_schemes_that_the_broker_takes(
    users: Path, methods: str, schemes: list[str]
) -> None:
    environment = {
        **ENVIRONMENT,
        **TLS_FILES,
        "VELA_AUTHENTICATION": methods,
        "VELA_BASIC_FILE": str(users) if "basic" in methods else "",
    }
    fields = challenge_fields(FakeBroker(environment=environment).access)
    assert {name for name, _ in fields} == {b"WWW-Authenticate"}
    assert [value.decode().partition(" ")[0] for _, value in fields] == schemes


async def test_a_pull_below_asgi_waits_for_no_thread(broker: FakeBroker) -> None:
    answers: list[int] = []

    def pull(data: str) -> None:
        PullAnswers(broker).begin_for(
            basic(data)[1],
            "/pull/v1/public/default/t",
            "offset=0",
            lambda status, _: answers.append(status),
            address="test:1",
            certificate=None,
        )

    with pytest.raises(MustWait):
        pull("app:secret")
    assert answers == []
    assert (await ask(broker, "GET", ADMIN, basic("app:secret")))[0] == 200
    pull("app:secret")
    assert len(answers) == 1
    assert answers != [401]


async def test_a_changed_password_closes_the_connections_that_came_with_the_old_one(
    broker: FakeBroker, users: Path
) -> None:
    client = connecting(broker, data="app:secret")
    await until(client.is_read_from, "the password to be checked")
    assert client.names() == ["CONNECTED"]
    broker.access._is_stale = False
    write(users, "")
    await broker.access.turn()
    assert not client.is_closed()  # a file that cannot be used changes nothing
    write(users, "app:$apr1$abcdefgh$82JubPF2dQkt1tVfvLnXS.\n")
    await broker.access.turn()
    assert client.is_closed()
    assert "the password was changed" in client.heard()[0].error.message


async def test_a_client_certificate_that_expires_ends_its_connection() -> None:
    broker = FakeBroker(environment={**ENVIRONMENT, "VELA_AUTHENTICATION": "tls", **TLS_FILES})
    allow(broker, "app")
    certificate = ClientCertificate(name="app", expires_ms=broker.clock.now_ms() + 5_000)
    client = WireClient(broker, connect=False, certificate=certificate)
    client.tell(commands.connect(client_version="test", protocol_version=21))
    assert client.names() == ["CONNECTED"]
    peer = await Peer(
        websocket_application(broker), "/ws/binary", headers=[], certificate=certificate
    ).opened()
    assert (await ask(broker, "GET", ADMIN, certificate=certificate))[0] == 200
    broker.clock.advance(5_000)
    client.timers.advance(5_000)
    assert client.is_closed()
    assert "AUTH_CHALLENGE" not in client.names()  # a certificate cannot be renewed without a handshake
    assert (await ask(broker, "GET", ADMIN, certificate=certificate))[0] == 401
    await peer.tell(commands.connect(client_version="test", protocol_version=21))
    assert b"certificate has expired" in b"".join(peer.raw())


# -- proxies -----------------------------------------------------------------------------------------------------


def proxied(broker: FakeBroker, made: str, *, method: str = "token", **original: str) -> WireClient:
    client = WireClient(broker, connect=False)
    body = pb.CommandConnect(
        client_version="proxy",
        protocol_version=21,
        auth_method_name=method,
        auth_data=made.encode(),
        feature_flags=pb.FeatureFlags(supports_auth_refresh=True),
        **original,  # type: ignore[arg-type]
    )
    client.tell(frame_of(pb.BaseCommand(type=pb.BaseCommand.CONNECT, connect=body)))
    return client


def proxy_broker(**more: str) -> FakeBroker:
    return FakeBroker(environment={**ENVIRONMENT, "VELA_PROXY_ROLES": "proxy", **more})


async def test_behind_a_proxy_client_and_proxy_need_the_permission() -> None:
    broker = proxy_broker()
    for roles, may in ((("app",), False), (("proxy",), False), (("app", "proxy"), True)):
        allow(broker, *roles)
        client = proxied(broker, token("proxy"), original_principal="app")
        assert client.names() == ["CONNECTED"]
        client.tell(commands.producer(TOPIC, producer_id=1, request_id=7))
        await client.settle()
        assert client.names() == (["PRODUCER_SUCCESS"] if may else ["ERROR"])


async def test_a_refusal_names_the_proxy_if_only_the_proxy_lacks_the_permission() -> None:
    broker = proxy_broker()
    for allowed, lacking in (("app", "the role 'proxy' of the proxy"), ("proxy", "the role 'app' may not")):
        allow(broker, allowed)
        client = proxied(broker, token("proxy"), original_principal="app")
        client.tell(commands.producer(TOPIC, producer_id=1, request_id=7))
        await client.settle()
        assert lacking in client.heard()[-1].error.message


@pytest.mark.parametrize(
    ("role", "original"), [("app", "root"), ("proxy", ""), ("proxy", "proxy"), ("root", "app")]
)
async def test_a_wrong_combination_is_refused_at_every_door(role: str, original: str) -> None:
    broker = proxy_broker()
    client = proxied(broker, token(role), original_principal=original)
    (refusal,) = client.heard()
    assert refusal.error.error == pb.AuthorizationError
    assert client.is_closed()
    headers = [(b"authorization", b"Bearer " + token(role).encode())]
    if original:
        headers.append((b"x-original-principal", original.encode()))
    assert (await ask(broker, "GET", ADMIN, *headers))[0] == 403
    assert (await Peer(websocket_application(broker), PRODUCER, headers=headers).refused())[0] == 403


async def test_a_request_that_names_two_clients_of_a_proxy_is_refused() -> None:
    broker = proxy_broker(VELA_SUPERUSER_ROLES="root,proxy")
    proxy = (b"authorization", b"Bearer " + token("proxy").encode())
    named = [(b"x-original-principal", role) for role in (b"app", b"root")]
    assert (await ask(broker, "GET", "/metrics", proxy, named[1]))[0] == 200
    status, reason = await ask(broker, "GET", "/metrics", proxy, *named)
    assert status == 401
    assert b"several headers X-Original-Principal" in reason


async def test_a_superuser_behind_a_proxy_counts_as_one_only_if_the_proxy_does() -> None:
    headers = (b"authorization", b"Bearer " + token("proxy").encode()), (b"x-original-principal", b"root")
    assert (await ask(proxy_broker(), "GET", "/metrics", *headers))[0] == 403
    both = proxy_broker(VELA_SUPERUSER_ROLES="root,proxy")
    assert (await ask(both, "GET", "/metrics", *headers))[0] == 200


async def test_the_broker_checks_the_clients_own_credentials_on_request() -> None:
    broker = proxy_broker(VELA_AUTHENTICATE_ORIGINAL_AUTH_DATA="1")
    allow(broker, "app", "proxy")
    now_ms = broker.clock.now_ms()
    good = token("app", expires_ms=now_ms + 5_000)
    for data in ("", "nonsense", token("app", expires_ms=now_ms - 1)):
        client = proxied(broker, token("proxy"), original_principal="app", original_auth_data=data)
        assert client.heard()[0].error.error == pb.AuthenticationError
    # The role in the token counts, and not the role that the proxy names.
    client = proxied(
        broker,
        token("proxy"),
        original_principal="root",
        original_auth_data=good,
        original_auth_method="token",
    )
    assert client.names() == ["CONNECTED"]
    await client.open_producer()
    broker.clock.advance(5_000)
    client.timers.advance(5_000)
    # The proxy passes the challenge to its client, and the answer back.
    assert client.names() == ["AUTH_CHALLENGE"]
    client.tell(
        commands.auth_response(
            client_version="p", protocol_version=21, auth_method="token", data=token("app").encode()
        )
    )
    client.timers.advance(31_000)
    assert not client.is_closed()


@pytest.mark.parametrize("revoked", ["of-proxy", "of-app"])
async def test_a_revoked_token_of_proxy_or_client_closes_the_connection_and_lets_nobody_in(
    revoked: str,
) -> None:
    broker = proxy_broker(VELA_AUTHENTICATE_ORIGINAL_AUTH_DATA="1")
    allow(broker, "app", "proxy")

    def connected() -> WireClient:
        return proxied(broker, token("proxy"), original_auth_data=token("app"), original_auth_method="token")

    client = connected()
    assert client.names() == ["CONNECTED"]
    broker.access.take(StoredAccess(grants=Grants(), revoked_tokens=frozenset({revoked})))
    for each in (client, connected()):
        assert "the token was revoked" in each.heard()[0].error.message
        assert each.is_closed()


@pytest.mark.parametrize("changed", ["app", "proxy"])
async def test_behind_a_proxy_a_changed_password_of_either_closes_the_connection(
    users: Path, changed: str
) -> None:
    both = {"app": SECRET, "proxy": SECRET.replace("app", "proxy")}
    write(users, "".join(both.values()))
    broker = proxy_broker(
        VELA_AUTHENTICATION="basic", VELA_BASIC_FILE=str(users), VELA_AUTHENTICATE_ORIGINAL_AUTH_DATA="1"
    )
    allow(broker, "app", "proxy")
    client = proxied(
        broker,
        "proxy:secret",
        method="basic",
        original_auth_data="app:secret",
        original_auth_method="basic",
    )
    await until(client.is_read_from, "both passwords to be checked")
    assert client.names() == ["CONNECTED"]
    broker.access._is_stale = False
    write(users, "".join(line for user, line in both.items() if user != changed))
    await broker.access.turn()
    assert client.is_closed()
    assert "the password was changed" in client.heard()[0].error.message
