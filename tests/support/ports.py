"""Free TCP ports for servers that a test starts."""

from __future__ import annotations

import os
import random
import socket

__all__ = ["free_ports"]

# Below the ports that systems give to outgoing connections (Linux from 32768, others from 49152): any client might
# take such a port between the probe and its use.
_PORTS = range(10_000, 32_000)


def _shuffled() -> list[int]:
    """Return the ports that this process tries, in order. Workers of a parallel run have none in common."""
    worker, workers = (
        os.environ.get("PYTEST_XDIST_WORKER", "gw0"),
        os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"),
    )
    mine = list(_PORTS[int(worker.removeprefix("gw")) :: int(workers)])
    random.SystemRandom().shuffle(mine)
    return mine


_untried = _shuffled()


def free_ports(count: int) -> list[int]:
    """Return different ports on which nothing listens. No port is returned twice."""
    found: list[int] = []
    while len(found) < count:
        port = _untried.pop()
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    return found
