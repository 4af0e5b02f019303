"""A broker that asks for tokens: Apache's client over TCP, WebSockets and pulls, against one started Vela."""

from __future__ import annotations

import asyncio
import base64
import datetime
import json
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import bcrypt
import httpx
import pulsar
import pyarrow as pa
import pytest
from pyspark import TaskContext
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

import vela as velas
from broker.core.access.permissions import Permission, Subject
from broker.core.topic_name import TopicName
from broker.storage import access as store
from broker.storage.connection import connect as connect_database
from config.environment import PROJECT_DIR
from pipeline.errors import BrokerUnavailable
from pipeline.sink.options import WriteOptions
from pipeline.sink.writers import BatchWriter
from tests.support.broker_harness import rows
from tests.support.certificates import Authority, KeyPair
from tests.support.login_server import LoginServer, running_login_server
from tests.support.ports import free_ports
from tests.support.raw_pulsar import RawPulsar
from tests.support.tokens import ENVIRONMENT, FOREIGN_SECRET, token
from tests.support.vela import VelaProcess, started_vela
from tests.support.waiting import wait_until
from vela.wire.binary import commands

TIMEOUT_S = 3
RECEIVE_MS = 20_000
ORDERS = TopicName.parse("persistent://public/default/access-orders")
CHALLENGES = ["Bearer", 'Basic realm="Vela", charset="UTF-8"']
BOTH = (Permission.PRODUCE, Permission.CONSUME)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def issuer() -> Iterator[LoginServer]:
    with running_login_server() as server:
        server.services = {"app": "hush", "root": "hush"}
        yield server


