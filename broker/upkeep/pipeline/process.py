"""Run one job in a separate process, because Spark must not run inside a Celery worker."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any, Final

__all__ = ["JobProcess"]

_LOG_CHARACTERS: Final = 64 * 1024
_MOST_LINE_BYTES: Final = 1 << 26  # 64 MiB, because a report may describe 10,000 partitions
_GRACE_S: Final = 5.0


class JobProcess:
    """A job and its Java process, in their own process group.

    The request contains the database password, so it goes through standard input. If the worker dies, the job's
    standard input closes, and the job ends.
    """

    def __init__(self, request: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        """Raises OSError if the process cannot be started."""
        self._reports: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._log: list[str] = []
        self._log_characters = 0
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pipeline", "--supervised"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read_reports, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_log, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        with suppress(BrokenPipeError):  # If the process has ended, its exit code and log say why
            self._process.stdin.write(json.dumps(dict(request)).encode() + b"\n")
            self._process.stdin.flush()

    def reports(self, wait_s: float) -> list[dict[str, Any]]:
        """Wait at most `wait_s` seconds for a report, and return all reports that have arrived."""
        found = []
        with suppress(queue.Empty):
            found.append(self._reports.get(timeout=wait_s))
            while True:
                found.append(self._reports.get_nowait())
        return found

    def confirm(self) -> None:
        """Let the job continue. Call this after recording which messages the job will read."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative if a signal ended the process.

        Only `has_ended` and `end` update this value.
        """
        return self._process.returncode

    @property
    def log(self) -> str:
        """The last 65,536 characters of the process's log."""
        with self._lock:
            return "".join(self._log)[-_LOG_CHARACTERS:]

    def end(self) -> None:
        """Ask the job to stop, then kill its process group.

        Blocks until the process has ended. Safe to repeat.
        """
        with suppress(ProcessLookupError):
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_S)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for reader in self._readers:
            reader.join(1.0)
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def _read_reports(self, pipe: IO[bytes]) -> None:
        with pipe:
            while line := pipe.readline(_MOST_LINE_BYTES):
                with suppress(ValueError):
                    report = json.loads(line)
                    if isinstance(report, dict):
                        self._reports.put(report)

    def _read_log(self, pipe: IO[bytes]) -> None:
        with pipe:
            while line := pipe.readline(4096):
                text = line.decode(errors="replace")
                with self._lock:
                    self._log.append(text)
                    self._log_characters += len(text)
                    if self._log_characters > 2 * _LOG_CHARACTERS:
                        self._log = ["".join(self._log)[-_LOG_CHARACTERS:]]
                        self._log_characters = len(self._log[0])
