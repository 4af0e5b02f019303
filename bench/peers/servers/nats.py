"""NATS JetStream, which syncs every message before it answers. Go builds it from its module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

from bench.peers.generator import SOURCE
from bench.peers.programs import output_of, serving
from bench.peers.server import Server
from tests.support.ports import free_ports

__all__ = ["started"]

_MODULE: Final = "github.com/nats-io/nats-server/v2"
_SETTINGS: Final = """\
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitor}"
jetstream {{ store_dir: "{folder}/store", sync_interval: always }}
"""


@contextmanager
def started(folder: Path) -> Iterator[Server]:
    """Start one server that keeps its streams in files. Raises ProgramFailed if Go or the module is missing."""
    port, monitor = free_ports(2)
    output_of(["go", "build", "-o", str(folder / "nats-server"), _MODULE], SOURCE)
    settings = _SETTINGS.format(port=port, monitor=monitor, folder=folder)
    (folder / "nats.conf").write_text(settings, encoding="utf-8")

    def is_ready() -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{monitor}/healthz").is_success
        except httpx.TransportError:
            return False

    with serving([str(folder / "nats-server"), "-c", "nats.conf"], folder, is_ready) as cpu_s:
        yield Server(
            url=f"nats://127.0.0.1:{port}",
            protocol="nats",
            has_batches=False,
            is_quickly_filled=False,
            facts={
                "nats-server": output_of([str(folder / "nats-server"), "--version"], folder).split()[-1],
                "durability": "sync_interval always",
            },
            cpu_s=cpu_s,
        )
