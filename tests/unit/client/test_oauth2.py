"""Tokens by client credentials: vela.aio.oauth2, against a login server that the test runs."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import vela
from tests.support.login_server import LoginServer, running_login_server
from vela.aio.connections.credentials import credentials_of
from vela.aio.oauth2 import AuthenticationOauth2, _endpoint
from vela.errors import ErrorGettingAuthenticationData, InvalidConfiguration

KEY = {"type": "client_credentials", "client_id": "shop", "client_secret": "hush/ü%"}


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def server() -> Iterator[LoginServer]:
    with running_login_server() as server:
        server.services = {"shop": "hush/ü%"}
        yield server


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key.json"
    path.write_text(json.dumps(KEY), encoding="utf-8")
    return path


def credentials(server: LoginServer, clock: Clock | None = None, **more: str) -> AuthenticationOauth2:
    found = AuthenticationOauth2(json.dumps({"issuer_url": server.issuer, **more}))
    found._now_s = clock or Clock()
    return found


def test_client_credentials_are_one_of_velas_ways_to_authenticate() -> None:
    assert vela.AuthenticationOauth2 is AuthenticationOauth2
    assert AuthenticationOauth2.method == "token"


async def test_a_token_is_kept_until_shortly_before_its_end(server: LoginServer, key_file: Path) -> None:
    clock = Clock()
    found = credentials(server, clock, private_key=str(key_file), audience="vela", scope="read write")
    first = await found.data()
    assert json.loads(base64.urlsafe_b64decode(first.split(b".")[1] + b"=="))["sub"] == "shop"
    assert server.forms == [
        {
            "grant_type": "client_credentials",
            "client_id": "shop",
            "client_secret": "hush/ü%",
            "audience": "vela",
            "scope": "read write",
        }
    ]
    clock.now_s = 269
    assert await found.data() == first
    assert len(server.forms) == 1
    clock.now_s = 270  # the token lives for 300 s
    await found.data()
    assert len(server.forms) == 2
    assert server.asked.count("/.well-known/openid-configuration") == 1


async def test_a_token_that_the_broker_does_not_accept_is_replaced(
    server: LoginServer, key_file: Path
) -> None:
    clock = Clock()
    found = credentials(server, clock, private_key=str(key_file))
    first = await found.data()
    found.refused(b"an older token")
    assert await found.data() == first
    found.refused(first)
    await found.data()
    assert len(server.forms) == 2


async def test_an_endpoint_that_has_moved_is_found_again_after_an_error(
    server: LoginServer, key_file: Path
) -> None:
    found = credentials(server, private_key=str(key_file))
    first = await found.data()
    found.refused(first)
    found._endpoint = f"{server.issuer}/former"
    with pytest.raises(ErrorGettingAuthenticationData, match="/former answers"):
        await found.data()
    assert await found.data()


async def test_a_key_is_a_path_an_url_or_two_fields(server: LoginServer, key_file: Path) -> None:
    encoded = base64.b64encode(json.dumps(KEY).encode()).decode()
    keys: tuple[dict[str, Any], ...] = (
        {"private_key": str(key_file)},
        {"private_key": f"file://{key_file}"},
        {"private_key": f"file:{key_file}"},
        {"private_key": f"data:application/json;base64,{encoded}"},
        {"client_id": "shop", "client_secret": "hush/ü%"},
    )
    for fields in keys:
        assert await credentials(server, **fields).data()
    assert len(server.forms) == 5


async def test_a_new_secret_in_the_file_counts_for_the_next_token(
    server: LoginServer, key_file: Path
) -> None:
    clock = Clock()
    found = credentials(server, clock, private_key=str(key_file))
    await found.data()
    server.services = {"shop": "new"}
    clock.now_s = 400
    with pytest.raises(ErrorGettingAuthenticationData, match="invalid_client: unknown client"):
        await credentials_of(found)
    key_file.write_text(json.dumps({**KEY, "client_secret": "new"}), encoding="utf-8")  # noqa: ASYNC240
    assert await found.data()


async def test_a_server_that_fails_is_named(server: LoginServer, key_file: Path) -> None:
    server.status = 500
    with pytest.raises(ErrorGettingAuthenticationData, match="answers 500: test"):
        await credentials(server, private_key=str(key_file)).data()
    server.status = 200
    for endpoint in ("ftp://x", "https://["):
        server.discovery = {"token_endpoint": endpoint}
        with pytest.raises(ErrorGettingAuthenticationData, match="no token_endpoint"):
            await credentials(server, private_key=str(key_file)).data()
    gone = AuthenticationOauth2(
        json.dumps({"issuer_url": "http://127.0.0.1:1", **KEY, "type": "client_credentials"})
    )
    with pytest.raises(ErrorGettingAuthenticationData, match="does not answer: ConnectError"):
        await gone.data()


@pytest.mark.parametrize("issuer", ["https://login.example.org", "HTTPS://login.example.org"])
def test_a_secret_for_an_https_server_goes_to_no_http_address(issuer: str) -> None:
    assert _endpoint(issuer, {"token_endpoint": "HTTPS://x/token"}) == "HTTPS://x/token"
    with pytest.raises(ErrorGettingAuthenticationData, match=r"no token_endpoint with https$"):
        _endpoint(issuer, {"token_endpoint": "http://x/token"})


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "[]",
        "{}",
        json.dumps({**KEY, "issuer_url": "login.example.org"}),
        json.dumps({**KEY, "issuer_url": "https://["}),
        json.dumps({"issuer_url": "https://x", "type": "password", "client_id": "a", "client_secret": "b"}),
        json.dumps({"issuer_url": "https://x", "client_id": "a"}),
        json.dumps({"issuer_url": "https://x", "private_key": "/nonexistent"}),
        json.dumps({"issuer_url": "https://x", "private_key": "data:application/json;base64,%"}),
        json.dumps({"issuer_url": "https://x", "private_key": "data:application/json;base64,é"}),
        json.dumps({"issuer_url": "https://x", "private_key": "data:application/json,{}"}),
        json.dumps({"issuer_url": "https://x", "private_key": "file://[x"}),
        json.dumps({"issuer_url": "https://x", "private_key": "/etc/a\0b"}),
        json.dumps({"issuer_url": "https://x", "private_key": "/etc/\ud800"}),
        json.dumps({"issuer_url": "https://x", "private_key": "~no-such-user-here/key.json"}),
    ],
)
def test_parameters_that_cannot_work_are_refused_at_once(text: str) -> None:
    with pytest.raises(InvalidConfiguration, match=r"OAuth 2\.0"):
        AuthenticationOauth2(text)
