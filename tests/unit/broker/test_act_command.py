"""The confirmation that `manage.py` commands ask for before they act."""

from __future__ import annotations

import getpass
import io
import os

import pytest
from django.core.management.base import CommandError

from broker.management.act_command import ActCommand
from broker.management.caller import caller


def test_a_command_that_cannot_ask_names_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(CommandError, match="add --yes to apply the act, or --dry-run"):
        ActCommand()._agrees()


def test_only_yes_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\nYES\n\nno\n"))
    assert [ActCommand()._agrees() for _ in range(4)] == [True, True, False, False]


def test_a_user_without_a_name_is_a_number_in_the_act_log(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    assert caller() == getpass.getuser()
    monkeypatch.setattr("getpass.getuser", nameless)
    assert caller() == f"uid {os.geteuid()}"
