"""A whole Vela, as `make run` starts it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg

from bench.peers.server import Server
from bench.peers.servers.commits import commits_of
from bench.usage import Processes
from tests.support.vela import started_vela
from vela.version import __version__

__all__ = ["started"]


@contextmanager
def started(_folder: Path) -> Iterator[Server]:
    """Start Vela with its defaults; `fsync` and `synchronous_commit` are on."""
    with started_vela() as vela:
        pids = vela.pids()
        processes = Processes(broker_pid=pids["broker"], postgres_pid=pids["postgresql"])

        def cpu() -> Mapping[str, float]:
            used = processes.cpu()
            return {"broker": used.broker_s, "PostgreSQL": used.postgres_s}

        with psycopg.connect(vela.database_url) as connection:
            postgres = connection.info.parameter_status("server_version") or "?"
        yield Server(
            url=vela.pulsar_url,
            protocol="pulsar",
            facts={"vela": __version__, "postgresql": postgres, "durability": "fsync on"},
            cpu_s=cpu,
            pulsar_port=int(vela.environment["VELA_PULSAR_PORT"]),
            websocket_port=int(vela.environment["VELA_HTTP_PORT"]),
            commits=lambda: commits_of(vela.database_url),
        )
