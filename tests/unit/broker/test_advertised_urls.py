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


def test_the_address_for_tls_must_have_it() -> None:
    with pytest.raises(SettingInvalid, match=r"VELA_ADVERTISED_TLS_URL .* pulsar\+ssl://host:port"):
        BrokerSettings.from_environment({"VELA_ADVERTISED_TLS_URL": "pulsar://out:6651"})