@pytest.fixture(scope="module")
def passwords(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("passwords") / "htpasswd"
    path.write_text(f"app:{bcrypt.hashpw(b'secret', bcrypt.gensalt(10)).decode()}\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def vela(
    vela_data: Path, authority: Authority, issuer: LoginServer, passwords: Path
) -> Iterator[VelaProcess]:
    own = authority.issue("vela", "localhost", "127.0.0.1")
    ports = zip(("PULSAR", "HTTP", "CONSOLE"), free_ports(3), strict=True)
    settings = {
        **ENVIRONMENT,
        **{f"VELA_{door}_TLS_PORT": str(port) for door, port in ports},
        "VELA_AUTHENTICATION": "token,tls,basic,openid",
        "VELA_BASIC_FILE": str(passwords),
        "VELA_OPENID_ISSUERS": issuer.issuer,
        "VELA_OPENID_AUDIENCES": "vela",
        "VELA_METRICS_ROLES": "prometheus",
        "VELA_TLS_CERTIFICATE_FILE": own.certificate,
        "VELA_TLS_KEY_FILE": own.private_key,
        "VELA_TLS_TRUST_FILE": authority.file,
    }
    with started_vela(settings, data=vela_data) as process:
        allow(process, "app", *BOTH)
        allow(process, "writer", Permission.PRODUCE)
        allow(process, "reader", Permission.CONSUME)
        wait_until(lambda: may(process, "app", "consumer") == 101, "the permissions are in force")
        yield process


def allow(vela: VelaProcess, role: str, *permissions: Permission, topic: TopicName = ORDERS) -> None:
    async def change() -> None:
        connection = await connect_database(vela.database_url, name="test")
        async with connection:
            await store.set_permissions(connection, Subject.of_topic(topic), [role], permissions)

    asyncio.run(change())


def client_of(
    vela: VelaProcess, made: str | Callable[[], str] | None, *, timeout_s: int = 20
) -> pulsar.Client:
    return pulsar.Client(
        vela.pulsar_url,
        authentication=None if made is None else pulsar.AuthenticationToken(made),
        operation_timeout_seconds=timeout_s,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )


def websocket(vela: VelaProcess, kind: str, made: str | None, *, query: str = "") -> ClientConnection:
    path = f"{ORDERS.domain}/{ORDERS.namespace_name}/{ORDERS.local_name}"
    subscription = "/ws-sub" if kind == "consumer" else ""
    headers = {} if made is None else {"Authorization": f"Bearer {made}"}
    return connect(
        f"{vela.websocket_url}/ws/v2/{kind}/{path}{subscription}{query}", additional_headers=headers
    )


def status_of(open_socket: Callable[[], ClientConnection]) -> int:
    """Return the status of the handshake, 101 if the socket opened."""
    try:
        with open_socket():
            return 101
    except InvalidStatus as refused:
        return refused.response.status_code


def may(vela: VelaProcess, role: str, kind: str) -> int:
    return status_of(lambda: websocket(vela, kind, token(role)))


def get(vela: VelaProcess, path: str, made: str | None, method: str = "GET") -> int:
    headers = {} if made is None else {"Authorization": f"Bearer {made}"}
    request = urllib.request.Request(vela.http_url + path, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


class Shown:
    """Apache's client over `pulsar+ssl://` and an HTTPS client. Both show a certificate, or both show none."""

    def __init__(self, vela: VelaProcess, authority: Authority, pair: KeyPair | None) -> None:
        self._ports = vela.environment
        self._authority = authority
        self._pair = pair

    def client(self) -> pulsar.Client:
        pair = self._pair
        return pulsar.Client(
            f"pulsar+ssl://localhost:{self._ports['VELA_PULSAR_TLS_PORT']}",
            authentication=None
            if pair is None
            else pulsar.AuthenticationTLS(pair.certificate, pair.private_key),
            tls_trust_certs_file_path=self._authority.file,
            tls_validate_hostname=True,
            operation_timeout_seconds=TIMEOUT_S,
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )

    def ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        context = ssl.create_default_context(cafile=self._authority.file)
        if self._pair is not None:
            context.load_cert_chain(self._pair.certificate, self._pair.private_key)
        url = f"https://localhost:{self._ports['VELA_HTTP_TLS_PORT']}{path}"
        return httpx.request(method, url, json=body, verify=context, timeout=20)


def now_ms() -> int:
    return int(time.time() * 1000)


def renewing() -> tuple[Callable[[], str], threading.Event]:
    """A function that makes tokens, and an event. The first token lasts two seconds. The second call sets the event."""
    made = iter([token("app", expires_ms=now_ms() + 2_000)])
    asked_again = threading.Event()

    def supplier() -> str:
        first = next(made, None)
        if first is None:
            asked_again.set()
            return token("app", expires_ms=now_ms() + 3_600_000)
        return first

    return supplier, asked_again


BAD_TOKENS = {
    "none": None,
    "nonsense": "x.y.z",
    "foreign": token("app", secret=FOREIGN_SECRET),
    "expired": token("app", expires_ms=now_ms() - 60_000),
}


def test_apaches_client_publishes_and_consumes_with_a_valid_token(vela: VelaProcess) -> None:
    client = client_of(vela, token("app"))
    consumer = client.subscribe(ORDERS.full, "billing")
    producer = client.create_producer(ORDERS.full)
    producer.send(b"paid")
    assert consumer.receive(RECEIVE_MS).data() == b"paid"
    client.close()


def test_apaches_client_cannot_connect_with_a_bad_token(vela: VelaProcess) -> None:
    def try_one(made: str | None) -> type[Exception] | None:
        client = client_of(vela, made, timeout_s=TIMEOUT_S)
        try:
            client.create_producer(ORDERS.full)
        except pulsar.exceptions.PulsarException as error:
            return type(error)
        finally:
            client.close()
        return None

    with ThreadPoolExecutor(len(BAD_TOKENS)) as threads:
        outcomes = dict(zip(BAD_TOKENS, threads.map(try_one, BAD_TOKENS.values()), strict=True))
    assert all(outcomes.values()), outcomes


def test_apaches_client_may_do_what_its_role_may_and_no_more(vela: VelaProcess) -> None:
    writer, reader = client_of(vela, token("writer")), client_of(vela, token("reader"))
    writer.create_producer(ORDERS.full).send(b"x")
    reader.subscribe(ORDERS.full, "of-reader")
    reader.create_reader(ORDERS.full, pulsar.MessageId.earliest)
    attempts: tuple[Callable[[], object], ...] = (
        lambda: writer.subscribe(ORDERS.full, "of-writer"),
        lambda: reader.create_producer(ORDERS.full),
        lambda: reader.create_producer("somewhere-else"),
        lambda: reader.get_topic_partitions("somewhere-else"),
    )
    for refused in attempts:
        with pytest.raises(pulsar.exceptions.AuthorizationError):
            refused()
    writer.close()
    reader.close()


def test_a_superuser_needs_no_permission(vela: VelaProcess) -> None:
    client = client_of(vela, token("root"))
    client.create_producer("access-made-by-root").send(b"x")
    client.close()


def test_a_client_certificate_gives_a_role_and_its_permissions(
    vela: VelaProcess, authority: Authority
) -> None:
    """A superuser with a certificate creates the namespace over the admin API, and grants a role its permissions."""
    root, billing, nobody = (
        Shown(vela, authority, pair) for pair in (authority.issue("root"), authority.issue("billing"), None)
    )
    made = {"adminRoles": ["manager"], "allowedClusters": ["vela"]}
    assert root.ask("PUT", "/admin/v2/tenants/shop", made).status_code == 204
    assert root.ask("PUT", "/admin/v2/namespaces/shop/eu").status_code == 204
    grant = "/admin/v2/namespaces/shop/eu/permissions/billing"
    assert [each.ask("POST", grant, ["consume"]).status_code for each in (nobody, billing)] == [401, 403]
    assert root.ask("POST", grant, ["consume"]).status_code == 204

    client = billing.client()
    consumer = client.subscribe("persistent://shop/eu/orders", "billing")
    with pytest.raises(pulsar.exceptions.AuthorizationError):
        client.create_producer("persistent://shop/eu/orders")
    producing = root.client()
    producing.create_producer("persistent://shop/eu/orders").send(b"paid")
    assert consumer.receive(RECEIVE_MS).data() == b"paid"
    unknown = nobody.client()
    with pytest.raises(pulsar.exceptions.PulsarException):
        unknown.subscribe("persistent://shop/eu/orders", "billing")
    pull = "/pull/v1/shop/eu/orders?queue=0&offset=0"
    assert [each.ask("GET", pull).status_code for each in (nobody, billing)] == [401, 200]
    assert [each.ask("GET", "/metrics").status_code for each in (nobody, billing, root)] == [401, 403, 200]

    permissions = "/admin/v2/namespaces/shop/eu/permissions"
    assert root.ask("POST", f"{permissions}/subscription/billing", ["billing"]).status_code == 204
    assert root.ask("POST", f"{permissions}/auditor", ["consume"]).status_code == 204
    expire = "/admin/v2/persistent/shop/eu/orders/all_subscription/expireMessages/60"
    assert get(vela, pull, token("auditor")) == 200
    assert get(vela, expire, token("auditor"), "POST") == 403
    assert billing.ask("POST", expire).status_code == 409  # allowed, but no message is old enough to expire

    assert root.ask("DELETE", grant).status_code == 204
    assert billing.ask("GET", pull).status_code == 403
    wait_until(lambda: not consumer.is_connected(), "the consumer whose permission was taken is closed")
    for each in (client, producing, unknown):
        each.close()
    assert rows(
        vela.database_url,
        "SELECT kind, parameters ->> 'role' FROM vela_act"
        " WHERE topic_name LIKE 'shop/%' AND who = 'root' AND origin = 'admin' ORDER BY id",
    ) == [
        ("set_tenant", None),
        ("create_namespace", None),
        ("set_permissions", "billing"),
        ("set_permissions", "billing"),
        ("set_permissions", "auditor"),
        ("set_permissions", "billing"),
    ]


def test_a_tenants_admin_rules_its_tenant_over_the_admin_api_and_no_other(vela: VelaProcess) -> None:
    admin = "/admin/v2/namespaces"
    vela.manage("permission", "set", "market", "keeper", "admin")
    vela.manage("permission", "set", "bazaar", "other", "admin")
    wait_until(lambda: get(vela, f"{admin}/market", token("keeper")) == 404, "the admin is one")
    assert get(vela, f"{admin}/market/x/retention", token("keeper")) == 404
    assert get(vela, f"{admin}/bazaar", token("keeper")) == 403
    assert get(vela, "/admin/v2/tenants", token("keeper")) == 403
    lookup = "/lookup/v2/topic/persistent/public/default/access-orders"
    assert [get(vela, lookup, made) for made in (None, token("keeper"), token("writer"))] == [401, 403, 200]


def test_sparks_sink_publishes_over_tls_with_files_for_trust_and_token(
    vela: VelaProcess, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TaskContext, "get", lambda: SimpleNamespace(partitionId=lambda: 0))
    (tmp_path / "token").write_text(token("app"))
    options = {
        "serviceUrl": f"pulsar+ssl://localhost:{vela.environment['VELA_PULSAR_TLS_PORT']}",
        "topic": ORDERS.full,
        "tokenFile": str(tmp_path / "token"),
        "sendTimeoutMs": "5000",
    }
    rows_of_a_task = pa.record_batch({"value": [b"from Spark"]})
    client = client_of(vela, token("app"))
    try:
        consumer = client.subscribe(ORDERS.full, "spark")
        with pytest.raises(BrokerUnavailable, match="not trusted"):
            BatchWriter(WriteOptions.parse(options)).write(iter([rows_of_a_task]))
        options["tlsTrustFile"] = authority.file

        BatchWriter(WriteOptions.parse(options)).write(iter([rows_of_a_task]))

        assert consumer.receive(RECEIVE_MS).data() == b"from Spark"
    finally:
        client.close()


def test_a_client_gets_a_new_token_when_the_first_expires_and_keeps_its_connection(vela: VelaProcess) -> None:
    supplier, challenged = renewing()
    client = client_of(vela, supplier)
    producer = client.create_producer(ORDERS.full)
    producer.send(b"before")
    assert challenged.wait(20)
    producer.send(b"after")
    assert producer.is_connected()
    client.close()


def test_a_connection_whose_token_is_revoked_is_closed_and_cannot_come_back(vela: VelaProcess) -> None:
    made = vela.manage("token", "create", "app", "--expires", "1h").strip()
    claims = made.split(".")[1]
    token_id = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["jti"]
    client = client_of(vela, made, timeout_s=TIMEOUT_S)
    producer = client.create_producer(ORDERS.full, send_timeout_millis=1_000)
    producer.send(b"before")
    with (
        websocket(vela, "producer", made) as socket,
        websocket(vela, "producer", token("app", token_id="another")) as other,
    ):
        assert "is revoked" in vela.manage("token", "revoke", token_id)
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=20)
        other.send(json.dumps({"payload": "eA=="}))
        assert json.loads(other.recv(timeout=20))["result"] == "ok"
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (
        1008,
        "5: the token was revoked: get a new one",
    )
    wait_until(lambda: not producer.is_connected(), "the producer has lost its connection")
    with pytest.raises(pulsar.exceptions.PulsarException):
        producer.send(b"after")
    client.close()
    assert status_of(lambda: websocket(vela, "producer", made)) == 401


def test_taking_a_permission_away_closes_the_connections_that_use_it(vela: VelaProcess) -> None:
    allow(vela, "leaver", Permission.CONSUME)
    wait_until(lambda: may(vela, "leaver", "consumer") == 101, "the permission is in force")
    with RawPulsar(vela.pulsar_url, connect=False) as peer:
        peer.ask(
            "CONNECTED",
            commands.connect(
                client_version="raw",
                protocol_version=21,
                auth_method="token",
                auth_data=token("leaver").encode(),
            ),
        )
        peer.subscribe(ORDERS.full, "of-leaver")
        allow(vela, "leaver")
        answer = peer.hear()
        assert answer is not None
        assert "may not consume" in answer.error.message
        assert peer.hear() is None
    assert may(vela, "leaver", "consumer") == 403


@pytest.mark.parametrize("face", ["pulsar_url", "websocket_url"])
def test_velas_client_brings_its_token_and_a_new_one_when_it_is_challenged(
    vela: VelaProcess, face: str
) -> None:
    url = getattr(vela, face)
    for made in ("x.y.z", BAD_TOKENS["foreign"], BAD_TOKENS["expired"]):
        assert made is not None
        client = velas.Client(url, authentication=velas.AuthenticationToken(made))
        with pytest.raises(velas.AuthenticationError):
            client.create_producer(ORDERS.full)
        client.close()
    supplier, challenged = renewing()
    client = velas.Client(url, authentication=velas.AuthenticationToken(supplier))
    producer = client.create_producer(ORDERS.full)
    assert challenged.wait(20)
    producer.send(b"after")
    assert producer.is_connected()
    with pytest.raises(velas.AuthorizationError):
        client.create_producer("somewhere-else")
    client.close()


@pytest.mark.parametrize("kind", ["producer", "consumer", "reader"])
def test_a_websocket_needs_a_token_and_its_permission(vela: VelaProcess, kind: str) -> None:
    for made in BAD_TOKENS.values():
        assert status_of(partial(websocket, vela, kind, made)) == 401
    assert may(vela, "app", kind) == 101
    assert may(vela, "stranger", kind) == 403
    assert may(vela, "writer", kind) == (101 if kind == "producer" else 403)
    assert status_of(lambda: websocket(vela, kind, None, query=f"?token={token('app')}")) == 101


def test_a_websocket_is_closed_when_its_token_expires(vela: VelaProcess) -> None:
    with websocket(vela, "producer", token("app", expires_ms=now_ms() + 2_000)) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=20)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/pull/v1/public/default/access-orders?queue=0&offset=0", "GET"),
        ("/pull/v1-queues/public/default/access-orders", "GET"),
        ("/pull/v1-offset/public/default/access-orders?subscription=of-pull&offset=0", "PUT"),
        ("/pull/v1-offset/public/default/access-orders?subscription=of-pull", "GET"),
    ],
)
def test_a_pull_needs_a_token_and_its_permission(vela: VelaProcess, path: str, method: str) -> None:
    for made in BAD_TOKENS.values():
        assert get(vela, path, made, method) == 401
    assert get(vela, path, token("stranger"), method) == 403
    assert get(vela, path, token("reader"), method) == 200


