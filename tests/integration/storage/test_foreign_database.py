"""A database that another version of Vela migrated."""

from __future__ import annotations

import os
import subprocess
import sys

import psycopg
import pytest

from config.environment import PROJECT_DIR

_COMMANDS = {
    "migrate": ["manage.py", "migrate"],
    "broker": ["manage.py", "runbroker"],
    "make run": ["-m", "config.run.prepare"],
}


@pytest.mark.parametrize("command", _COMMANDS.values(), ids=list(_COMMANDS))
def test_a_start_on_it_says_what_to_do(database_url: str, command: list[str]) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('broker', '0012_of_another', now())"
        )
    done = subprocess.run(
        [sys.executable, *command],
        cwd=PROJECT_DIR,
        env={**os.environ, "DATABASE_URL": database_url, "VELA_HTTP_PORT": "0", "VELA_PULSAR_PORT": "0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "Another version of Vela migrated this database (this one does not know 0012_of_another)" in said
    assert "an empty database" in said
    assert "Traceback" not in said
