"""How much slower are a producer and its consumer while other connections take all that the broker gives them?"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

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
_ALONE = "alone"

_Load = Callable[[], AbstractContextManager[None]]


def ask(setting: Setting) -> list[Figure]:
    """Each run measures the pair alone, then beside each load. The ratios are to the same run's pair alone."""
    loads = _loads(setting)
    runs: dict[str, list[Latencies]] = {name: [] for name in loads}
    for _ in range(setting.repeats):
        for name, load in loads.items():
            before = setting.processes.cpu()
            with load():
                runs[name].append(_run(setting))
            used = setting.processes.cpu() - before
            setting.say(
                f"fairness, {name}: {runs[name][-1]}; CPU broker {used.broker_s:.1f} s,"
                f" PostgreSQL {used.postgres_s:.1f} s"
            )
    figures: list[Figure] = []
    for name, found in runs.items():
        figures += [
            Figure(name=f"{name}, p{percent}", unit="ms", runs=tuple(run.at(percent) for run in found))
            for percent in (50, 99)
        ]
        if name != _ALONE:
            pairs = zip(found, runs[_ALONE], strict=True)
            figures.append(
                Figure(
                    name=f"{name}, p99 to the pair alone",
                    unit="×",
                    runs=tuple(run.at(99) / alone.at(99) for run, alone in pairs),
                    goal=_RATIO,
                )
            )
    return figures


def _loads(setting: Setting) -> dict[str, _Load]:
    pulsar, http = setting.pulsar_port, setting.http_port
    payload = os.urandom(PAYLOAD_BYTES)
    topic = setting.fresh_topic("load")
    return {
        _ALONE: nullcontext,
        "a producer floods": partial(elsewhere, partial(binary_flood, pulsar, topic, payload)),
        "four connections send refused requests": partial(
            elsewhere, partial(refused_requests, pulsar, connections=4)
        ),
        "a WebSocket producer floods": partial(
            elsewhere, partial(websocket_flood, http, topic, PAYLOAD_BYTES)
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
            warm_up_s=setting.warm_up_s / 2,
            run_s=setting.run_s / 2,
        )
    )
