"""Make, start and stop the embedded PostgreSQL server, and end one that a killed supervisor left running."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from config.run.children.lifeline import dies_with_parent
from config.run.errors import StartRefused
from config.run.postgres.system_user import SystemUser

__all__ = ["DURABLE", "PostgresServer"]

START_TIMEOUT_S = 60.0  # crash recovery of a full max_wal_size included
DATABASE = "vela"
SUPERUSER = "vela"

# Written once, when the data folder is created. After that, postgresql.conf belongs to the operator.
DURABLE: Mapping[str, str] = {
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",  # appends write WAL, and fewer checkpoints mean fewer full-page images
    "min_wal_size": "512MB",
    # Zeroing each new 16 MB of WAL stalls every commit: at 1,000 messages a second, the p99 latency is 25 to 745 ms
    # with it, and 8 to 9 ms without (docs/decisions/0007).
    "wal_init_zero": "off",
    "wal_compression": "on",
    "checkpoint_timeout": "15min",
    # Without this, pages that backends evict stay in the kernel's cache for 30 s and then go to the disk all at once.
    # Commits wait for the disk meanwhile.
    "backend_flush_after": "256kB",
    "checkpoint_completion_target": "0.9",
    "synchronous_commit": "on",  # a receipt means that the message is durable
    "jit": "off",
    "max_connections": "100",
    "autovacuum_naptime": "15s",
    "log_min_messages": "warning",
    "log_timezone": "UTC",
    "timezone": "UTC",
}


@dataclass(slots=True, kw_only=True)
class PostgresServer:
    """One server on one data folder. `folder` contains all its files and belongs to `user`."""

    binaries: Path  # folder with initdb and postgres
    major: int  # the major version of these programs
    folder: Path  # has the password, the data and the log
    port: int
    user: SystemUser
    configuration: Mapping[str, str] = field(default_factory=lambda: DURABLE)
    process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        """PGDATA: one folder for each major version, so that a newer server never finds an older one's files."""
        return self.folder / str(self.major)

    @property
    def log(self) -> Path:
        """The server's own log."""
        return self.folder / "postgresql.log"

    @property
    def url(self) -> str:
        """The server's URL for clients, including the password."""
        password = (self.folder / "password").read_text(encoding="ascii").strip()
        return f"postgresql://{SUPERUSER}:{password}@127.0.0.1:{self.port}/{DATABASE}"

    def create(self) -> bool:
        """Create the data folder if it is missing, and return whether it was. Safe to repeat after an interruption.

        Raises StartRefused if the folder cannot be made.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.user.own(self.folder)
        if not self.user.may_enter(self.folder):
            raise StartRefused(
                f"PostgreSQL runs as the system user {self.user.name}, who may not enter {self.folder}: "
                "set VELA_DATA_DIR to a folder it can reach, or name your own server in DATABASE_URL"
            )
        if (self.data / "PG_VERSION").exists():
            return False
        unfinished = self.data.with_name(f"{self.data.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.rmtree(self.data, ignore_errors=True)
        self._write_password()
        self._initdb(unfinished)
        unfinished.rename(self.data)
        return True

    def start(self) -> None:
        """Start the server without waiting for it. First stop a server that a killed supervisor left running."""
        self.stop_leftover()
        with self.log.open("ab") as log:
            self.user.own(self.log)
            self.process = subprocess.Popen(
                [
                    *(self.binaries / "postgres", "-D", self.data, "-p", str(self.port)),
                    *("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="),
                    # Without hot standby, a server that replays archived WAL is ready only when it can be written to.
                    *("-c", "hot_standby=off"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_plain_environment(),
                start_new_session=True,
                preexec_fn=dies_with_parent(signal.SIGINT),  # SIGINT is PostgreSQL's fast, clean shutdown
                **self.user.popen_arguments(),
            )

    def is_ready(self) -> bool:
        """Return whether the server accepts connections, by the status in its pid file."""
        if self.process is None or self.process.poll() is not None:
            return False
        lines = self._pid_file()
        return len(lines) >= 8 and lines[0].strip() == str(self.process.pid) and lines[7].strip() == "ready"

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until the server takes connections. Raises StartRefused if it ends, or takes too long."""
        deadline = time.monotonic() + timeout_s
        while not self.is_ready():
            if self.process is None or self.process.poll() is not None:
                raise StartRefused(
                    f"The embedded PostgreSQL did not start: {self.last_words()} (log: {self.log})"
                )
            if time.monotonic() > deadline:
                self.stop()
                raise StartRefused(
                    f"The embedded PostgreSQL was not ready within {timeout_s:.0f} s (log: {self.log})"
                )
            time.sleep(0.02)

    def ask_to_stop(self) -> None:
        """Ask for a fast shutdown, which closes all sessions and writes a checkpoint. Return at once."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def stop(self, timeout_s: float = 5.0) -> None:
        """Shut down fast. A server that needs longer than `timeout_s` is killed; its next start replays the WAL."""
        process = self.process
        if process is None or process.poll() is not None:
            return
        for number, patience_s in ((signal.SIGINT, timeout_s), (signal.SIGQUIT, 1.0), (signal.SIGKILL, 1.0)):
            process.send_signal(number)
            try:
                process.wait(patience_s)
            except subprocess.TimeoutExpired:
                continue
            return

    def stop_leftover(self, timeout_s: float = 10.0) -> None:
        """End a server that still runs on this data folder, and what is left of one that was killed.

        Remove the pid file of a server that has ended. If the server or a backend cannot be ended in time, the file
        stays: PostgreSQL finds them by this file, and refuses to start beside them.
        """
        with suppress(ProcessLookupError):  # it has ended meanwhile
            # A server that SIGSTOP has paused reacts only to the last signal.
            for end in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
                if (pid := self.leftover_pid()) is None:
                    break
                os.kill(pid, end)
                deadline = time.monotonic() + timeout_s
                while self.leftover_pid() is not None and time.monotonic() <= deadline:
                    time.sleep(0.02)
        if self.leftover_pid() is None and self._end_orphans(timeout_s):
            (self.data / "postmaster.pid").unlink(missing_ok=True)

    def leftover_pid(self) -> int | None:
        """Return the process id of a PostgreSQL that runs on this data folder; None = none runs on it."""
        lines = self._pid_file()
        if not lines or not lines[0].strip().isdigit():
            return None
        pid = int(lines[0])
        return pid if f"{self.data}" in _command_line(pid) else None

    def _end_orphans(self, timeout_s: float) -> bool:
        """Kill the backends of a killed server, and wait until they have ended. Return whether all have.

        A backend notices the end of its server only when it waits. Until then it goes on with its query, and may write
        into files that the next server already recovers.
        """
        deadline = time.monotonic() + timeout_s
        while orphans := _running_in(self.data):
            if time.monotonic() > deadline:
                return False
            for pid in orphans:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        return True

    def last_words(self) -> str:
        """Return the last error in the server's log, or its last line if there is none."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            lines = []
        loud = [line for line in lines[-20:] if "FATAL" in line or "ERROR" in line]
        return (loud or lines or ["it said nothing"])[-1]

    def _pid_file(self) -> list[str]:
        try:
            return (self.data / "postmaster.pid").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []

    def _write_password(self) -> None:
        path = self.folder / "password"
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(24))
        self.user.own(path)

    def _initdb(self, target: Path) -> None:
        self._run(
            [
                *("initdb", "-D", str(target), "-U", SUPERUSER, "--encoding=UTF8", "--locale=C"),
                *("--auth=scram-sha-256", f"--pwfile={self.folder / 'password'}"),
            ]
        )
        with (target / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write("\n# Vela's choice for this server; change what you like.\n")
            file.writelines(f"{name} = '{value}'\n" for name, value in self.configuration.items())
        self._run(["postgres", "--single", "-D", str(target), "postgres"], f"CREATE DATABASE {DATABASE};\n")

    def _run(self, command: list[str], text: str = "") -> None:
        done = subprocess.run(
            [self.binaries / command[0], *command[1:]],
            input=text,
            text=True,
            capture_output=True,
            check=False,
            env=_plain_environment(),
            **self.user.popen_arguments(),
        )
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise StartRefused(
                f"The embedded PostgreSQL could not be made in {self.folder}: {said[-1] if said else command[0]}"
            )


def _plain_environment() -> dict[str, str]:
    """Return an environment without the user's locale and PG… variables."""
    return {"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)}


def _running_in(data: Path) -> list[int]:
    """Return the ids of PostgreSQL's processes on a data folder, from /proc. Systems without /proc: none."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or belongs to another user
            program = (each / "exe").readlink()
            if program.name.startswith("postgres") and (each / "cwd").readlink() == data.resolve():
                found.append(int(each.name))
    return found


def _command_line(pid: int) -> str:
    """Return the command line of a process, from /proc or else from ps; empty if there is no such process."""
    proc = Path(f"/proc/{pid}/cmdline")
    if Path("/proc/self").exists():
        try:
            return proc.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    done = subprocess.run(
        ["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return done.stdout
