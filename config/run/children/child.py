"""One supervised process. It has its own process group and log, and is started again with back-off."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from config.run.children.lifeline import dies_with_parent

__all__ = ["Backoff", "Child", "trim_log"]

LOG_LIMIT_BYTES = 32 * 1024 * 1024


@dataclass(slots=True)
class Backoff:
    """The wait before the next start. It doubles with each early end, and is short again after a long run."""

    first_s: float = 0.5
    most_s: float = 5.0  # not longer, because producers wait meanwhile and a start every 5 s costs little
    healthy_s: float = 10.0  # after a run of this length, the next wait is `first_s`
    _next_s: float = 0.0

    def after(self, lived_s: float) -> float:
        """Return the seconds to wait after a process that ran for `lived_s`."""
        if lived_s >= self.healthy_s or self._next_s == 0.0:
            self._next_s = self.first_s
        wait_s = self._next_s
        self._next_s = min(self.most_s, self._next_s * 2)
        return wait_s


def trim_log(log: Path) -> None:
    """Move the content of a log of more than 32 MiB to a second file.

    This is safe while the log's process runs, because the process appends. If the disk is full, the content is dropped,
    because Vela needs the room. A log that cannot be emptied, for example because it is append-only, grows on.
    """
    with contextlib.suppress(OSError):
        if log.stat().st_size <= LOG_LIMIT_BYTES:
            return
        with log.open("r+b") as file:
            kept = log.with_suffix(".log.1")
            try:
                shutil.copyfile(log, kept)
            except OSError:
                with contextlib.suppress(OSError):
                    kept.unlink()
            file.truncate(0)


@dataclass(slots=True, kw_only=True)
class Child:
    """A process of Vela."""

    name: str
    command: Sequence[str]
    is_up: Callable[[], bool]  # whether it serves; asked only while it starts
    environment: Mapping[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    started_s: float = 0.0  # monotonic
    restart_s: float = 0.0  # monotonic; when to start it again
    backoff: Backoff = field(default_factory=Backoff)

    def start(self) -> None:
        """Start the process. Its output is appended to its log."""
        trim_log(self.log)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(self.environment),
                start_new_session=True,
                preexec_fn=dies_with_parent(signal.SIGKILL),
            )
        self.started_s = time.monotonic()

    def died(self) -> int | None:
        """Return the exit code if the process has ended and is not buried yet, else None."""
        return None if self.process is None else self.process.poll()

    def bury(self) -> None:
        """Kill the rest of an ended process's group, forget the process, and set the time of its next start."""
        self.kill()
        now_s = time.monotonic()
        self.restart_s = now_s + self.backoff.after(now_s - self.started_s)
        self.process = None

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the process, and return at once."""
        if self.process is not None and self.is_running():
            self.process.terminate()

    def is_running(self) -> bool:
        """Return whether the process was started and has not ended."""
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """Send SIGKILL to the whole process group, so that no grandchild stays, and wait for the process."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def last_words(self) -> str:
        """Return the last line of the process's log, without the prefix that names the program."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - 8192))
                lines = file.read().decode(errors="replace").split("\n")
        except OSError:
            lines = []
        last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
        if last.startswith("{"):  # VELA_LOG_FORMAT=json
            with contextlib.suppress(ValueError, KeyError, TypeError):
                return str(json.loads(last)["message"])
        return last.removeprefix("vela: ").removeprefix("CommandError: ")
