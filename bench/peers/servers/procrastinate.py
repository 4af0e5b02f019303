"""procrastinate: jobs in tables, in a PostgreSQL with the configuration of Vela's embedded one."""

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
from config.environment import PROJECT_DIR
from tests.support.postgres import started_postgres

__all__ = ["started"]

_PACKAGES: Final = ("procrastinate==3.10.0", "croniter==7.0.0")  # Vela has its other dependencies already

_LOAD: Final = "import sys; from bench.peers.jobs import main; sys.exit(main())"


@contextmanager
def started(folder: Path) -> Iterator[Server]:
    """Start PostgreSQL with procrastinate's tables. Raises ProgramFailed if the package is missing."""
    installed = folder / "procrastinate"
    output_of(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            str(installed),
            *_PACKAGES,
        ],
        folder,
    )
    with started_postgres(durable=True) as postgres:
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            connection.execute((installed / "procrastinate" / "sql" / "schema.sql").read_bytes())
            version = connection.info.parameter_status("server_version") or "?"
        assert postgres.process is not None
        pid = postgres.process.pid

        yield Server(
            url=postgres.url,
            protocol="procrastinate",
            loader=(
                *("env", f"PYTHONPATH={installed}:{PROJECT_DIR}"),
                *(sys.executable, "-c", _LOAD),
            ),
            facts={
                "procrastinate": _PACKAGES[0].rpartition("=")[2],
                "postgresql": version,
                "durability": "fsync on",
            },
            cpu_s=lambda: {"PostgreSQL": postgres_cpu_s(pid)},
            is_quickly_filled=False,
            is_job_queue=True,
            commits=lambda: commits_of(postgres.url),
        )
