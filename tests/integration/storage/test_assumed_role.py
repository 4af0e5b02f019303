"""The broker's connections take the role that Django's database option names."""

from __future__ import annotations

from types import SimpleNamespace

import psycopg
import pytest
from django.db import connection

from broker.storage.conninfo import conninfo


@pytest.mark.django_db(transaction=True)
def test_a_connection_has_the_role_that_django_assumes(monkeypatch: pytest.MonkeyPatch) -> None:
    with connection.cursor() as cursor:
        cursor.execute('CREATE ROLE "the owner" NOLOGIN')
    try:
        own = {**connection.settings_dict, "OPTIONS": {"assume_role": "the owner"}}
        monkeypatch.setattr("broker.storage.conninfo.settings", SimpleNamespace(DATABASES={"default": own}))
        monkeypatch.setattr(
            "broker.storage.conninfo.broker_settings", lambda: SimpleNamespace(database_name="")
        )
        with psycopg.connect(conninfo()) as opened:
            assert opened.execute("SELECT current_user").fetchone() == ("the owner",)
    finally:
        with connection.cursor() as cursor:
            cursor.execute('DROP ROLE "the owner"')
