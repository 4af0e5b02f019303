"""PGMQ: queues made of SQL functions, in a PostgreSQL with the configuration of Vela's embedded one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg

from bench.peers.programs import output_of
from bench.peers.server import Server
from bench.peers.servers.commits import commits_of
from bench.usage import postgres_cpu_s
from tests.support.postgres import started_postgres

__all__ = ["started"]

_PACKAGE: Final = "pgmq==1.1.4"  # the Python client; it contains the functions
_CONNECTIONS: Final = 10


@contextmanager
def started(folder: Path) -> Iterator[Server]:
    """Start PostgreSQL with PGMQ's functions. Raises ProgramFailed if the package is missing."""
    output_of(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", "pgmq", _PACKAGE], folder
    )
    source = folder / "pgmq" / "pgmq" / "sql"
    with started_postgres(durable=True) as postgres:
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            connection.execute((source / "pgmq.sql").read_bytes())
            version = connection.info.parameter_status("server_version") or "?"
        assert postgres.process is not None
        pid = postgres.process.pid

        yield Server(
            url=f"{postgres.url}?pool_max_conns={_CONNECTIONS}",
            protocol="pgmq",
            facts={
                "pgmq": (source / "VERSION").read_text(encoding="ascii").strip(),
                "postgresql": version,
                "durability": "fsync on",
            },
            cpu_s=lambda: {"PostgreSQL": postgres_cpu_s(pid)},
            is_quickly_filled=False,
            commits=lambda: commits_of(postgres.url),
        )
