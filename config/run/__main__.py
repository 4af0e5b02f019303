"""`make run`: one process starts, watches and stops everything that Vela needs."""

from __future__ import annotations

import fcntl
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from broker import service_manager
from broker.conf import EXIT_SETTING_INVALID
from config.environment import PROJECT_DIR
from config.log_lines import say, use_format
from config.run.errors import StartRefused
from config.run.options import Options, refuse_exposure, refuse_taken_ports
from config.run.postgres.database import embedded_server, refuse_unusable_url, write_private
from config.run.postgres.server import PostgresServer
from config.run.processes import child_environment, stages
from config.run.supervisor import Supervisor


def main() -> int:
    """Run until SIGINT or SIGTERM. Return 0 after a stop.

    If Vela does not start, standard error says why. The exit code is then the broker's for the same cause: 78 if the
    same start would fail again, 75 if another broker has the lock, else 1.
    """
    try:
        options = Options.from_environment(os.environ)
        use_format(options.log_format)
        refuse_exposure(os.environ)
        with _sole_owner(options.data_dir):
            return _run(options)
    except StartRefused as refused:
        sys.stderr.write(f"vela: {refused}\n")
        return refused.exit_code


def _run(options: Options) -> int:
    server = _find_database(options)
    refuse_taken_ports(options.ports)
    with Supervisor(server, stop_timeout_s=options.stop_timeout_s) as supervisor:
        database_url = _start_database(options, server, supervisor)
        if not supervisor.stop_asked:
            environment = child_environment(options, database_url)
            _prepare(environment)
            supervisor.start(stages(options, environment))
        if not supervisor.stop_asked:
            say(_ready_line(options))
            service_manager.tell(service_manager.READY)
            supervisor.watch()
        say("stopping")
        service_manager.tell(service_manager.STOPPING)
    return 0


def _find_database(options: Options) -> PostgresServer | None:
    """Return the embedded server, which is not started yet, or None if DATABASE_URL names another server.

    Raises StartRefused if that other server does not answer. Ends an embedded server that a killed supervisor left
    running.
    """
    if options.database_url:
        refuse_unusable_url(options.database_url)
        return None
    server = embedded_server(options.data_dir, options.pg_port)
    server.stop_leftover()
    return server


def _start_database(options: Options, server: PostgresServer | None, supervisor: Supervisor) -> str:
    """Start the embedded server, unless DATABASE_URL names another server, and return the database's URL."""
    if server is None:
        return options.database_url
    if server.create():
        say(f"postgresql: new database in {server.data}")
    supervisor.start_postgres()
    write_private(options.data_dir / "database-url", server.url)
    return server.url


def _prepare(environment: dict[str, str]) -> None:
    """Migrate the database and create the user `admin`, in a separate process."""
    done = subprocess.run(
        [sys.executable, "-m", "config.run.prepare"],
        cwd=PROJECT_DIR,
        env=environment,
        text=True,
        capture_output=True,
        check=False,
        start_new_session=True,  # so that Ctrl-C does not interrupt a migration
    )
    for line in done.stdout.splitlines():
        say(line)
    if done.returncode != 0:
        raise StartRefused(
            f"The database could not be brought up to date:\n{done.stderr.strip()}",
            exit_code=EXIT_SETTING_INVALID if done.returncode == EXIT_SETTING_INVALID else 1,
        )


def _ready_line(options: Options) -> str:
    host = options.local_host
    (console, console_has_tls), (broker, broker_has_tls) = options.console_probe, options.broker_probe
    return (
        f"vela ready console={'https' if console_has_tls else 'http'}://{host}:{console}"
        f" websocket={'wss' if broker_has_tls else 'ws'}://{host}:{broker} pulsar={options.advertised_url}"
    )


@contextmanager
def _sole_owner(data_dir: Path) -> Iterator[None]:
    """Make the data folder and lock it: two supervisors on one folder would stop each other's server."""
    try:
        (data_dir / "log").mkdir(parents=True, exist_ok=True)
        lock = (data_dir / "lock").open("a")
    except OSError as error:
        raise StartRefused(f"VELA_DATA_DIR {data_dir} cannot be used: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StartRefused(
                f"Vela already runs on {data_dir}: stop it first, or set another VELA_DATA_DIR"
            ) from None
        if not (data_dir / "secret-key").exists():
            write_private(data_dir / "secret-key", secrets.token_urlsafe(48))
        yield


if __name__ == "__main__":
    sys.exit(main())
