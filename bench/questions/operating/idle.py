"""How much CPU time does an idle Vela take?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from bench.figures import Figure, Goal
from bench.load.many.topics import ManyTopics
from bench.setting import Setting
from bench.usage import cpu_s, postgres_cpu_s

__all__ = ["ask"]

_RUN_S = 60.0
_QUICK_RUN_S = 10.0
_SETTLED_S = 20.0  # until the start and the first rounds of upkeep are over
_QUICK_SETTLED_S = 5.0
_TOPICS = 10
_PAYLOAD_BYTES = 1024
_PATIENCE_S = 30.0
_GOAL = Goal(at_most=2.0)


def ask(setting: Setting) -> list[Figure]:
    """Measure without a client, then with ten topics whose producers and consumers are connected and send nothing."""
    return asyncio.run(_ask(setting))


async def _ask(setting: Setting) -> list[Figure]:
    await asyncio.sleep(_QUICK_SETTLED_S if setting.is_quick else _SETTLED_S)
    figures = await _quiet(setting, "nobody connected")
    prefix = setting.fresh_topic("idle")
    peer = await ManyTopics.open(
        setting.pulsar_port, [f"{prefix}-{number}" for number in range(_TOPICS)], _PAYLOAD_BYTES
    )
    try:
        for number in range(_TOPICS):
            peer.send(number)
        await peer.all_arrived(_TOPICS, _PATIENCE_S)
        await asyncio.sleep(_QUICK_SETTLED_S if setting.is_quick else _SETTLED_S)
        return figures + await _quiet(setting, f"{_TOPICS} topics, their clients say nothing")
    finally:
        peer.close()


async def _quiet(setting: Setting, name: str) -> list[Figure]:
    """Measure runs in which nobody sends, in percent of one core for each process and for all of them."""
    run_s = _QUICK_RUN_S if setting.is_quick else _RUN_S
    runs: list[dict[str, float]] = []
    for _ in range(setting.repeats):
        before, began_s = _used_s(setting), time.perf_counter()
        await asyncio.sleep(run_s)
        took_s, after = time.perf_counter() - began_s, _used_s(setting)
        runs.append({each: 100 * (after[each] - before[each]) / took_s for each in after})
        setting.say(f"idle, {name}: {sum(runs[-1].values()):.2f} % of a core")
    whole = Figure(
        name=f"{name}: all processes",
        unit="% core",
        runs=tuple(sum(run.values()) for run in runs),
        goal=_GOAL,
    )
    return [
        whole,
        *(
            Figure(name=f"  {each}", unit="% core", runs=tuple(run[each] for run in runs))
            for each in sorted(runs[0], key=lambda each: -runs[0][each])
        ),
    ]


def _used_s(setting: Setting) -> Mapping[str, float]:
    """Return the CPU seconds of each process so far, by name."""
    supervisor = setting.vela.process
    if supervisor is None:
        raise RuntimeError("this Vela was not started")
    pids = setting.vela.pids() | {"supervisor": supervisor.pid}
    return {
        name: postgres_cpu_s(pid) if name == "postgresql" else cpu_s(pid, ended_children=False)
        for name, pid in pids.items()
    }
