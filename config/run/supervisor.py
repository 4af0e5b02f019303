"""Starts what Vela consists of, keeps it running, stops it in order."""

from __future__ import annotations

import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from select import select
from types import FrameType

from config.run.child import Backoff, Child
from config.run.errors import StartRefused
from config.run.postgres import PostgresServer

__all__ = ["Supervisor", "say"]

LOOK_S = 0.25  # between looks at the children; a death wakes it at once
READY_TIMEOUT_S = 120.0  # a busy machine is slow, not broken
STOP_TIMEOUT_S = 9.0  # all of it, so that "within 10 s" holds


def say(text: str) -> None:
    """One line for whoever watches."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Supervisor:
    """Runs in the main thread, which the children's lifelines are tied to."""

    def __init__(self, postgres: PostgresServer | None) -> None:
        self._stages: Sequence[Sequence[Child]] = ()
        self._postgres = postgres
        self._postgres_backoff = Backoff()
        self._postgres_started_s = time.monotonic()
        self._postgres_restart_s: float | None = None
        self._stop_asked = False
        self._waker, self._alarm = socket.socketpair()

    @property
    def stop_asked(self) -> bool:
        """Whether SIGINT or SIGTERM came."""
        return self._stop_asked

    def listen_to_signals(self) -> None:
        """From now on SIGINT and SIGTERM ask for a stop instead of killing this process half way."""
        self._waker.setblocking(False)
        self._alarm.setblocking(False)
        signal.set_wakeup_fd(self._alarm.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup keeps its meaning
                signal.signal(number, self._ask_to_stop)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)

    def start(self, stages: Sequence[Sequence[Child]]) -> None:
        """Start every child at once and wait until all serve. Raises StartRefused if one ends or stays away.

        `stages` is the order of stopping: all of a stage at once, the next when they are gone.
        """
        self._stages = stages
        starting = [child for stage in stages for child in stage]
        for child in reversed(starting):
            child.start()
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while starting and not self._stop_asked:
            for child in starting:
                if (code := child.died()) is not None:
                    said = "\n".join(f"  {line}" for line in child.last_lines())
                    raise StartRefused(
                        f"{child.name} ended at once (exit code {code}), log: {child.log}\n{said}"
                    )
            starting = [child for child in starting if not child.is_up()]
            if time.monotonic() > deadline_s:
                names = ", ".join(child.name for child in starting)
                raise StartRefused(
                    f"Not ready within {READY_TIMEOUT_S:.0f} s: {names} (log: {starting[0].log})"
                )
            self._wait(0.05)

    def watch(self) -> None:
        """Restart what dies until a stop is asked for."""
        while not self._stop_asked:
            now_s = time.monotonic()
            self._tend_postgres(now_s)
            for stage in self._stages:
                for child in stage:
                    self._tend(child, now_s)
                    child.trim_log()
            self._wait(LOOK_S)

    def stop(self) -> None:
        """Stop in order, PostgreSQL last. What does not go in its time is killed; nothing is left."""
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        for stage in self._stages:
            for child in stage:
                child.ask_to_stop()
            for child in stage:
                if not child.stopped_by(min(deadline_s - 2.0, time.monotonic() + child.grace_s)):
                    say(f"{child.name} did not stop in {child.grace_s:.0f} s and was killed")
                child.kill()
        if self._postgres is not None:
            self._postgres.stop(max(1.0, deadline_s - time.monotonic()))

    def _tend(self, child: Child, now_s: float) -> None:
        if (code := child.died()) is not None:
            child.bury()
            say(
                f"{child.name} {_ending(code)}; starting it again in {child.restart_s - now_s:.1f} s (log: {child.log})"
            )
        elif child.process is None and now_s >= child.restart_s:
            child.start()

    def _tend_postgres(self, now_s: float) -> None:
        server = self._postgres
        if server is None or server.process is None:
            return
        code = server.process.poll()
        if code is None:
            return
        if self._postgres_restart_s is None:
            wait_s = self._postgres_backoff.after(now_s - self._postgres_started_s)
            self._postgres_restart_s = now_s + wait_s
            say(
                f"postgresql {_ending(code)}{_last_words(server.log)}; "
                f"starting it again in {wait_s:.1f} s (log: {server.log})"
            )
        elif now_s >= self._postgres_restart_s:
            server.start()
            self._postgres_started_s = time.monotonic()
            self._postgres_restart_s = None

    def _ask_to_stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stop_asked = True

    def _wait(self, timeout_s: float) -> None:
        """Sleep until a signal (a child's death among them) or the timeout."""
        if select([self._waker], [], [], timeout_s)[0]:
            self._waker.recv(4096)


def _last_words(log: Path) -> str:
    """Why PostgreSQL ended, by its own log: a full disk is the operator's to mend."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4096))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    words = [
        line.partition(level)[2].strip() for line in lines for level in ("PANIC:", "FATAL:") if level in line
    ]
    return f" ({words[-1]})" if words else ""


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
