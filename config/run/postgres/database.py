"""The database that Vela runs on: the embedded server, or the one that DATABASE_URL names."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg

from config.environment import database_parts
from config.run.errors import StartRefused
from config.run.postgres.binaries import EMBEDDED_MAJOR, reachable_binaries
from config.run.postgres.server import PostgresServer
from config.run.postgres.system_user import postgres_user

__all__ = ["OLDEST_MAJOR", "embedded_server", "refuse_unusable_url", "write_private"]

OLDEST_MAJOR = 15


def embedded_server(data_dir: Path, port: int) -> PostgresServer:
    """Return the server in a data folder, not started. Copy its programs there if its user cannot reach them."""
    user = postgres_user()
    return PostgresServer(
        binaries=reachable_binaries(user, data_dir / "binaries"),
        major=EMBEDDED_MAJOR,
        folder=data_dir / "postgres",
        port=port,
        user=user,
    )


def refuse_unusable_url(url: str) -> None:
    """Raise StartRefused, whose text leaves out the password, if no usable PostgreSQL answers at the URL."""
    parts = database_parts(url)
    where = f"{parts['HOST'] or 'the local socket'}:{parts['PORT'] or 5432}/{parts['NAME']}"
    try:
        with psycopg.connect(url, connect_timeout=5) as connection:
            version = connection.info.server_version
    except psycopg.Error as error:
        said = " ".join(str(error).split()).replace(parts["PASSWORD"] or "\0", "***")
        raise StartRefused(f"DATABASE_URL names {where}, which cannot be used: {said}") from None
    if version < OLDEST_MAJOR * 10_000:
        raise StartRefused(
            f"DATABASE_URL names PostgreSQL {version // 10_000} at {where}: Vela needs {OLDEST_MAJOR} or newer"
        )


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, or replace it as a whole."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(text)
    fresh.replace(path)
