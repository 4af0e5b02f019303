"""How much memory do a consumer that does not read and a producer that floods take, and how long do others wait?"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from bench.figures import Figure, Goal
from bench.load.bad_peers import (
    binary_flood,
    binary_not_reading,
    websocket_flood,
    websocket_not_reading,
)
from bench.load.end_to_end import binary_latency
from bench.load.messages import entries
from bench.load.open_loop import run_exactly
from bench.load.publishing.binary import publish_count
from bench.setting import Setting
from bench.usage import peak_rss, rss_bytes

__all__ = ["ask"]

PAYLOAD_BYTES = 1024
PER_S = 1000.0
_MIB = 2**20
_MEMORY = Goal(at_most=20.0)  # four of the largest messages allowed: 4 × 5 MiB by default
_P99 = Goal(at_most=20.0)


def ask(setting: Setting) -> list[Figure]:
    """Measure an innocent producer and consumer at 1,000 messages a second, alone, then beside each bad peer in turn.

    The broker's caches are filled first, so that they do not add to its growth.
    """
    backlog = setting.fresh_topic("bad")
    filling = entries.batch(PAYLOAD_BYTES)
    asyncio.run(publish_count(setting.pulsar_port, backlog, filling, setting.sized(1500, 1000), window=64))
    peers: list[tuple[str, Callable[[], AbstractContextManager[None]]]] = [
        ("nobody", nullcontext),
        ("binary consumer not reading", lambda: binary_not_reading(setting.pulsar_port, backlog)),
        ("WebSocket consumer not reading", lambda: websocket_not_reading(setting.http_port, backlog)),
        (
            "binary producer flooding",
            lambda: binary_flood(
                setting.pulsar_port, setting.fresh_topic("flood"), os.urandom(PAYLOAD_BYTES)
            ),
        ),
        (
            "WebSocket producer flooding",
            lambda: websocket_flood(setting.http_port, setting.fresh_topic("flood"), PAYLOAD_BYTES),
        ),
    ]
    figures: list[Figure] = []
    for name, peer in peers:
        growths: list[float] = []
        p99s: list[float] = []
        for _ in range(setting.repeats):
            growth, p99 = _run(setting, peer)
            growths.append(growth)
            p99s.append(p99)
            setting.say(f"bad peers, {name}: +{growth:.1f} MiB, others' p99 {p99:.1f} ms")
        figures.append(
            Figure(
                name=f"{name}: the broker's memory",
                unit="MiB",
                runs=tuple(growths),
                goal=None if peer is nullcontext else _MEMORY,
                note="growth, with what the measured pair itself causes",
            )
        )
        figures.append(
            Figure(name=f"{name}: others' p99 at 1,000 msg/s", unit="ms", runs=tuple(p99s), goal=_P99)
        )
    return figures


def _run(setting: Setting, peer: Callable[[], AbstractContextManager[None]]) -> tuple[float, float]:
    """Return the most that the broker's memory grew while the peer misbehaved, in MiB, and the others' p99 in ms."""
    pid = setting.processes.broker_pid
    before = rss_bytes(pid)
    with peak_rss(pid) as peak, peer():
        latencies = run_exactly(
            binary_latency(
                setting.pulsar_port,
                setting.fresh_topic("innocent"),
                payload_bytes=PAYLOAD_BYTES,
                per_s=PER_S,
                warm_up_s=setting.warm_up_s,
                run_s=setting.run_s,
            )
        )
    time.sleep(0.5)  # the broker frees what it kept for the peer
    return (peak[0] - before) / _MIB, latencies.at(99)
