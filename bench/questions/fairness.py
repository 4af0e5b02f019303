"""How much slower are a producer and its consumer while other connections load the broker as much as they can?"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from bench.ceilings.bare_broker import Strain, bare_latency, wal_bytes
from bench.figures import Figure, Goal
from bench.load.bad_peers import binary_flood, refused_requests, websocket_flood, websocket_refused
from bench.load.elsewhere import elsewhere
from bench.load.end_to_end import binary_latency
from bench.load.open_loop import Latencies, run_exactly
from bench.setting import Setting

__all__ = ["ask"]

PAYLOAD_BYTES = 1024
PER_S = 200.0
_RATIO = Goal(at_most=2.0)

_Load = Callable[[], AbstractContextManager[None]]


def ask(setting: Setting) -> list[Figure]:
    """Measure the pair beside each load, and compare it with the mean of the pair alone before and after the load.

    The p99 of the pair alone is the p99 of a commit, which differs from minute to minute as the disk does. After each
    load, measure its floor: the same strain on the machine, without a broker between the pair and PostgreSQL.
    """
    loads = {name: load for name, load in _loads(setting).items() if setting.part in name}
    alone: list[Latencies] = []
    beside: dict[str, list[Latencies]] = {name: [] for name in loads}
    floors: dict[str, list[Latencies]] = {name: [] for name in loads}
    ratios: dict[str, list[float]] = {name: [] for name in loads}
    _measure(setting, "warm-up", nullcontext)  # the first commits extend tables and WAL, and fill caches
    for _ in range(setting.repeats):
        before, _ = _measure(setting, "alone", nullcontext)
        alone.append(before)
        for name, load in loads.items():
            found, strain = _measure(setting, name, load)
            floors[name].append(_floor(setting, name, strain))
            after, _ = _measure(setting, "alone", nullcontext)
            beside[name].append(found)
            alone.append(after)
            ratios[name].append(2 * found.at(99) / (before.at(99) + after.at(99)))
            before = after
    figures = _figures("alone", alone)
    for name, runs in beside.items():
        figures += _figures(name, runs)
        figures.append(
            Figure(name=f"{name}, p99 to the pair alone", unit="×", runs=tuple(ratios[name]), goal=_RATIO)
        )
        figures += _figures(f"{name}, floor", floors[name])
        to_floor = tuple(run.at(99) / floor.at(99) for run, floor in zip(runs, floors[name], strict=True))
        figures.append(Figure(name=f"{name}, p99 to the floor", unit="×", runs=to_floor))
    return figures


def _measure(setting: Setting, name: str, load: _Load) -> tuple[Latencies, Strain]:
    """Measure the pair while the load runs, and the strain that both put on the machine."""
    url = setting.vela.database_url
    with load():
        before, wal_before, began_s = setting.processes.cpu(), wal_bytes(url), time.perf_counter()
        found = _run(setting)
        used, wal, run_s = (
            setting.processes.cpu() - before,
            wal_bytes(url) - wal_before,
            time.perf_counter() - began_s,
        )
    setting.say(
        f"fairness, {name}: {found}; cores broker {used.broker_s / run_s:.2f}, PostgreSQL"
        f" {used.postgres_s / run_s:.2f}; WAL {wal / run_s / 1e6:.1f} MB/s"
    )
    return found, Strain(broker_cores=min(1.0, used.broker_s / run_s), wal_bytes=wal / run_s)


def _floor(setting: Setting, name: str, strain: Strain) -> Latencies:
    found = bare_latency(
        setting.vela.database_url,
        strain,
        payload_bytes=PAYLOAD_BYTES,
        per_s=PER_S,
        warm_up_s=setting.warm_up_s,
        run_s=setting.run_s,
    )
    setting.say(f"fairness, {name}, floor: {found}")
    return found


def _figures(name: str, runs: Sequence[Latencies]) -> list[Figure]:
    return [
        Figure(name=f"{name}, p{percent}", unit="ms", runs=tuple(run.at(percent) for run in runs))
        for percent in (50, 99)
    ]


def _loads(setting: Setting) -> dict[str, _Load]:
    pulsar, http = setting.pulsar_port, setting.http_port
    payload = os.urandom(PAYLOAD_BYTES)
    topic = setting.fresh_topic("load")
    return {
        "a producer floods": partial(
            elsewhere, partial(binary_flood, pulsar, topic, payload, reads_receipts=True)
        ),
        "four connections send refused requests": partial(
            elsewhere, partial(refused_requests, pulsar, connections=4)
        ),
        "a WebSocket producer floods": partial(
            elsewhere, partial(websocket_flood, http, topic, PAYLOAD_BYTES, reads_receipts=True)
        ),
        "four WebSockets send refused messages": partial(
            elsewhere, partial(websocket_refused, http, topic, connections=4)
        ),
    }


def _run(setting: Setting) -> Latencies:
    return run_exactly(
        binary_latency(
            setting.pulsar_port,
            setting.fresh_topic("innocent"),
            payload_bytes=PAYLOAD_BYTES,
            per_s=PER_S,
            warm_up_s=setting.warm_up_s,
            run_s=setting.run_s,
        )
    )
