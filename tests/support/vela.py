"""A whole Vela, started as `make run` starts it, on free ports and in a new folder."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from config.environment import PROJECT_DIR
from config.run.children.lifeline import dies_with_parent
from tests.support.ports import free_ports
from tests.support.postgres import started_postgres, world_readable_folder
from tests.support.waiting import wait_until

__all__ = [
    "PORT_SETTINGS",
    "VelaProcess",
    "children_of",
    "descendants_of",
    "made_data",
    "prepared_vela",
    "started_vela",
]

PORT_SETTINGS = ("VELA_CONSOLE_PORT", "VELA_HTTP_PORT", "VELA_PULSAR_PORT", "VELA_PG_PORT")
ADMIN_PASSWORD = "test-password-7"
START_TIMEOUT_S = 90.0  # the machine may be busy; another test measures how long a start takes


@dataclass(slots=True, kw_only=True)
class VelaProcess:
    """The supervisor's process, and the addresses of its Vela."""

    data_dir: Path
    environment: dict[str, str]
    output: Path  # what the supervisor printed, across all starts
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def console_url(self) -> str:
        """http://host:port of the console."""
        return f"http://127.0.0.1:{self.environment['VELA_CONSOLE_PORT']}"

    @property
    def http_url(self) -> str:
        """http://host:port of the broker."""
        return f"http://127.0.0.1:{self.environment['VELA_HTTP_PORT']}"

    @property
    def websocket_url(self) -> str:
        """ws://host:port of the broker."""
        return f"ws://127.0.0.1:{self.environment['VELA_HTTP_PORT']}"

    @property
    def pulsar_url(self) -> str:
        """The service URL for Apache's clients."""
        return f"pulsar://127.0.0.1:{self.environment['VELA_PULSAR_PORT']}"

    @property
    def database_url(self) -> str:
        """The database that this Vela uses."""
        url = self.environment.get("DATABASE_URL")
        return url or (self.data_dir / "database-url").read_text(encoding="ascii").strip()

    def text(self) -> str:
        """Return everything that the supervisor has printed so far."""
        return self.output.read_text(encoding="utf-8") if self.output.exists() else ""

    def spawn(self) -> None:
        """Start the supervisor without waiting."""
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "config.run"],
                cwd=PROJECT_DIR,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=dies_with_parent(signal.SIGTERM),  # so that no supervisor outlives killed tests
            )

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start and wait for the ready line. If it does not come, fail with everything that was printed."""
        seen = self.text().count("vela ready")
        self.spawn()
        wait_until(lambda: self._ready_or_dead(seen), f"vela ready in {self.text()!r}", timeout_s=timeout_s)

    def _ready_or_dead(self, seen: int) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"Vela ended with {self.process.returncode}:\n{self.text()}")
        return self.text().count("vela ready") > seen

    def stop(self, timeout_s: float = 60.0) -> int:
        """Stop the supervisor with SIGTERM and return its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_s)

    def kill_supervisor(self) -> None:
        """Kill the supervisor itself with SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def manage(self, *arguments: str) -> str:
        """Run `manage.py …` against this Vela, which must succeed, and return what it printed."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=PROJECT_DIR,
            env={**self.environment, "DATABASE_URL": self.database_url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"manage.py {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def pids(self) -> dict[str, int]:
        """Return the process ids of the children by name: broker, console, worker, worker-tick, beat, postgresql."""
        assert self.process is not None
        return {
            name: pid
            for pid, command_line in children_of(self.process.pid).items()
            for name, pattern in _NAMES.items()
            if re.search(pattern, command_line)
        }

    def kill(self, name: str) -> int:
        """Kill one child with SIGKILL and return its process id."""
        pid = wait_until(lambda: self.pids().get(name, 0), f"a process {name}")
        os.kill(pid, signal.SIGKILL)
        return pid


_NAMES = {
    "broker": r"manage\.py runbroker",
    "console": r"manage\.py runconsole",
    "beat": r"celery_part beat ",
    "worker-tick": r"celery_part tick ",
    "worker": r"celery_part work ",
    "postgresql": r"bin/postgres -D ",
}


def children_of(pid: int) -> dict[int, str]:
    """Return the living direct children of a process with their command lines, each with a space at the end."""
    return {child: started_as for child, (parent, started_as) in _living().items() if parent == pid}


def descendants_of(pid: int) -> dict[int, str]:
    """Return all living descendants of a process with their command lines, the most distant first."""
    living = _living()
    found: dict[int, str] = {}
    above = {pid}
    while above:
        below = {child: line for child, (parent, line) in living.items() if parent in above}
        found = below | found
        above = set(below)
    return found


def _living() -> dict[int, tuple[int, str]]:
    """Return the parents and the command lines of all living processes.

    One `ps` lists them all, because tests that wait for a process ask again and again.
    """
    done = subprocess.run(
        ["ps", "-eww", "-o", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True
    )
    rows = (line.split(None, 3) for line in done.stdout.splitlines())
    return {
        int(row[0]): (int(row[1]), f"{row[3]} ")
        for row in rows
        if len(row) == 4 and not row[2].startswith("Z")
    }


def processes_about(data_dir: Path) -> list[str]:
    """Return the living processes that have this data folder in their arguments or environment, as `ps` prints them."""
    done = subprocess.run(
        ["ps", "-eww", "-o", "pid=,stat=,args="], capture_output=True, text=True, check=True
    )
    lines = []
    for line in done.stdout.splitlines():
        pid, stat, arguments = line.split(None, 2)
        if stat.startswith("Z"):
            continue
        try:
            told = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            told = b""
        if str(data_dir) in arguments or f"VELA_DATA_DIR={data_dir}".encode() in told:
            lines.append(line)
    return lines


@contextmanager
def made_data() -> Iterator[Path]:
    """Make a data folder like one after a first start. With a copy, `started_vela` needs no initdb and no migrations.

    Its PostgreSQL runs without fsync, because tests kill processes but never the machine.
    """
    with world_readable_folder("vela-data-") as folder:
        with started_postgres(folder=folder) as server:
            subprocess.run(
                [sys.executable, "-m", "config.run.prepare"],
                cwd=PROJECT_DIR,
                env={
                    **_inherited(),
                    "DATABASE_URL": server.url,
                    "VELA_DATA_DIR": str(folder),
                    "VELA_ADMIN_PASSWORD": ADMIN_PASSWORD,
                },
                stdout=subprocess.DEVNULL,
                check=True,
            )
        yield folder


@contextmanager
def prepared_vela(
    settings: Mapping[str, str] | None = None, *, data: Path | None = None
) -> Iterator[VelaProcess]:
    """Yield a Vela that is not started yet, and stop it at the end if it runs. `data` is a folder of `made_data`."""
    with world_readable_folder("vela-run-") as folder:
        if data is not None:
            # `cp -a` keeps the owner: if root runs the tests, the files belong to PostgreSQL's user.
            subprocess.run(["cp", "-a", str(data), str(folder / "data")], check=True)
        ports = {name: str(port) for name, port in zip(PORT_SETTINGS, free_ports(4), strict=True)}
        process = VelaProcess(
            data_dir=folder / "data",
            environment={
                **_inherited(),
                **ports,
                "VELA_DATA_DIR": str(folder / "data"),
                "VELA_ADMIN_PASSWORD": ADMIN_PASSWORD,
                **(settings or {}),
            },
            output=folder / "output",
        )
        try:
            yield process
        finally:
            if process.process is not None and process.process.poll() is None:
                try:
                    process.stop()
                except subprocess.TimeoutExpired:
                    process.kill_supervisor()


@contextmanager
def started_vela(
    settings: Mapping[str, str] | None = None, *, data: Path | None = None
) -> Iterator[VelaProcess]:
    """Start a Vela, and stop it at the end. `data` is as in `prepared_vela`."""
    with prepared_vela(settings, data=data) as process:
        process.start()
        yield process


def _inherited() -> dict[str, str]:
    """Return this process's environment without the settings of a Vela."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("VELA_") and name != "DATABASE_URL"
    }
