"""How much memory does each of many connections take, and how fast does the broker admit new ones?"""

from __future__ import annotations

import asyncio
import time
from functools import partial

from bench.figures import Figure, Goal
from bench.load.elsewhere import elsewhere
from bench.load.many.crowd import arriving, crowd
from bench.load.many.opened import allow_files
from bench.setting import Setting
from bench.usage import rss_bytes

__all__ = ["ask"]

ACTIVE = 100
PER_S = 1000.0
_EACH = Goal(at_most=60.0)
_P99 = Goal(at_most=1000.0)
_SETTLING_S = 1.0


def ask(setting: Setting) -> list[Figure]:
    """Open idle connections, and let a hundred of them ping; then let a thousand clients a second connect and leave."""
    connections = setting.sized(10_000, 2_000)
    allow_files(connections + 1000)
    pid = setting.processes.broker_pid
    before = rss_bytes(pid)
    load = partial(crowd, setting.pulsar_port, connections=connections, active=ACTIVE)
    began = time.perf_counter()
    with elsewhere(load):
        took_s = time.perf_counter() - began
        time.sleep(_SETTLING_S)
        used = setting.processes.cpu()
        time.sleep(setting.run_s)
        used = setting.processes.cpu() - used
        each = (rss_bytes(pid) - before) / connections / 1024
    busy = 100 * used.broker_s / setting.run_s
    setting.say(f"storm, {connections} connections: {each:.1f} KiB each, {busy:.1f} % of a core")
    runs = []
    for _ in range(setting.repeats):
        before_cpu = setting.processes.cpu()
        runs.append(
            asyncio.run(
                arriving(setting.pulsar_port, per_s=PER_S, warm_up_s=setting.warm_up_s, run_s=setting.run_s)
            )
        )
        cpu_s = (setting.processes.cpu() - before_cpu).broker_s
        cost_us = 1e6 * cpu_s / (PER_S * (setting.warm_up_s + setting.run_s))
        setting.say(f"storm, arriving: {runs[-1]}; broker {cost_us:.0f} µs per connection")
    return [
        Figure(
            name=f"memory of one of {connections:,} connections",
            unit="KiB",
            runs=(each,),
            goal=_EACH,
            note=f"{ACTIVE} of them ping ten times a second: {busy:.1f} % of a core; opened in {took_s:.1f} s",
        ),
        Figure(name="1,000 connects a second, p50", unit="ms", runs=tuple(run.at(50) for run in runs)),
        Figure(
            name="1,000 connects a second, p99", unit="ms", runs=tuple(run.at(99) for run in runs), goal=_P99
        ),
        Figure(name="CPU of a connect in the broker", unit="µs", runs=(cost_us,)),
    ]
