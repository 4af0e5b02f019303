"""The addresses that the broker tells clients to connect to."""

from __future__ import annotations

import pytest

from broker.conf import BrokerSettings, SettingInvalid


@pytest.mark.parametrize(
    ("environment", "url", "tls_url"),
    [
        ({}, "pulsar://127.0.0.1:6650", "pulsar+ssl://127.0.0.1:6650"),
        ({"VELA_ADVERTISED_URL": "pulsar://in:6650"}, "pulsar://in:6650", "pulsar+ssl://in:6650"),
        ({"VELA_ADVERTISED_URL": "pulsar+ssl://p:6651"}, "pulsar+ssl://p:6651", "pulsar+ssl://p:6651"),
        (
            {"VELA_ADVERTISED_URL": "pulsar://in:6650", "VELA_ADVERTISED_TLS_URL": "pulsar+ssl://out:6651"},
            "pulsar://in:6650",
            "pulsar+ssl://out:6651",
        ),
    ],
)
def test_clients_with_and_without_tls_have_an_address_each(
    environment: dict[str, str], url: str, tls_url: str
) -> None:
    settings = BrokerSettings.from_environment(environment)
    assert (settings.advertised_url, settings.advertised_tls_url) == (url, tls_url)


TLS = {"VELA_TLS_CERTIFICATE_FILE": "c", "VELA_TLS_KEY_FILE": "k"}


@pytest.mark.parametrize(
    ("environment", "url", "tls_url"),
    [
        ({}, "pulsar://127.0.0.1:6650", "pulsar+ssl://127.0.0.1:6651"),
        ({"VELA_PULSAR_TLS_PORT": "7"}, "pulsar://127.0.0.1:6650", "pulsar+ssl://127.0.0.1:7"),
        ({"VELA_PULSAR_PORT": "off"}, "pulsar+ssl://127.0.0.1:6651", "pulsar+ssl://127.0.0.1:6651"),
        ({"VELA_ADVERTISED_URL": "pulsar://in:1"}, "pulsar://in:1", "pulsar+ssl://in:6651"),
        ({"VELA_ADVERTISED_TLS_URL": "pulsar+ssl://o:1"}, "pulsar://127.0.0.1:6650", "pulsar+ssl://o:1"),
    ],
)
def test_a_broker_with_a_certificate_advertises_its_own_port(
    environment: dict[str, str], url: str, tls_url: str
) -> None:
    settings = BrokerSettings.from_environment(TLS | environment)
    assert (settings.advertised_url, settings.advertised_tls_url) == (url, tls_url)


def test_handlers_and_probes_use_the_port_that_is_open() -> None:
    both = BrokerSettings.from_environment(TLS)
    assert (both.url, both.console_probe) == ("http://127.0.0.1:8080", (8000, False))
    off = BrokerSettings.from_environment(TLS | {"VELA_HTTP_PORT": "off", "VELA_CONSOLE_PORT": "OFF"})
    assert (off.url, off.console_probe) == ("https://127.0.0.1:8443", (8001, True))
    assert off.open_ports == {
        "VELA_PULSAR_PORT": 6650,
        "VELA_PULSAR_TLS_PORT": 6651,
        "VELA_HTTP_TLS_PORT": 8443,
        "VELA_CONSOLE_TLS_PORT": 8001,
    }


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"VELA_PULSAR_PORT": "off"}, "VELA_PULSAR_PORT is off: set VELA_PULSAR_TLS_PORT"),
        (TLS | {"VELA_HTTP_PORT": "off", "VELA_HTTP_TLS_PORT": "off"}, "VELA_HTTP_PORT is off"),
        ({"VELA_TLS_KEY_FILE": "k"}, "need each other"),
        ({"VELA_TLS_TRUST_FILE": "t"}, "VELA_TLS_TRUST_FILE needs"),
        (TLS | {"VELA_TLS_REQUIRE_CLIENT_CERTIFICATE": "1"}, "set VELA_TLS_TRUST_FILE"),
        ({"VELA_TLS_MIN_VERSION": "1.1"}, "VELA_TLS_MIN_VERSION is '1.1': it takes 1.2 or 1.3"),
        ({"VELA_CLIENT_KEY_FILE": "k"}, "VELA_CLIENT_CERTIFICATE_FILE and VELA_CLIENT_KEY_FILE"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(environment: dict[str, str], says: str) -> None:
    with pytest.raises(SettingInvalid, match=says):
        BrokerSettings.from_environment(environment)


def test_the_address_for_tls_must_have_a_scheme_with_tls() -> None:
    with pytest.raises(SettingInvalid, match=r"VELA_ADVERTISED_TLS_URL .* pulsar\+ssl://host:port"):
        BrokerSettings.from_environment({"VELA_ADVERTISED_TLS_URL": "pulsar://out:6651"})


@pytest.mark.parametrize(("bind", "host"), [("::1", "[::1]"), ("fd00::1", "[fd00::1]"), ("::", "[::1]")])
def test_an_ipv6_address_is_in_brackets_in_every_url(bind: str, host: str) -> None:
    settings = BrokerSettings(bind=bind)
    assert settings.advertised_url == f"pulsar://{host}:6650"
    assert settings.advertised_tls_url == f"pulsar+ssl://{host}:6650"
    assert settings.advertised_http_url == settings.url == settings.local_http_url == f"http://{host}:8080"