def test_metrics_need_a_role_and_probes_do_not(vela: VelaProcess) -> None:
    assert get(vela, "/metrics", None) == 401
    assert get(vela, "/metrics", token("app")) == 403
    assert get(vela, "/metrics", token("prometheus")) == 200
    assert get(vela, "/healthz", None) == 200
    assert get(vela, "/readyz", None) == 200


# -- passwords, issuers, certificates that end ---------------------------------------------------------------------


def apache(vela: VelaProcess, authentication: pulsar.Authentication, *, timeout_s: int = 20) -> pulsar.Client:
    return pulsar.Client(
        vela.pulsar_url,
        authentication=authentication,
        operation_timeout_seconds=timeout_s,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )


def oauth2(issuer: LoginServer, client_id: str = "app", secret: str = "hush") -> str:
    return json.dumps(
        {
            "issuer_url": issuer.issuer,
            "client_id": client_id,
            "client_secret": secret,
            "audience": "vela",
        }
    )


def test_both_clients_connect_with_a_password(vela: VelaProcess) -> None:
    client = apache(vela, pulsar.AuthenticationBasic("app", "secret"))
    producer = client.create_producer(ORDERS.full)
    producer.send(b"by password")
    for url in (vela.pulsar_url, vela.websocket_url):
        mine = velas.Client(url, authentication=velas.AuthenticationBasic("app", "secret"))
        mine.create_producer(ORDERS.full).send(b"x")
        mine.close()
        wrong = velas.Client(url, authentication=velas.AuthenticationBasic("app", "Secret"))
        with pytest.raises(velas.AuthenticationError):
            wrong.create_producer(ORDERS.full)
        wrong.close()
    pull = f"{vela.http_url}/pull/v1/public/default/access-orders?queue=0&offset=0"
    for password, status in (("secret", 200), ("Secret", 401)):
        assert httpx.get(pull, auth=("app", password), timeout=20).status_code == status
    client.close()


