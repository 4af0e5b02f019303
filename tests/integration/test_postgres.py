"""The PostgreSQL servers themselves: version, encoding, durability, and what a crash leaves behind."""

from __future__ import annotations

import os
import signal
import stat
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from django.contrib.auth.models import User

from config.run.postgres.server import PostgresServer
from tests.support.postgres import started_postgres
from tests.support.waiting import wait_until


def show(url: str, name: str) -> str:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
    assert row is not None
    return str(row[0])


def test_the_embedded_server_is_18_utf8_and_asks_for_a_password(postgres: PostgresServer) -> None:
    assert show(postgres.url, "server_version_num").startswith("18")
    assert show(postgres.url, "server_encoding") == "UTF8"
    assert show(postgres.url, "listen_addresses") == "127.0.0.1"
    assert show(postgres.url, "unix_socket_directories") == ""
    assert stat.S_IMODE((postgres.folder / "password").stat().st_mode) == 0o600
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(f"postgresql://vela:wrong@127.0.0.1:{postgres.port}/vela")


def test_the_oldest_supported_server_answers(postgres_15_url: str) -> None:
    assert int(show(postgres_15_url, "server_version_num")) // 10_000 in (15, 16)


def test_settings_that_make_receipts_durable_stay_on(durable_postgres: PostgresServer) -> None:
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        assert show(durable_postgres.url, setting) == "on"


@pytest.mark.django_db
def test_djangos_orm_uses_the_started_server() -> None:
    User.objects.create_user("somebody")
    assert User.objects.count() == 1


def test_a_server_left_running_is_ended_by_the_next_start() -> None:
    with started_postgres() as server:
        left = server.process
        assert left is not None
        server.start()
        server.wait_ready()
        assert left.wait(5) == 0
        assert server.process is not None
        assert server.process.pid != left.pid


def test_a_pid_file_that_names_another_process_does_not_prevent_a_start() -> None:
    with started_postgres() as server:
        assert server.process is not None
        pid_file = server.data / "postmaster.pid"
        lines = pid_file.read_text().splitlines()
        server.stop()
        pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
        server.user.own(pid_file)
        server.start()
        server.wait_ready()


def test_a_backend_of_a_killed_server_ends_before_the_next_server_starts() -> None:
    with started_postgres() as server, closing(psycopg.connect(server.url, autocommit=True)) as connection:
        backend = Path(f"/proc/{connection.info.backend_pid}")
        # A backend that never waits does not notice that its server has ended.
        connection.pgconn.send_query(b"SELECT sum(1) FROM (SELECT generate_series(1, 1000000000000)) numbers")
        with psycopg.connect(server.url, autocommit=True) as other:
            active = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND state = 'active'"
            wait_until(
                lambda: other.execute(active, (connection.info.backend_pid,)).fetchone() == (1,), "the query"
            )
        assert server.process is not None
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
        server.start()
        wait_until(lambda: not backend.exists(), "the end of the backend")
        server.wait_ready()


def test_a_killed_server_starts_again_with_its_data() -> None:
    with started_postgres(durable=True) as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        assert server.process is not None
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()

        def again() -> bool:
            server.start()
            try:
                server.wait_ready()
            except Exception:
                return False  # the killed server's backends hold its shared memory a moment longer
            return True

        wait_until(again, "the server to start again")
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)
