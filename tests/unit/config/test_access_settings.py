"""Settings that say who may use the broker: which settings go together, and which addresses need them."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from broker.access.access import Access
from broker.access.token_keys import TokenKeys
from broker.conf import BrokerSettings, SettingInvalid
from broker.core.access.tokens import issue, secret_key, verify
from broker.storage.pool import ConnectionPool
from tests.support.tokens import ENVIRONMENT, SECRET


@pytest.mark.parametrize("bind", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_a_loopback_address_needs_no_authentication(bind: str) -> None:
    assert not BrokerSettings.from_environment({}).check_exposure(bind)


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "10.0.0.5", "fd00::1", "broker.example.org"])
def test_another_address_needs_authentication_or_the_explicit_choice_of_none(bind: str) -> None:
    with pytest.raises(SettingInvalid, match="VELA_AUTHENTICATION is not set"):
        BrokerSettings.from_environment({}).check_exposure(bind)
    assert BrokerSettings.from_environment({"VELA_AUTHENTICATION": "none"}).check_exposure(bind)
    assert not BrokerSettings.from_environment(ENVIRONMENT).check_exposure(bind)


@pytest.mark.parametrize("methods", ["password", "none,token"])
def test_an_unknown_method_is_refused_with_the_list(methods: str) -> None:
    with pytest.raises(SettingInvalid, match="it takes token, tls, basic, openid"):
        BrokerSettings.from_environment({**ENVIRONMENT, "VELA_AUTHENTICATION": methods})


def test_a_comma_after_the_last_method_is_ignored() -> None:
    settings = BrokerSettings.from_environment({**ENVIRONMENT, "VELA_AUTHENTICATION": "token,"})
    assert settings.authentication == ("token",)


def test_tokens_need_a_key() -> None:
    with pytest.raises(SettingInvalid, match="VELA_TOKEN_SECRET_KEY_FILE"):
        BrokerSettings.from_environment({"VELA_AUTHENTICATION": "token"})


def test_a_broker_needs_an_authority_for_certificates_of_clients() -> None:
    settings = BrokerSettings.from_environment({"VELA_AUTHENTICATION": "tls"})  # for a worker, this is enough
    with pytest.raises(SettingInvalid, match="VELA_TLS_TRUST_FILE"):
        Access(settings, ConnectionPool("", name="none", size=1))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VELA_TOKEN_SECRET_KEY", "short"),
        ("VELA_TOKEN_PUBLIC_KEY", SECRET),
        ("VELA_TOKEN_SECRET_KEY_FILE", "/nonexistent/key"),
        ("VELA_TOKEN_PUBLIC_KEY_FILE", "/nonexistent/key"),
    ],
)
def test_a_key_that_cannot_be_used_is_named_without_its_value(name: str, value: str) -> None:
    settings = BrokerSettings.from_environment({"VELA_AUTHENTICATION": "token", name: value})
    with pytest.raises(SettingInvalid, match=name) as error:
        TokenKeys(settings)
    assert value not in str(error.value) or value.startswith("/")


def test_a_key_file_that_changes_is_read_again_and_a_bad_one_leaves_the_old_key(tmp_path: Path) -> None:
    first, second = bytes(range(32)), bytes(range(32, 64))
    path = tmp_path / "key"
    path.write_bytes(base64.b64encode(first))
    keys = TokenKeys(
        BrokerSettings.from_environment(
            {"VELA_AUTHENTICATION": "token", "VELA_TOKEN_SECRET_KEY_FILE": str(path)}
        )
    )
    made = issue(secret_key(second), role="app", token_id="t", issued_ms=0, expires_ms=None)
    assert not keys.refresh()
    path.write_bytes(b"short")
    assert not keys.refresh()
    old = issue(secret_key(first), role="app", token_id="t", issued_ms=0, expires_ms=None)
    assert verify(old, keys.current(), now_ms=1).role == "app"
    path.write_bytes(second)
    assert keys.refresh()
    assert verify(made, keys.current(), now_ms=1).role == "app"
    path.unlink()
    assert not keys.refresh()
    assert verify(made, keys.current(), now_ms=1).role == "app"