@pytest.mark.parametrize(
    "path", ["/metrics", "/admin/v2/tenants", "/pull/v1/public/default/access-orders?queue=0&offset=0"]
)
def test_an_answer_without_credentials_asks_for_a_token_or_a_password(vela: VelaProcess, path: str) -> None:
    # With the header X-Pulsar-Auth-Method-Name, a pull passes through ASGI.
    for headers in ({}, {"X-Pulsar-Auth-Method-Name": "none"}):
        answer = httpx.get(f"{vela.http_url}{path}", headers=headers, timeout=20)
        assert answer.status_code == 401
        assert answer.headers.get_list("WWW-Authenticate") == CHALLENGES


def test_a_refused_handshake_asks_for_a_token_or_a_password(vela: VelaProcess) -> None:
    with pytest.raises(InvalidStatus) as refused:
        websocket(vela, "producer", None)
    assert refused.value.response.headers.get_all("WWW-Authenticate") == CHALLENGES


def test_guessing_passwords_does_not_stop_producers(vela: VelaProcess) -> None:
    """A producer publishes while eight clients guess passwords. Each guess costs the broker 50 ms of hashing."""
    client = client_of(vela, token("app"))
    producer = client.create_producer(ORDERS.full)
    pull = f"{vela.http_url}/pull/v1/public/default/access-orders?queue=0&offset=0"

    def guess(number: int) -> int:
        return httpx.get(pull, auth=("app", f"guess {number}"), timeout=60).status_code

    with ThreadPoolExecutor(8) as threads:
        guesses = [threads.submit(guess, number) for number in range(24)]
        sent = 0
        while not all(each.done() for each in guesses):
            producer.send(b"beside")
            sent += 1
        assert {each.result() for each in guesses} == {401}
    assert sent > 24  # if the event loop did the hashing, only one message would pass between two guesses
    client.close()


