"""The console's health probes."""

from __future__ import annotations

import psycopg
import pytest
from django.db import connection
from django.test import Client


@pytest.mark.django_db(transaction=True)
def test_readiness_replaces_a_lost_connection_before_it_answers(client: Client) -> None:
    connection.ensure_connection()
    pid = connection.connection.info.backend_pid
    parameters = connection.get_connection_params()
    parameters.pop("cursor_factory", None)
    parameters.pop("context", None)
    with psycopg.connect(**parameters, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
    assert client.get("/readyz").status_code == 200
    assert connection.is_usable()
