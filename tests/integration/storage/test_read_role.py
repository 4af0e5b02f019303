"""A role named by VELA_READ_ROLE may read what pages and jobs read, and write nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import psycopg
from psycopg import sql

from broker.conf import EXIT_SETTING_INVALID
from config.environment import PROJECT_DIR


def test_the_read_role_sees_every_segment_and_changes_none(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS vela_reader_under_test")
        connection.execute("CREATE ROLE vela_reader_under_test")
        try:
            with connection.transaction():
                connection.execute("SET LOCAL vela.read_role = 'vela_reader_under_test'")
                (segment,) = connection.execute("SELECT vela_open_segment_v1(0)").fetchone() or (0,)
                connection.execute("SELECT vela_refresh_entry_views_v1()")
            for table in (f"vela_entry_{segment}", "vela_entry", "vela_cursor", "vela_read_v1.entries"):
                for right, expected in (("SELECT", True), ("INSERT", False), ("DELETE", False)):
                    found = connection.execute(
                        "SELECT has_table_privilege('vela_reader_under_test', %s, %s)", (table, right)
                    ).fetchone()
                    assert found == (expected,), f"{right} on {table}"
        finally:
            connection.execute("DROP OWNED BY vela_reader_under_test")
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier("vela_reader_under_test")))


def test_a_broker_refuses_a_role_that_does_not_exist_and_names_the_setting(database_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "runbroker"],
        cwd=PROJECT_DIR,
        env={
            **os.environ,
            "DATABASE_URL": database_url,
            "VELA_READ_ROLE": "no such role",
            "VELA_HTTP_PORT": "0",
            "VELA_PULSAR_PORT": "0",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == EXIT_SETTING_INVALID, done.stderr
    assert "VELA_READ_ROLE is 'no such role': it takes a role that the PostgreSQL server has" in done.stderr
    assert "Traceback" not in done.stderr