def test_apaches_client_gets_its_token_from_an_issuer(vela: VelaProcess, issuer: LoginServer) -> None:
    client = apache(vela, pulsar.AuthenticationOauth2(oauth2(issuer)))
    consumer = client.subscribe(ORDERS.full, "by-issuer")
    client.create_producer(ORDERS.full).send(b"by issuer")
    assert consumer.receive(RECEIVE_MS).data() == b"by issuer"
    with pytest.raises(pulsar.exceptions.AuthorizationError):
        client.create_producer("somewhere-else")
    client.close()


@pytest.mark.parametrize("face", ["pulsar_url", "websocket_url"])
def test_velas_client_renews_its_token_at_the_issuer_and_keeps_its_connection(
    vela: VelaProcess, issuer: LoginServer, face: str
) -> None:
    asked = len(issuer.forms)
    issuer.lifetime_s = 2
    try:
        client = velas.Client(getattr(vela, face), authentication=velas.AuthenticationOauth2(oauth2(issuer)))
        producer = client.create_producer(ORDERS.full)
        wait_until(lambda: len(issuer.forms) > asked + 1, "the client to be asked for a new token")
        producer.send(b"after")
        assert producer.is_connected()
        client.close()
    finally:
        issuer.lifetime_s = 300


def test_a_token_that_an_issuer_made_for_vela_opens_every_door_and_other_tokens_none(
    vela: VelaProcess, issuer: LoginServer
) -> None:
    mine = issuer.access_token({"sub": "root", "aud": "vela"}, key_id=None)
    others = issuer.access_token({"sub": "root", "aud": "mail"}, key_id=None)
    foreign = issuer.access_token({"sub": "root", "aud": "vela", "iss": "https://elsewhere"}, key_id=None)
    paths = ("/metrics", "/admin/v2/tenants", "/pull/v1/public/default/access-orders?queue=0&offset=0")
    for made, status in ((mine, 200), (others, 401), (foreign, 401)):
        assert [get(vela, path, made) for path in paths] == [status] * 3
        assert status_of(partial(websocket, vela, "producer", made)) == (101 if status == 200 else 401)
        answer = httpx.get(
            f"{vela.console_url}/api/v1/stats", headers={"Authorization": f"Bearer {made}"}, timeout=20
        )
        assert answer.status_code == status
    series = httpx.get(
        f"{vela.http_url}/metrics", headers={"Authorization": f"Bearer {mine}"}, timeout=20
    ).text
    assert f'vela_openid_issuer_up{{issuer="{issuer.issuer}"}} 1.0' in series
    assert 'pulsar_authentication_failures_total{auth_method="token"}' in series


