"""`make run` prints its addresses, refuses wrong settings in one sentence, restarts processes, and stops cleanly."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from broker.conf import EXIT_SETTING_INVALID
from config.environment import PROJECT_DIR
from tests.support.vela import PORT_SETTINGS, VelaProcess, prepared_vela, processes_about, started_vela
from tests.support.waiting import wait_until

CHILDREN = {"beat", "broker", "console", "postgresql", "worker", "worker-tick"}


@pytest.fixture
def prepared() -> Iterator[VelaProcess]:
    """A Vela that was never started."""
    with prepared_vela() as process:
        yield process


@pytest.fixture
def stopped(vela_data: Path) -> Iterator[VelaProcess]:
    """A Vela that was started before, for tests that are not about the first start."""
    with prepared_vela(data=vela_data) as process:
        yield process


@pytest.fixture(scope="module")
def running(vela_data: Path) -> Iterator[VelaProcess]:
    with started_vela(data=vela_data) as process:
        yield process


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def refusal(process: VelaProcess, *, code: int) -> str:
    """Start a Vela that ends with this exit code, and return what it printed. It must leave no process."""
    process.spawn()
    assert process.process is not None
    assert process.process.wait(30) == code
    assert processes_about(process.data_dir) == []
    lines = process.text().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def test_the_ready_line_names_the_address_of_every_port(running: VelaProcess) -> None:
    lines = [line for line in running.text().splitlines() if line.startswith("vela ready")]
    assert lines == [
        f"vela ready console={running.console_url} websocket={running.websocket_url} pulsar={running.pulsar_url}"
    ]
    assert status(f"{running.console_url}/readyz") == 200
    assert status(f"{running.console_url}/healthz") == 200
    assert status(f"{running.http_url}/readyz") == 200
    assert set(running.pids()) == CHILDREN


def test_django_admin_asks_for_a_login(running: VelaProcess) -> None:
    with urllib.request.urlopen(f"{running.console_url}/django-admin/", timeout=5) as answer:
        assert "/django-admin/login/" in answer.url


def wait_for_ticks(database_url: str) -> None:
    """Wait until beat has sent two more messages and the workers have emptied the queue."""
    with psycopg.connect(database_url, autocommit=True) as connection:

        def sent() -> int:
            row = connection.execute("SELECT last_value FROM celery_message_id_seq").fetchone()
            return int(row[0]) if row else 0

        first = sent()
        wait_until(lambda: sent() > first + 1, "two more ticks", timeout_s=60)
        waiting = "SELECT count(*) FROM celery_message"
        wait_until(lambda: connection.execute(waiting).fetchone() == (0,), "an empty queue", timeout_s=60)


def test_beat_ticks_and_the_queue_is_emptied(running: VelaProcess) -> None:
    wait_for_ticks(running.database_url)


def test_nothing_secret_can_be_read_by_others(running: VelaProcess) -> None:
    for name in ("secret-key", "database-url", "postgres/password"):
        assert (running.data_dir / name).stat().st_mode & 0o077 == 0


def test_a_second_vela_on_the_same_folder_is_refused(running: VelaProcess) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "config.run"],
        cwd=PROJECT_DIR,
        env=running.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "already runs" in done.stderr
    assert "VELA_DATA_DIR" in done.stderr
    assert status(f"{running.http_url}/readyz") == 200


@pytest.mark.parametrize("name", sorted(CHILDREN))
def test_a_killed_process_is_restarted_and_reported_once(running: VelaProcess, name: str) -> None:
    before = running.text().count(f"{name} was ended by SIGKILL")
    killed = running.kill(name)
    wait_until(lambda: running.pids().get(name, killed) != killed, f"another {name}", timeout_s=60)
    wait_until(
        lambda: status(f"{running.console_url}/readyz") == status(f"{running.http_url}/readyz") == 200,
        "both to be ready again",
        timeout_s=60,
    )
    wait_for_ticks(running.database_url)
    assert running.text().count(f"{name} was ended by SIGKILL") == before + 1


def assert_stops(process: VelaProcess, number: signal.Signals) -> None:
    """Check that Vela ends after the signal, kills no process and leaves none behind."""
    assert process.process is not None
    process.process.send_signal(number)
    assert process.process.wait(60) == 0
    assert processes_about(process.data_dir) == []
    assert "was killed" not in process.text()


def test_ctrl_c_kills_nothing_and_leaves_no_process(stopped: VelaProcess) -> None:
    stopped.start()
    assert_stops(stopped, signal.SIGINT)


def test_a_stop_during_the_start_leaves_no_process(stopped: VelaProcess) -> None:
    stopped.spawn()
    wait_until(lambda: "broker" in stopped.pids(), "children", timeout_s=60)
    assert stopped.stop() == 0
    assert processes_about(stopped.data_dir) == []


def test_a_second_start_uses_the_same_data_even_after_kill_9_and_shows_no_password_again(
    prepared: VelaProcess,
) -> None:
    prepared.environment["VELA_ADMIN_PASSWORD"] = ""
    prepared.start()
    with psycopg.connect(prepared.database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    prepared.kill_supervisor()
    wait_until(
        lambda: [line for line in processes_about(prepared.data_dir) if "postgres" not in line] == [],
        "the children to follow their supervisor",
    )
    prepared.start()
    with psycopg.connect(prepared.database_url) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)
    assert prepared.text().count("new database") == 1
    (password,) = re.findall(r"console login: admin, password (\S+)", prepared.text())
    check = (
        "from django.contrib.auth.models import User;"
        f" print(User.objects.get(username='admin').check_password({password!r}))"
    )
    assert prepared.manage("shell", "--verbosity=0", "-c", check).strip() == "True"
    assert_stops(prepared, signal.SIGTERM)


@pytest.mark.parametrize("setting", PORT_SETTINGS)
def test_a_taken_port_is_named_with_its_setting(prepared: VelaProcess, setting: str) -> None:
    port = int(prepared.environment[setting])
    with socket.create_server(("127.0.0.1", port)):
        said = refusal(prepared, code=1)
    assert setting in said
    assert str(port) in said


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        (
            "VELA_ENTRY_FILTERS",
            "no.such.Filter",
            "broker: VELA_ENTRY_FILTERS: no.such.Filter cannot be created",
        ),
        ("VELA_READ_ROLE", "no such role", "broker: VELA_READ_ROLE is 'no such role': it takes a role"),
        (
            "VELA_CELERY_BROKER_URL",
            "nowhere://x",
            "(beat|worker|worker-tick): VELA_CELERY_BROKER_URL begins with 'nowhere', which Celery cannot use",
        ),
    ],
)
def test_a_setting_that_only_a_child_can_check_ends_the_start(
    stopped: VelaProcess, setting: str, value: str, says: str
) -> None:
    stopped.environment[setting] = value
    stopped.spawn()
    assert stopped.process is not None
    assert stopped.process.wait(90) == EXIT_SETTING_INVALID
    assert processes_about(stopped.data_dir) == []
    lines = stopped.text().splitlines()
    assert [line for line in lines if line.startswith("vela: ")] == lines[-1:]
    assert re.match(f"vela: {says}", lines[-1]), lines[-1]
    assert "starting it again" not in stopped.text()


@pytest.mark.parametrize(
    ("url", "named", "code"),
    [
        ("mysql://somebody@127.0.0.1/vela", "postgresql://", EXIT_SETTING_INVALID),
        ("postgresql://127.0.0.1:not-a-port/vela", "the host or port is wrong", EXIT_SETTING_INVALID),
        ("postgresql://127.0.0.1", "no database", EXIT_SETTING_INVALID),
        ("postgresql://somebody:hush@127.0.0.1:1/vela", "127.0.0.1:1/vela", 1),
    ],
)
def test_a_broken_database_url_is_one_sentence_without_the_password(
    prepared: VelaProcess, url: str, named: str, code: int
) -> None:
    prepared.environment["DATABASE_URL"] = url
    said = refusal(prepared, code=code)
    assert "DATABASE_URL" in said
    assert named in said
    assert "hush" not in said
    assert not (prepared.data_dir / "postgres").exists()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("VELA_HTTP_PORT", "eighty"),
        ("VELA_TICK_MS", "1"),
        ("VELA_CONSOLE_PORT", "70000"),
        ("VELA_DEBUG", "perhaps"),
    ],
)
def test_a_setting_that_cannot_work_is_named(prepared: VelaProcess, setting: str, value: str) -> None:
    prepared.environment[setting] = value
    assert setting in refusal(prepared, code=EXIT_SETTING_INVALID)


def test_users_own_server_is_used_and_left_running(prepared: VelaProcess, postgres_15_url: str) -> None:
    from tests.support.postgres import fresh_database

    with fresh_database(postgres_15_url, "vela_own_server") as url:
        prepared.environment["DATABASE_URL"] = url
        prepared.start()
        assert set(prepared.pids()) == CHILDREN - {"postgresql"}
        assert status(f"{prepared.http_url}/readyz") == 200
        assert_stops(prepared, signal.SIGTERM)
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT count(*) > 0 FROM django_migrations").fetchone() == (True,)
    assert not (prepared.data_dir / "postgres").exists()


def test_an_old_python_is_refused_in_one_sentence(tmp_path: Path) -> None:
    """The stand-in for an old interpreter is the current one, made to report version 3.9."""
    old = tmp_path / "python3.9"
    old.write_text(
        f'#!/bin/sh\nexec {sys.executable} -c \'import sys; sys.version_info = (3, 9, 2, "final", 0); '
        f'sys.argv = sys.argv[1:]; exec(compile(open(sys.argv[0]).read(), sys.argv[0], "exec"))\' "$@"\n'
    )
    old.chmod(0o755)
    done = subprocess.run(
        ["make", "--no-print-directory", "run", f"PYTHON={old}"],
        cwd=PROJECT_DIR,
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    sentence = done.stderr.splitlines()[0]
    assert "Python 3.11" in sentence
    assert "3.9" in sentence
    assert "PYTHON=" in sentence
    assert done.stdout == ""
