"""The settings that say which hosts and origins may reach the HTTP port."""

from __future__ import annotations

import pytest

from broker.conf import BrokerSettings, SettingInvalid
from broker.core.web_origin import Origin


@pytest.mark.parametrize(
    ("environment", "hosts"),
    [
        ({}, {"127.0.0.1"}),
        ({"VELA_BIND": "0.0.0.0"}, {"127.0.0.1"}),
        ({"VELA_BIND": "::", "VELA_ADVERTISED_URL": "pulsar://Broker:6650"}, {"broker", "[::1]"}),
        ({"VELA_ADVERTISED_HTTP_URL": "https://Web.example:443"}, {"127.0.0.1", "web.example"}),
        ({"VELA_ADVERTISED_HTTP_URL": "https://web.example/"}, {"127.0.0.1", "web.example"}),
        ({"VELA_ADVERTISED_HTTP_URL": "https://web.example/vela"}, {"127.0.0.1", "web.example"}),
        ({"VELA_BIND": "fd00::1", "VELA_ADVERTISED_URL": "pulsar://a:1"}, {"[fd00::1]", "a"}),
        ({"VELA_BIND": "10.0.0.5"}, {"10.0.0.5"}),
    ],
)
def test_own_hosts_are_the_bind_and_the_advertised_addresses(
    environment: dict[str, str], hosts: set[str]
) -> None:
    assert BrokerSettings.from_environment(environment).own_hosts == hosts


def test_lists_are_read_with_blanks_and_any_case() -> None:
    settings = BrokerSettings.from_environment(
        {"VELA_ALLOWED_HOSTS": " A.example, .B.example ,[::2],*,", "VELA_ALLOWED_ORIGINS": "https://A:444/ ,"}
    )
    assert settings.allowed_hosts == {"a.example", ".b.example", "[::2]", "*"}
    assert settings.allowed_origins == {Origin("https", "a", 444)}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VELA_ALLOWED_HOSTS", "a.example:8080"),
        ("VELA_ALLOWED_HOSTS", "https://a.example"),
        ("VELA_ALLOWED_HOSTS", "::1"),
        ("VELA_ALLOWED_HOSTS", "*.example.org"),
        ("VELA_ALLOWED_ORIGINS", "a.example"),
        ("VELA_ALLOWED_ORIGINS", "null"),
        ("VELA_ALLOWED_ORIGINS", "*"),
        ("VELA_ALLOWED_ORIGINS", "https://a.example/shop"),
    ],
)
def test_impossible_hosts_and_origins_are_refused_at_start(name: str, value: str) -> None:
    with pytest.raises(SettingInvalid, match=name):
        BrokerSettings.from_environment({name: value})