def test_the_command_line_gets_its_token_from_an_issuer(
    vela: VelaProcess, issuer: LoginServer, tmp_path: Path
) -> None:
    key_file = tmp_path / "key.json"
    for secret, exit_code in (("hush", 0), ("wrong", 1)):
        key_file.write_text(json.dumps({"client_id": "root", "client_secret": secret}), encoding="utf-8")
        options = {
            "--url": vela.websocket_url,
            "--console-url": vela.console_url,
            "--oauth2-issuer-url": issuer.issuer,
            "--oauth2-key-file": str(key_file),
            "--oauth2-audience": "vela",
        }
        words = [word for pair in options.items() for word in pair]
        for command in (["produce", ORDERS.full, "hello"], ["topics", "list"]):
            done = subprocess.run(
                [sys.executable, "-m", "vela.cli", *words, *command],
                cwd=PROJECT_DIR,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == exit_code, done.stderr
            assert ("invalid_client" in done.stderr) == bool(exit_code)


def test_a_client_certificate_that_expires_ends_its_connections(
    vela: VelaProcess, authority: Authority
) -> None:
    """A JSON WebSocket and the binary protocol: both know when the certificate ends."""
    pair = authority.issue("app", lasts=datetime.timedelta(seconds=3))
    shown = Shown(vela, authority, pair)
    client = shown.client()
    producer = client.create_producer(ORDERS.full)
    producer.send(b"before")
    context = ssl.create_default_context(cafile=authority.file)
    context.load_cert_chain(pair.certificate, pair.private_key)
    url = f"wss://localhost:{vela.environment['VELA_HTTP_TLS_PORT']}/ws/v2/producer/persistent/public/default"
    with connect(f"{url}/access-orders", ssl=context) as socket, pytest.raises(ConnectionClosed) as closed:
        socket.recv(timeout=20)
    assert closed.value.rcvd is not None
    assert "have expired" in closed.value.rcvd.reason
    wait_until(lambda: not producer.is_connected(), "the producer to lose its connection")
    client.close()
