"""Start real PostgreSQL servers for tests: 18 from the embedded package, 15 from Debian's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from config.environment import PROJECT_DIR
from config.run.postgres.binaries import reachable_binaries
from config.run.postgres.server import DURABLE, PostgresServer
from config.run.postgres.system_user import postgres_user
from tests.support.ports import free_ports

__all__ = ["fresh_database", "migrate", "postgres_15", "started_postgres", "world_readable_folder"]

DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")
FAST = {**DURABLE, "fsync": "off", "full_page_writes": "off", "max_wal_size": "1GB", "max_connections": "200"}


@contextmanager
def world_readable_folder(prefix: str = "vela-test-") -> Iterator[Path]:
    """Make a temporary folder that other users may enter, unlike pytest's folder: PostgreSQL's user must enter it."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def started_postgres(
    *, major: int = 18, binaries: Path | None = None, durable: bool = False, folder: Path | None = None
) -> Iterator[PostgresServer]:
    """Start a server on a free port; without fsync, unless it must be `durable`.

    `folder` is Vela's data folder. Without it, the server gets a temporary one.
    """
    with nullcontext(folder) if folder else world_readable_folder("vela-pg-") as folder:
        user = postgres_user()
        server = PostgresServer(
            binaries=binaries or reachable_binaries(user, folder / "binaries", major),
            major=major,
            folder=folder / "postgres",
            port=free_ports(1)[0],
            user=user,
            configuration=DURABLE if durable else FAST,
        )
        server.create()
        server.start()
        server.wait_ready()
        if not durable and major >= 16:
            _with_quick_logins(server.url)
        try:
            yield server
        finally:
            server.stop()


def _with_quick_logins(url: str) -> None:
    """Store the password with one round of hashing: with 4,096, each of many connections would take milliseconds."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET scram_iterations = 1")
        password = Literal(connection.info.password)
        connection.execute(SQL("ALTER USER CURRENT_USER PASSWORD {}").format(password))


@contextmanager
def postgres_15() -> Iterator[tuple[str, str]]:
    """Yield the URL of the oldest PostgreSQL that Vela supports, and a description of the server.

    The URL is VELA_TEST_PG15_URL, else that of Debian's postgresql-15, else that of the embedded package's 16. The
    run's summary shows the description.
    """
    if url := os.environ.get("VELA_TEST_PG15_URL"):
        yield url, "VELA_TEST_PG15_URL"
    elif (DEBIAN_15 / "postgres").exists():
        with started_postgres(major=15, binaries=DEBIAN_15) as server:
            yield server.url, "Debian's PostgreSQL 15"
    else:
        with started_postgres(major=16) as server:
            yield server.url, "the package's PostgreSQL 16, since no 15 is installed"


@contextmanager
def fresh_database(server_url: str, name: str, *, template: str = "template1") -> Iterator[str]:
    """Copy `template` to a new database on a running server, yield its URL, and drop it at the end."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name)))
        connection.execute(
            SQL("CREATE DATABASE {} TEMPLATE {}").format(Identifier(name), Identifier(template))
        )
    try:
        yield f"{server_url.rpartition('/')[0]}/{name}"
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name)))


def migrate(url: str) -> None:
    """Migrate a database, in a separate process so that this one's Django keeps its connections."""
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity=0"],
        cwd=PROJECT_DIR,
        env={**os.environ, "DATABASE_URL": url},
        check=True,
    )
