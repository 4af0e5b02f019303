"""The broker's connection string from Django's settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.db.backends.postgresql.psycopg_any import IsolationLevel
from psycopg.conninfo import conninfo_to_dict

from broker.storage.conninfo import conninfo


def test_options_of_libpq_need_not_be_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {
        "connect_timeout": 10,
        "keepalives_idle": "30",
        "sslmode": None,
        "isolation_level": IsolationLevel.SERIALIZABLE,
        "prepare_threshold": 5,
        "server_side_binding": True,
    }
    databases = {"default": {"NAME": "vela", "OPTIONS": options}}
    monkeypatch.setattr("broker.storage.conninfo.settings", SimpleNamespace(DATABASES=databases))
    found = conninfo_to_dict(conninfo())
    assert {key: str(found.get(key)) for key in options if key in found} == {
        "connect_timeout": "10",
        "keepalives_idle": "30",
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"assume_role": "owner"}, "-c role=owner"),
        ({"assume_role": r"the \ owner"}, r"-c role=the\ \\\ owner"),
        ({"assume_role": "owner", "options": "-c jit=off"}, "-c jit=off -c role=owner"),
        ({"assume_role": "", "options": "-c jit=off"}, "-c jit=off"),
    ],
)
def test_the_role_that_django_assumes_is_the_brokers_role_too(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], expected: str
) -> None:
    databases = {"default": {"NAME": "vela", "OPTIONS": given}}
    monkeypatch.setattr("broker.storage.conninfo.settings", SimpleNamespace(DATABASES=databases))
    assert conninfo_to_dict(conninfo())["options"] == expected
