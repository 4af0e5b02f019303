"""RabbitMQ with a quorum queue on one node, from Debian's package; its system service is left alone."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.peers.programs import ProgramFailed, serving
from bench.peers.server import Server
from tests.support.ports import free_ports

__all__ = ["started"]

_PROGRAM: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # the one in /usr/sbin changes the user
_VERSIONS: Final = "lib/rabbitmq_server-*"
_SETTINGS: Final = """\
listeners.tcp.1 = 127.0.0.1:{port}
"""


@contextmanager
def started(folder: Path) -> Iterator[Server]:
    """Start one node with its own data, ports and port mapper. Raises ProgramFailed if the package is missing."""
    if not _PROGRAM.exists():
        raise ProgramFailed("RabbitMQ is not installed: apt-get install rabbitmq-server")
    port, distribution, mapper = free_ports(3)
    (folder / "rabbitmq.conf").write_text(_SETTINGS.format(port=port), encoding="ascii")
    (folder / "enabled_plugins").write_text("[].\n", encoding="ascii")
    environment = {
        "HOME": folder,  # where the node keeps its Erlang cookie
        "ERL_EPMD_PORT": mapper,
        "RABBITMQ_ALLOW_INPUT": 1,  # the script becomes the server, so that its process id is the server's
        "RABBITMQ_CONF_ENV_FILE": folder / "no-environment",
        "RABBITMQ_CONFIG_FILE": folder / "rabbitmq",
        "RABBITMQ_DIST_PORT": distribution,
        "RABBITMQ_ENABLED_PLUGINS_FILE": folder / "enabled_plugins",
        "RABBITMQ_LOG_BASE": folder / "log",
        "RABBITMQ_MNESIA_BASE": folder / "data",
        "RABBITMQ_NODENAME": f"vela-peers-{port}@localhost",
    }
    variables = [f"{name}={value}" for name, value in environment.items()]
    mapping_folder = folder / "epmd"
    mapping_folder.mkdir()
    with (
        # The port mapper. Otherwise the node would start one, which outlives the node.
        serving(["epmd", "-port", str(mapper)], mapping_folder, lambda: _listens(mapper)),
        serving(
            ["env", *variables, str(_PROGRAM), "-noinput"], folder, lambda: _listens(port), patience_s=120.0
        ) as cpu_s,
    ):
        yield Server(
            url=f"amqp://guest:guest@127.0.0.1:{port}/",
            protocol="rabbitmq",
            facts={"rabbitmq": _version(), "durability": "quorum queue, confirms"},
            cpu_s=cpu_s,
            has_batches=False,
            is_quickly_filled=False,
        )


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True


def _version() -> str:
    (found,) = _PROGRAM.parent.parent.glob(_VERSIONS)
    return found.name.rpartition("-")[2]
