"""`manage.py runbroker` needs an explicit choice of authentication on an address that other machines can reach."""

from __future__ import annotations

import pytest
from django.core.management import CommandError

from broker.conf import EXIT_SETTING_INVALID, BrokerSettings, SettingInvalid
from broker.management.commands import runbroker


class _GoesOn(SettingInvalid):
    """Raised instead of the rest of the start."""


def start(monkeypatch: pytest.MonkeyPatch, **environment: str) -> CommandError:
    """Run the command up to the point where it looks at the database, and return the error that ended it."""

    def go_on(_: str) -> None:
        raise _GoesOn("went on")

    settings = BrokerSettings.from_environment(environment)
    monkeypatch.setattr(runbroker, "broker_settings", lambda: settings)
    monkeypatch.setattr(runbroker, "_refuse_unusable_database", go_on)
    with pytest.raises(CommandError) as error:
        runbroker.Command().handle()
    return error.value


def test_an_open_address_without_a_choice_ends_with_78(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = start(monkeypatch, VELA_BIND="0.0.0.0")
    assert refused.returncode == EXIT_SETTING_INVALID
    assert "VELA_AUTHENTICATION is not set: set it to token, or to none" in str(refused)


def test_an_open_address_with_authentication_none_starts_with_a_warning_and_loopback_does_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert str(start(monkeypatch)) == "went on"
    assert not caplog.records
    assert str(start(monkeypatch, VELA_BIND="0.0.0.0", VELA_AUTHENTICATION="none")) == "went on"
    assert "everybody who reaches 0.0.0.0 may publish" in caplog.text
