"""A role's limits, tokens that are revoked and keys that an issuer replaces, at every door of one started Vela."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from joserfc.jwk import ECKey
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from broker.core.access.permissions import Permission, Subject
from broker.storage import access as store
from broker.storage.connection import connect as connect_database
from tests.support.login_server import LoginServer, running_login_server
from tests.support.raw_pulsar import RawPulsar
from tests.support.tokens import ENVIRONMENT, token
from tests.support.vela import VelaProcess, started_vela
from tests.support.waiting import wait_until
from vela.wire.binary import commands
from vela.wire.pb import vela_pulsar_pb2 as pb

PULL = "/pull/v1/public/default/doors?queue=0&offset=0"
ROLES = ("app", "ready", "pulling", "opening", "listing", "sending", "calm", "issued")
REQUESTS, BYTES = "VELA_HTTP_REQUEST_RATE_PER_ROLE", "VELA_WEBSOCKET_BYTE_RATE_PER_ROLE"
AT_ONCE = 20  # requests at the same time; single requests could be too slow to reach the limit
# Without this context, httpx would read all CA certificates again for each request.
NO_TLS = ssl.create_default_context()


@pytest.fixture(scope="module")
def issuer() -> Iterator[LoginServer]:
    with running_login_server() as server:
        yield server


@pytest.fixture(scope="module")
def vela(vela_data: Path, issuer: LoginServer) -> Iterator[VelaProcess]:
    settings = {
        **ENVIRONMENT,
        "VELA_AUTHENTICATION": "token,openid",
        "VELA_TOKEN_AUDIENCE": "vela",
        "VELA_OPENID_ISSUERS": issuer.issuer,
        "VELA_OPENID_AUDIENCES": "vela",
        "VELA_OPENID_UNKNOWN_KEY_REFRESH_S": "1",
        "VELA_METRICS_ROLES": "*",
        REQUESTS: "4",
        BYTES: "2000",
    }
    with started_vela(settings, data=vela_data) as process:

        async def allow() -> None:
            connection = await connect_database(process.database_url, name="test")
            async with connection:
                both = (Permission.PRODUCE, Permission.CONSUME)
                await store.set_permissions(
                    connection, Subject.of_namespace("public", "default"), ROLES, both
                )

        asyncio.run(allow())
        ready = made_for("ready")
        wait_until(lambda: opened(process, ready)[0] == 101, "the permissions are in force")
        yield process


def made_for(role: str) -> str:
    return token(role, audience="vela")


def get(vela: VelaProcess, path: str, made: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {made}"}
    return httpx.get(vela.http_url + path, headers=headers, timeout=60, verify=NO_TLS)


def metrics(vela: VelaProcess) -> str:
    return httpx.get(f"{vela.http_url}/metrics", timeout=60, verify=NO_TLS).text


def producing(vela: VelaProcess, made: str, topic: str = "doors") -> ClientConnection:
    path = f"/ws/v2/producer/persistent/public/default/{topic}"
    headers = {"Authorization": f"Bearer {made}"}
    return connect(vela.websocket_url + path, additional_headers=headers, open_timeout=60)


def listed(vela: VelaProcess, made: str) -> tuple[int, str]:
    answer = get(vela, "/admin/v2/clusters", made)
    return answer.status_code, answer.text


def opened(vela: VelaProcess, made: str) -> tuple[int, str]:
    try:
        with producing(vela, made):
            return 101, ""
    except InvalidStatus as refused:
        return refused.response.status_code, (refused.response.body or b"").decode()


def pulled(vela: VelaProcess, made: str) -> tuple[int, str]:
    answer = get(vela, PULL, made)
    return answer.status_code, answer.text


def hello(made: str) -> bytes:
    """Return the CONNECT of a client with this token."""
    return commands.connect(
        client_version="raw", protocol_version=21, auth_method="token", auth_data=made.encode()
    )


def reached(vela: VelaProcess, setting: str) -> bool:
    """Return whether the metrics say that a client has reached this limit."""
    series = f'vela_connection_limits_reached_total{{setting="{setting}"}}'
    return series in metrics(vela)


@pytest.mark.parametrize(
    ("role", "ask"),
    [("listing", listed), ("opening", opened), ("pulling", pulled)],
    ids=["admin", "ws", "pull"],
)
def test_a_role_that_asks_too_often_is_refused_at_every_door_and_others_are_not(
    vela: VelaProcess, role: str, ask: Callable[[VelaProcess, str], tuple[int, str]]
) -> None:
    made = made_for(role)
    with ThreadPoolExecutor(AT_ONCE) as askers:
        answers = list(askers.map(lambda _: ask(vela, made), range(10 * AT_ONCE)))
    said = next((text for status, text in answers if status == 429), "")
    assert REQUESTS in said
    assert ask(vela, made_for("calm"))[0] in (101, 200)
    assert reached(vela, REQUESTS)


def test_the_sockets_of_a_role_share_its_bytes_and_no_message_is_refused(vela: VelaProcess) -> None:
    message = json.dumps({"payload": base64.b64encode(bytes(1000)).decode()})
    with producing(vela, made_for("sending")) as first, producing(vela, made_for("sending")) as second:
        for _ in range(3):
            first.send(message)
            second.send(message)
        answers = [json.loads(each.recv(timeout=60)) for each in (first, second) for _ in range(3)]
    assert {each["result"] for each in answers} == {"ok"}
    assert reached(vela, BYTES)


def test_a_revoked_token_ends_a_connection_a_socket_and_a_long_pull(vela: VelaProcess) -> None:
    made = token("app", token_id="stolen", audience="vela")
    with ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(1))
        peer = stack.enter_context(RawPulsar(vela.pulsar_url, connect=False))
        peer.ask("CONNECTED", hello(made))
        socket = stack.enter_context(producing(vela, made, "quiet"))
        path = "/pull/v1/public/default/quiet?queue=0&offset=0&suspend=true&suspend_timeout_ms=50000"
        pull = threads.submit(get, vela, path, made)
        held = "\nvela_pulls_held 1.0\n"
        wait_until(lambda: held in metrics(vela), "the pull to be parked")
        assert "is revoked" in vela.manage("token", "revoke", "stolen")
        assert [each.error.error for each in peer.until_closed()] == [pb.AuthenticationError]
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=20)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
        answer = pull.result(20)
        assert (answer.status_code, "revoked" in answer.text) == (401, True)


def test_a_token_for_another_audience_opens_no_door(vela: VelaProcess) -> None:
    for made in (token("app"), token("app", audience="mail")):
        assert [ask(vela, made)[0] for ask in (listed, opened, pulled)] == [401] * 3
        with RawPulsar(vela.pulsar_url, connect=False) as peer:
            assert "not valid" in peer.ask("ERROR", hello(made)).error.message


def test_a_key_that_the_issuer_replaces_signs_no_valid_token_any_more(
    vela: VelaProcess, issuer: LoginServer
) -> None:
    def made(**claims: object) -> str:
        return issuer.access_token({"sub": "issued", "aud": "vela", **claims}, key_id=None)

    old = made()
    assert pulled(vela, old)[0] == 200
    assert pulled(vela, made(exp=1))[0] == 401
    issuer.use_key(ECKey.generate_key("P-256", {"kid": "two"}), "ES256")
    wait_until(lambda: pulled(vela, made())[0] == 200, "the broker to read the new key")
    wait_until(lambda: pulled(vela, old)[0] == 401, "the broker to forget the old key")
