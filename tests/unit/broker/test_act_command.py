"""The confirmation that `manage.py` commands ask for before they act."""

from __future__ import annotations

import io

import pytest
from django.core.management.base import CommandError

from broker.management.act_command import ActCommand


def test_a_command_that_cannot_ask_names_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(CommandError, match="add --yes to apply the act, or --dry-run"):
        ActCommand()._agrees()


def test_only_yes_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\nYES\n\nno\n"))
    assert [ActCommand()._agrees() for _ in range(4)] == [True, True, False, False]
