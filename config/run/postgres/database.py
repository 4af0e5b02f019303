"""The database that Vela runs on: the embedded server, or the one that DATABASE_URL names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import psycopg

from broker.conf import EXIT_SETTING_INVALID
from config.environment import database_parts
from config.run.errors import StartRefused
from config.run.postgres.binaries import EMBEDDED_MAJOR, reachable_binaries
from config.run.postgres.server import PostgresServer
from config.run.postgres.system_user import postgres_user

__all__ = ["OLDEST_MAJOR", "embedded_server", "refuse_unusable_url", "without_password", "write_private"]

OLDEST_MAJOR = 15
_SHORT: Final = 4  # letters; a shorter password is part of many words


def embedded_server(data_dir: Path, port: int) -> PostgresServer:
    """Return the server of a data folder without starting it. Copy its programs there if its user cannot reach them."""
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
        said = without_password(" ".join(str(error).split()), url)
        raise StartRefused(f"DATABASE_URL names {where}, which cannot be used: {said}") from None
    if version < OLDEST_MAJOR * 10_000:
        raise StartRefused(
            f"DATABASE_URL names PostgreSQL {version // 10_000} at {where}: Vela needs {OLDEST_MAJOR} or newer",
            exit_code=EXIT_SETTING_INVALID,
        )


def without_password(said: str, url: str) -> str:
    """Return `said` with *** in place of a URL's password, both the plain one and the one that the URL encodes.

    A short password is hidden only in a URL and in quotation marks. Anywhere else its letters may be part of a word.
    """
    written = urlsplit(url).password or ""
    for password in {written, unquote(written)} - {""}:
        for before, after in ((":", "@"), ('"', '"')):
            said = said.replace(f"{before}{password}{after}", f"{before}***{after}")
        if len(password) >= _SHORT:
            said = said.replace(password, "***")
    return said


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, or replace it as a whole."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(text)
    fresh.replace(path)
