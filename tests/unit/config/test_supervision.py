"""The supervisor's rules that need no process."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest

from broker.conf import EXIT_SETTING_INVALID
from config.environment import PROJECT_DIR
from config.run.__main__ import main
from config.run.children.child import Backoff, Child, trim_log
from config.run.errors import StartRefused
from config.run.options import Options, refuse_taken_ports
from config.run.postgres.database import refuse_unusable_url, without_password
from config.run.postgres.server import PostgresServer
from config.run.postgres.system_user import SystemUser
from config.run.supervisor import Supervisor


def test_back_off_doubles_to_its_limit_and_forgets_after_health() -> None:
    backoff = Backoff(first_s=0.5, most_s=4.0, healthy_s=30.0)
    assert [backoff.after(0.1) for _ in range(6)] == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]
    assert backoff.after(31.0) == 0.5
    assert backoff.after(0.1) == 1.0


def test_two_settings_with_one_port_are_refused() -> None:
    with pytest.raises(StartRefused, match="VELA_HTTP_PORT and VELA_CONSOLE_PORT are both") as refused:
        refuse_taken_ports({"VELA_CONSOLE_PORT": ("127.0.0.1", 1), "VELA_HTTP_PORT": ("127.0.0.1", 1)})
    assert refused.value.exit_code == EXIT_SETTING_INVALID


def test_an_address_that_this_machine_does_not_have_is_refused_like_a_wrong_setting() -> None:
    with pytest.raises(StartRefused, match=r"on 192\.0\.2\.1 cannot be used") as refused:
        refuse_taken_ports({"VELA_HTTP_PORT": ("192.0.2.1", 8080)})  # an address for documentation only
    assert refused.value.exit_code == EXIT_SETTING_INVALID


def test_a_taken_port_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartRefused, match=rf"Port {port} .* VELA_PULSAR_PORT") as refused:
            refuse_taken_ports({"VELA_PULSAR_PORT": ("127.0.0.1", port)})
    assert refused.value.exit_code == 1


def test_every_port_that_cannot_be_used_is_named_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ports = dict.fromkeys(("VELA_HTTP_PORT", "VELA_PULSAR_PORT"), ("127.0.0.1", port))
        with pytest.raises(StartRefused) as refused:
            refuse_taken_ports(ports)
    assert [line.partition(" ")[0] for line in str(refused.value).splitlines()] == [
        "Port",
        "VELA_PULSAR_PORT",
    ]


def test_a_server_that_is_too_old_is_refused_like_a_wrong_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    old = SimpleNamespace(info=SimpleNamespace(server_version=140_011))
    monkeypatch.setattr(psycopg, "connect", lambda url, connect_timeout: nullcontext(old))
    with pytest.raises(StartRefused, match="names PostgreSQL 14 at h:5432/d: Vela needs 15") as refused:
        refuse_unusable_url("postgresql://h/d")
    assert refused.value.exit_code == EXIT_SETTING_INVALID


def test_a_port_of_zero_is_named_with_the_other_bad_settings() -> None:
    bad = {"VELA_HTTP_PORT": "0", "VELA_PULSAR_PORT": "0", "VELA_TICK_MS": "x"}
    with pytest.raises(StartRefused) as refused:
        Options.from_environment(bad)
    assert {line.partition(" ")[0] for line in str(refused.value).splitlines()} == set(bad)


def test_a_database_server_of_the_user_needs_no_port_from_vela() -> None:
    assert "VELA_PG_PORT" in Options.from_environment({}).ports
    own = Options.from_environment({"DATABASE_URL": "postgresql://h/d"})
    assert "VELA_PG_PORT" not in own.ports


def test_doors_open_to_all_are_reached_on_the_loopback_address() -> None:
    assert Options.from_environment({"VELA_BIND": "0.0.0.0"}).local_host == "127.0.0.1"
    assert Options.from_environment({"VELA_BIND": "::"}).local_host == "[::1]"


def test_an_address_without_authentication_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    monkeypatch.setenv("VELA_DATA_DIR", str(folder))
    monkeypatch.setenv("VELA_BIND", "0.0.0.0")
    monkeypatch.delenv("VELA_AUTHENTICATION", raising=False)
    assert main() == EXIT_SETTING_INVALID
    assert "VELA_AUTHENTICATION is not set" in capsys.readouterr().err
    assert not folder.exists()


def test_a_migration_with_a_wrong_setting_is_not_tried_again() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "config.run.prepare"],
        cwd=PROJECT_DIR,
        env={**os.environ, "VELA_TICK_MS": "soon"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == EXIT_SETTING_INVALID
    assert done.stderr.startswith("vela: VELA_TICK_MS is 'soon': ")


@pytest.mark.parametrize(
    ("password", "said", "shown"),
    [
        ("a", "connection failed: a database is away", "connection failed: a database is away"),
        ("a", "cannot parse postgresql://u:a@h/d", "cannot parse postgresql://u:***@h/d"),
        ("a%z", 'invalid percent-encoded token: "a%z"', 'invalid percent-encoded token: "***"'),
        ("s%40cret", "no s@cret and no s%40cret here", "no *** and no *** here"),
        ("", "nothing is hidden", "nothing is hidden"),
    ],
)
def test_a_password_is_hidden_and_other_words_are_not(password: str, said: str, shown: str) -> None:
    assert without_password(said, f"postgresql://u:{password}@h/d") == shown


def test_a_long_log_is_cut_and_the_old_one_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("config.run.children.child.LOG_LIMIT_BYTES", 10)
    child = Child(name="x", command=[], is_up=lambda: True, environment={}, log=tmp_path / "x.log")
    child.log.write_text("short\n")
    trim_log(child.log)
    assert child.log.read_text() == "short\n"
    child.log.write_text("much too long\n")
    assert child.last_words() == "much too long"
    trim_log(child.log)
    assert child.log.read_text() == ""
    assert (tmp_path / "x.log.1").read_text() == "much too long\n"


def test_a_server_that_ends_while_it_is_found_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    monkeypatch.setattr(PostgresServer, "leftover_pid", lambda _: ended.pid)
    PostgresServer(
        binaries=tmp_path, major=18, folder=tmp_path, port=1, user=SystemUser(name="", uid=None, gid=None)
    ).stop_leftover()


def test_a_server_that_does_not_answer_signals_is_killed(tmp_path: Path) -> None:
    server = PostgresServer(
        binaries=tmp_path, major=18, folder=tmp_path, port=1, user=SystemUser(name="", uid=None, gid=None)
    )
    server.data.mkdir()
    stuck = (
        "import signal; [signal.signal(each, signal.SIG_IGN) for each in (signal.SIGINT, signal.SIGQUIT)];"
        "print(flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", stuck, server.data], stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.readline()
        (server.data / "postmaster.pid").write_text(f"{running.pid}\n")
        server.stop_leftover(timeout_s=0.1)
        assert running.wait() == -signal.SIGKILL
    assert not (server.data / "postmaster.pid").exists()


@pytest.mark.parametrize("ends", [True, False])
def test_the_pid_file_goes_only_with_the_last_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    looks = iter([[ended.pid], []])
    monkeypatch.setattr(
        "config.run.postgres.server._running_in", lambda _: next(looks) if ends else [ended.pid]
    )
    server = PostgresServer(
        binaries=tmp_path, major=18, folder=tmp_path, port=1, user=SystemUser(name="", uid=None, gid=None)
    )
    server.data.mkdir()
    (server.data / "postmaster.pid").write_text("no longer a process\n")
    server.stop_leftover(timeout_s=10 if ends else 0)
    assert (server.data / "postmaster.pid").exists() is not ends


def test_a_long_log_is_emptied_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_source: Path, target: Path) -> None:
        target.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("config.run.children.child.LOG_LIMIT_BYTES", 10)
    monkeypatch.setattr("shutil.copyfile", refuse)
    log = tmp_path / "x.log"
    log.write_text("much too long\n")
    trim_log(log)
    assert log.read_text() == ""
    assert not (tmp_path / "x.log.1").exists()


def test_a_log_that_cannot_be_emptied_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("config.run.children.child.LOG_LIMIT_BYTES", -1)
    trim_log(tmp_path / "missing.log")
    trim_log(tmp_path)  # a folder, which nobody can open for writing


def test_the_log_of_postgresql_is_cut_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("config.run.children.child.LOG_LIMIT_BYTES", 10)
    server = PostgresServer(
        binaries=tmp_path, major=18, folder=tmp_path, port=1, user=SystemUser(name="", uid=None, gid=None)
    )
    server.log.write_text("much too long\n")
    with Supervisor(server, stop_timeout_s=1) as supervisor:
        supervisor.trim_logs()
    assert server.log.read_text() == ""
