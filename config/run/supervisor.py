"""Start the processes of Vela, keep them running and stop them in order."""

from __future__ import annotations

import logging
import math
import signal
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from select import select
from types import FrameType, TracebackType
from typing import Any, Self

from broker.conf import EXIT_LOCK_TAKEN, EXIT_SETTING_INVALID
from config.log_lines import say
from config.run.children.child import Backoff, Child, trim_log
from config.run.errors import StartRefused
from config.run.postgres.server import PostgresServer

__all__ = ["Supervisor"]

LOOK_S = 0.25  # time between looks while a process ends or waits to be started again
CALM_LOOK_S = 2.0  # time between looks at the sizes of logs; a child that ends wakes the supervisor at once
START_LOOK_S = 0.05
SLOW_START_S = 60.0  # after this time the supervisor names what is not ready, and keeps waiting


class Supervisor:
    """The parent of Vela's processes. At the end of its `with` block it stops everything that it started.

    Run it in the main thread, because the kernel ties children to the thread that starts them.
    """

    def __init__(self, postgres: PostgresServer | None, *, stop_timeout_s: float) -> None:
        self._stages: Sequence[Sequence[Child]] = ()
        self._postgres = postgres
        self._postgres_backoff = Backoff()
        self._postgres_started_s = time.monotonic()
        self._postgres_restart_s: float | None = None
        self._stop_timeout_s = stop_timeout_s
        self._stop_asked = False
        self._is_hurried = False
        self._handlers: dict[signal.Signals, Any] = {}  # the signal handlers to restore at the end
        self._slow_s = time.monotonic() + SLOW_START_S
        self._waker, self._alarm = socket.socketpair()

    @property
    def stop_asked(self) -> bool:
        """Whether SIGINT, SIGTERM or SIGHUP came."""
        return self._stop_asked

    def __enter__(self) -> Self:
        """Make SIGINT, SIGTERM and SIGHUP ask for a stop instead of killing this process.

        A SIGHUP that is ignored stays so, for `nohup`.
        """
        self._waker.setblocking(False)
        self._alarm.setblocking(False)
        signal.set_wakeup_fd(self._alarm.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._handlers[number] = signal.signal(number, self._ask_to_stop)
        self._handlers[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything that runs, and restore the signal handlers."""
        try:
            self._stop()
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            self._waker.close()
            self._alarm.close()

    def start_postgres(self) -> None:
        """Start the embedded server and wait until it takes connections, or until a stop is asked for.

        A server that is killed meanwhile is started again. If it ends by itself, it has refused its configuration, its
        folder or its port: raises StartRefused with the last error in its log.
        """
        server = self._postgres
        if server is None:
            return
        server.start()
        while not server.is_ready() and not self._stop_asked:
            if server.process is not None and (server.process.poll() or 0) > 0:
                raise StartRefused(
                    f"The embedded PostgreSQL did not start: {server.last_words()} (log: {server.log})"
                )
            self._tend_postgres(time.monotonic())
            self._say_if_slow("postgresql", server.log)
            self._wait(START_LOOK_S)

    def start(self, stages: Sequence[Sequence[Child]]) -> None:
        """Start every child at once and wait until all serve, or until a stop is asked for.

        `stages` is the order of stopping: the children of a stage are stopped together, and the next stage when they
        have ended. A child that dies is started again. Raises StartRefused with the child's sentence if it refuses a
        setting, or if another broker has the lock.
        """
        self._stages = stages
        waiting = [child for stage in stages for child in stage]
        for child in reversed(waiting):
            child.start()
        while not self._stop_asked:
            self._tend_all(may_refuse=True)
            waiting = [child for child in waiting if child.process is None or not child.is_up()]
            if not waiting:
                return
            self._say_if_slow(", ".join(child.name for child in waiting), waiting[0].log)
            self._wait(START_LOOK_S)

    def watch(self) -> None:
        """Restart processes that die, until a stop is asked for.

        A child that ends with status 78 is not started again, because the same start would fail again.
        """
        while not self._stop_asked:
            self._tend_all()
            self.trim_logs()
            self._wait(CALM_LOOK_S if self._is_calm() else LOOK_S)

    def trim_logs(self) -> None:
        """Keep every log short, also PostgreSQL's: the server logs two lines for each statement that it refuses."""
        for stage in self._stages:
            for child in stage:
                trim_log(child.log)
        if self._postgres is not None:
            trim_log(self._postgres.log)

    def _is_calm(self) -> bool:
        """Return whether no process waits to be started again."""
        children = [child for stage in self._stages for child in stage]
        return self._postgres_restart_s is None and all(
            child.process is not None or child.restart_s == math.inf for child in children
        )

    def _stop(self) -> None:
        """Stop the stages in order, then PostgreSQL. Nothing is left running.

        Each of these steps has an equal share of `stop_timeout_s`, and the time that earlier steps did not use. After
        that, or at a second Ctrl-C, the supervisor kills the processes that still run.
        """
        began_s = time.monotonic()
        share_s = self._stop_timeout_s / (len(self._stages) + 1)
        for number, stage in enumerate(self._stages, start=1):
            for child in stage:
                child.ask_to_stop()
            self._wait_until(partial(_are_gone, stage), began_s + share_s * number)
            for child in stage:
                if child.is_running():
                    say(f"{child.name} {self._why_killed(began_s)}", level=logging.WARNING)
                child.kill()
        if self._postgres is not None and self._postgres.process is not None:
            process = self._postgres.process
            self._postgres.ask_to_stop()
            self._wait_until(lambda: process.poll() is not None, began_s + self._stop_timeout_s)
            self._postgres.stop(0.0)

    def _say_if_slow(self, names: str, log: Path) -> None:
        if time.monotonic() > self._slow_s:
            self._slow_s = time.monotonic() + SLOW_START_S
            say(f"not ready yet: {names}; still waiting (log: {log})")

    def _why_killed(self, began_s: float) -> str:
        if self._is_hurried:
            return "was killed after a second signal to stop"
        took_s = time.monotonic() - began_s
        return f"did not stop in {took_s:.1f} s and was killed; set VELA_STOP_TIMEOUT_S to give it longer"

    def _tend_all(self, *, may_refuse: bool = False) -> None:
        """Restart processes that died.

        With `may_refuse`, raises StartRefused if a child refused a setting or another broker has the lock.
        """
        now_s = time.monotonic()
        self._tend_postgres(now_s)
        for stage in self._stages:
            for child in stage:
                # Read the exit code once: a child that dies between two looks would pass the first of the checks below.
                code = child.died()
                if may_refuse and code in (EXIT_SETTING_INVALID, EXIT_LOCK_TAKEN):
                    raise StartRefused(f"{child.name}: {child.last_words()}", exit_code=code)
                self._tend(child, code, now_s)

    def _tend(self, child: Child, code: int | None, now_s: float) -> None:
        if code is not None:
            said = f" ({child.last_words()})" if code > 0 else ""
            child.bury()
            if code == EXIT_SETTING_INVALID:
                child.restart_s = math.inf
                say(
                    f"{child.name} refused to start{said} and is not started again; correct the cause, then start Vela"
                    f" again (log: {child.log})",
                    level=logging.ERROR,
                )
                return
            wait_s = child.restart_s - now_s
            say(
                f"{child.name} {_ending(code)}{said}; starting it again in {wait_s:.1f} s (log: {child.log})",
                level=logging.WARNING,
            )
        elif child.process is None and now_s >= child.restart_s:
            is_started = _is_started(child.start, child.name)
            child.restart_s = 0.0 if is_started else now_s + child.backoff.after(0.0)

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
                f"starting it again in {wait_s:.1f} s (log: {server.log})",
                level=logging.WARNING,
            )
        elif now_s >= self._postgres_restart_s:
            if _is_started(server.start, "postgresql"):
                self._postgres_started_s = time.monotonic()
                self._postgres_restart_s = None
            else:
                self._postgres_restart_s = now_s + self._postgres_backoff.after(0.0)

    def _ask_to_stop(self, number: int, _frame: FrameType | None) -> None:
        # Only Ctrl-C hurries a stop that was asked for before: for one stop, `make` may send SIGTERM twice, and a
        # terminal may send SIGHUP twice.
        self._is_hurried |= self._stop_asked and number == signal.SIGINT
        self._stop_asked = True

    def _wait_until(self, done: Callable[[], bool], deadline_s: float) -> None:
        """Wait until `done` returns True, the deadline (monotonic) has passed, or a Ctrl-C hurries the stop."""
        while not done() and not self._is_hurried and (left_s := deadline_s - time.monotonic()) > 0:
            self._wait(min(LOOK_S, left_s))

    def _wait(self, timeout_s: float) -> None:
        """Sleep until a signal comes, such as the one for a child's death, or until the timeout."""
        if select([self._waker], [], [], timeout_s)[0]:
            self._waker.recv(4096)


def _is_started(start: Callable[[], None], name: str) -> bool:
    """Start a process again. If the system cannot start it, for example without memory, say so and return False."""
    try:
        start()
    except OSError as error:
        say(f"{name} cannot be started: {error}; trying again", level=logging.ERROR)
        return False
    return True


def _are_gone(children: Sequence[Child]) -> bool:
    return not any(child.is_running() for child in children)


def _last_words(log: Path) -> str:
    """Return why PostgreSQL ended, from its log: an operator may have to act, for example on a full disk."""
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
