"""Tokens of OpenID Connect issuers, against an issuer that the test runs: broker.access.issuers and discovery."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from joserfc.jwk import ECKey, RSAKey

from broker.access.issuers import RETRY_S, Issuers
from broker.conf import BrokerSettings
from broker.core.access.principal import Principal
from broker.core.errors import AuthenticationFailed
from tests.support.login_server import LoginServer, running_login_server

NOW_MS = 1_800_000_000_000
DISCOVERY, KEYS = "/.well-known/openid-configuration", "/keys"


class Side:
    """What the broker knows about one issuer, with a clock that the test moves."""

    def __init__(self, server: LoginServer, **more: str) -> None:
        environment = {
            "VELA_AUTHENTICATION": "openid",
            "VELA_OPENID_ISSUERS": server.issuer,
            "VELA_OPENID_AUDIENCES": "vela",
            "VELA_OPENID_KEYS_REFRESH_S": "1000",
            "VELA_OPENID_KEYS_EXPIRY_S": "5000",
            "VELA_OPENID_UNKNOWN_KEY_REFRESH_S": "300",
            **more,
        }
        self.server = server
        self.now_s = 0.0
        self.issuers = Issuers(BrokerSettings.from_environment(environment), lambda: self.now_s)

    def token(self, **changed: object) -> str:
        return self.server.access_token(
            {"sub": "app", "aud": "vela", "exp": NOW_MS // 1000 + 60, **changed}, key_id=None
        )

    async def verify(self, made: str) -> Principal:
        origin = self.issuers.origin(made)
        assert origin is not None
        found = self.issuers.verify_now(made, origin, NOW_MS)
        return found or await self.issuers.verify(made, origin, NOW_MS)

    async def refused(self, made: str) -> str:
        with pytest.raises(AuthenticationFailed) as refused:
            await self.verify(made)
        return str(refused.value)

    async def turn(self) -> bool:
        """Run one turn of the broker, wait for the refreshes it began, and return whether keys have changed."""
        changed = self.issuers.turn()
        await asyncio.gather(*self.issuers._refreshes.values())
        return self.issuers.turn() or changed

    def is_up(self) -> bool:
        (state,) = self.issuers.states()
        return state.is_up


@pytest.fixture
def server() -> Iterator[LoginServer]:
    with running_login_server() as server:
        yield server


@pytest.fixture
def side(server: LoginServer) -> Side:
    return Side(server)


async def test_many_clients_at_once_ask_the_issuer_once(side: Side) -> None:
    made = side.token()
    found = await asyncio.gather(*(side.verify(made) for _ in range(50)))
    assert {each.role for each in found} == {"app"}
    assert side.server.asked == [DISCOVERY, KEYS]
    assert side.is_up()


async def test_a_token_signed_with_an_rsa_key_is_accepted(side: Side) -> None:
    side.server.use_key(RSAKey.generate_key(2048, {"kid": "rsa"}), "RS256")
    assert (await side.verify(side.token())).role == "app"


async def test_a_token_of_another_issuer_is_not_taken_for_one_of_this_issuer(side: Side) -> None:
    assert side.issuers.origin(side.token(iss="https://elsewhere.example.org")) is None
    assert side.issuers.origin(side.token(iss=f"{side.server.issuer}/")) is None
    assert side.server.asked == []


async def test_a_new_key_is_fetched_when_a_token_names_it(side: Side) -> None:
    old = side.token()
    await side.verify(old)
    side.server.use_key(ECKey.generate_key("P-256", {"kid": "two"}), "ES256")
    side.now_s += 300
    assert (await side.verify(side.token())).role == "app"
    assert side.server.asked == [DISCOVERY, KEYS] * 2
    assert await side.turn()  # the keys have changed, so tokens must be verified again
    assert "does not publish the key" in await side.refused(old)


async def test_made_up_key_ids_make_the_broker_ask_the_issuer_only_now_and_then(side: Side) -> None:
    await side.verify(side.token())
    side.now_s += 301
    for number in range(100):
        made_up = side.server.access_token({"sub": "app", "aud": "vela"}, key_id=f"k{number}")
        assert "does not publish the key" in await side.refused(made_up)
    assert side.server.asked == [DISCOVERY, KEYS] * 2
    assert (await side.verify(side.token())).role == "app"


async def test_known_keys_go_on_working_while_the_issuer_is_away_until_they_expire(
    side: Side, caplog: pytest.LogCaptureFixture
) -> None:
    made = side.token()
    await side.verify(made)
    side.server.status = 503
    side.now_s = 1000
    for _ in range(5):
        await side.turn()
        side.now_s += RETRY_S
    assert caplog.text.count("cannot be read") == 1
    assert side.server.asked == [DISCOVERY, KEYS] + [DISCOVERY] * 5
    assert not side.is_up()
    assert (await side.verify(made)).role == "app"
    assert not await side.turn()
    side.now_s = 5001
    assert await side.turn()  # the broker forgets which tokens it has verified
    assert not await side.turn()
    assert "try again later" in await side.refused(made)
    side.server.status = 200
    assert "try again later" in await side.refused(made)  # the broker asked a moment ago
    side.now_s += RETRY_S
    assert (await side.verify(made)).role == "app"
    assert side.is_up()
    assert "can be read again" in caplog.text


async def test_an_issuer_that_recovers_is_read_again_before_its_keys_are_old(side: Side) -> None:
    await side.verify(side.token())
    side.server.status = 503
    side.now_s = 300
    made_up = side.server.access_token({"sub": "app", "aud": "vela"}, key_id="other")
    assert "try again later" in await side.refused(made_up)
    side.server.status = 200
    await side.turn()
    assert not side.is_up()  # the broker asked a moment ago
    side.now_s += RETRY_S
    await side.turn()
    assert side.is_up()
    assert side.server.asked == [DISCOVERY, KEYS, DISCOVERY, DISCOVERY, KEYS]


async def test_an_issuer_that_was_never_reachable_lets_no_one_in_until_it_is(side: Side) -> None:
    side.server.status = 500
    assert "try again later" in await side.refused(side.token())
    side.server.status = 200
    side.now_s += RETRY_S
    assert (await side.verify(side.token())).role == "app"


@pytest.mark.parametrize(
    "discovery",
    [
        {"issuer": "https://elsewhere.example.org"},
        {"jwks_uri": None},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": "https://["},
        {"jwks_uri": "http://127.0.0.1:1/keys"},
        {"filler": "x" * 1_100_000},
    ],
)
async def test_a_discovery_document_that_makes_no_sense_counts_as_no_answer(
    side: Side, discovery: dict[str, Any]
) -> None:
    side.server.discovery = discovery
    assert "try again later" in await side.refused(side.token())
    assert not side.is_up()


async def test_a_process_without_an_event_loop_reads_the_keys_itself(side: Side) -> None:
    made = side.token()
    origin = side.issuers.origin(made)
    assert origin is not None
    for _ in range(3):
        found = await asyncio.to_thread(side.issuers.verify_blocking, made, origin, NOW_MS)
        assert found.role == "app"
    assert side.server.asked == [DISCOVERY, KEYS]
