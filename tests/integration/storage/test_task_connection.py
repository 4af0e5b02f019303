"""Connections that a process of Celery keeps between its tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import psycopg
import pytest

from broker.storage import task_connection as module
from broker.storage.task_connection import keep_connections, task_connection


@pytest.fixture
def url(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr("broker.storage.short_connection.conninfo", lambda: database_url)
    monkeypatch.setattr(module, "_kept", None)
    yield database_url
    for connection in [each for kept in (module._kept or defaultdict(list)).values() for each in kept]:
        connection.close()


def session() -> int:
    """Run a task, and return the process id of the session that it used."""
    with task_connection("test") as connection:
        return connection.info.backend_pid


def test_a_process_of_celery_keeps_its_connection(url: str) -> None:
    assert session() != session(), "without keep_connections a task's connection is closed"
    keep_connections()
    assert session() == session()
    with task_connection("test", statement_timeout_ms=5000) as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("5s",)
        assert connection.info.backend_pid != session()


def test_a_connection_that_the_server_ended_is_opened_again(url: str) -> None:
    keep_connections()
    before = session()
    with psycopg.connect(url, autocommit=True) as operator:
        operator.execute("SELECT pg_terminate_backend(%s, 5000)", (before,))
    assert session() != before


def test_a_connection_whose_task_failed_is_closed(url: str) -> None:
    keep_connections()
    before = session()
    with pytest.raises(psycopg.errors.UndefinedTable), task_connection("test") as connection:
        connection.execute("SELECT FROM nothing_of_this_name")
    assert session() != before


def test_two_tasks_at_once_have_a_connection_each_and_one_is_kept(url: str) -> None:
    keep_connections()
    with task_connection("test") as one, task_connection("test") as other:
        assert one.info.backend_pid != other.info.backend_pid
    assert session() == other.info.backend_pid
    assert one.closed
