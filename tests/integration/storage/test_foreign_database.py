"""A database that another version of Vela migrated: a newer one, or an older one."""

from __future__ import annotations

import os
import subprocess
import sys

import psycopg
import pytest

from broker.conf import EXIT_SETTING_INVALID
from config.environment import PROJECT_DIR

_COMMANDS = {
    "migrate": ["manage.py", "migrate"],
    "broker": ["manage.py", "runbroker"],
    "make run": ["-m", "config.run.prepare"],
}


@pytest.mark.parametrize("command", _COMMANDS.values(), ids=list(_COMMANDS))
def test_a_start_on_a_foreign_database_says_how_to_proceed(database_url: str, command: list[str]) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('broker', '0012_of_another', now())"
        )
    code, said = started(database_url, command)
    assert code == (1 if "migrate" in command else EXIT_SETTING_INVALID)
    assert "Another version of Vela migrated this database (this one does not know 0012_of_another)" in said
    assert "an empty database" in said
    assert "Traceback" not in said


def test_a_broker_on_older_tables_says_that_they_must_be_migrated(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "DELETE FROM django_migrations WHERE app = 'broker' AND name = '0001_entries_in_rows'"
        )
    code, said = started(database_url, _COMMANDS["broker"])
    assert code == 1
    assert (
        "Vela's tables are older than this version (they lack broker.0001_entries_in_rows): run manage.py migrate"
        in said
    )
    assert "Traceback" not in said


def started(database_url: str, command: list[str]) -> tuple[int, str]:
    """Run a command that ends by itself, and return its exit code and its output."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=PROJECT_DIR,
        env={**os.environ, "DATABASE_URL": database_url, "VELA_HTTP_PORT": "0", "VELA_PULSAR_PORT": "0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr
