"""How long do the slowest messages take while checkpoints, vacuums, ends of segments and a drain disturb the broker?"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

from bench.figures import Figure, Goal, percentile
from bench.load.disturbances import Disturbance, Disturbances, checkpoint, drained, happening, vacuum
from bench.load.end_to_end import binary_latency
from bench.load.messages import entries
from bench.load.open_loop import Latencies, run_exactly
from bench.load.peers.binary import BinaryPeer
from bench.load.publishing.binary import publish_count
from bench.setting import Setting
from vela.wire.binary.enums import SubType

__all__ = ["SETTINGS", "ask"]

SETTINGS: Final = {  # so that several tables fill up in the run, and each is dropped when everything in it is acked
    "VELA_DEFAULT_RETENTION_MS": "0",
    "VELA_DEFAULT_RETENTION_BYTES": "0",
    "VELA_LEDGER_MIN_AGE_S": "0",
    "VELA_SEGMENT_MAX_BYTES": str(64 * 1024 * 1024),
}
PER_S: Final = 1000.0
PAYLOAD_BYTES: Final = 1024
BACKLOG: Final = 1_000_000
_BACKLOG_PAYLOAD_BYTES: Final = 100
_RUN_S: Final = 600.0
_QUICK_RUN_S: Final = 30.0
_WINDOW: Final = 1000
_QUIET: Final = "nothing else"
_KINDS: Final = ("checkpoint", "vacuum", "segment end", "drain", _QUIET)
_SHOWN: Final = 8
_APART_S: Final = 1.0  # delays that are closer count as one
_GOAL: Final = Goal(at_most=50.0)


def ask(setting: Setting) -> list[Figure]:
    """Do one run of ten minutes. A message counts for each disturbance that happened while it was on its way."""
    run_s = _QUICK_RUN_S if setting.is_quick else _RUN_S
    backlog = setting.fresh_topic("backlog")
    count = setting.sized(BACKLOG, 20_000)
    asyncio.run(_stored(setting, backlog, count))
    with happening(setting.vela.database_url, _plan(setting, backlog, count, run_s)) as disturbances:
        latencies = run_exactly(
            binary_latency(
                setting.pulsar_port,
                setting.fresh_topic("disturbed"),
                payload_bytes=PAYLOAD_BYTES,
                per_s=PER_S,
                warm_up_s=setting.warm_up_s,
                run_s=run_s,
            )
        )
    setting.say(f"disturbed latency: {latencies}")
    charged = _charged(latencies, disturbances)
    for line in _largest(latencies, charged):
        setting.say(line)
    return [
        Figure(name=f"{run_s:.0f} s at 1,000 msg/s of 1 KB, p50", unit="ms", runs=(latencies.at(50),)),
        Figure(name="  p99", unit="ms", runs=(latencies.at(99),)),
        Figure(
            name="  p99.9",
            unit="ms",
            runs=(latencies.at(99.9),),
            goal=_GOAL,
            note=f"max {max(latencies.values_ms):.0f} ms; "
            f"generator late p99.9 {percentile(latencies.lateness_ms, 99.9):.1f} ms",
        ),
        *(_figure(kind, latencies, charged, disturbances) for kind in _KINDS),
    ]


def _plan(setting: Setting, backlog: str, count: int, run_s: float) -> list[Disturbance]:
    """Return the disturbances: checkpoints and vacuums before and after the drain, which begins near the middle."""
    url = setting.vela.database_url
    steps = (
        (0.10, "checkpoint", partial(checkpoint, url)),
        (0.20, "vacuum", partial(vacuum, url)),
        (0.30, "checkpoint", partial(checkpoint, url)),
        (0.40, "drain", partial(drained, setting.pulsar_port, backlog, "other", count)),
        (0.80, "vacuum", partial(vacuum, url)),
        (0.90, "checkpoint", partial(checkpoint, url)),
    )
    return [Disturbance(after_s=part * run_s, what=what, do=do) for part, what, do in steps]


async def _stored(setting: Setting, topic: str, count: int) -> None:
    """Store a backlog of single messages for a subscription. Draining it keeps the broker fully busy."""
    consumer = await BinaryPeer.connect(setting.pulsar_port)
    await consumer.subscribe(topic, "other", SubType.SHARED)
    consumer.close()
    entry = entries.single(os.urandom(_BACKLOG_PAYLOAD_BYTES))
    await publish_count(setting.pulsar_port, topic, entry, count, window=_WINDOW)


def _charged(latencies: Latencies, disturbances: Disturbances) -> list[frozenset[str]]:
    """Return what happened while each message was on its way."""
    return [
        disturbances.what_at(intended_s, intended_s + value_ms / 1000) or frozenset((_QUIET,))
        for intended_s, value_ms in zip(latencies.intended_s, latencies.values_ms, strict=True)
    ]


def _figure(
    kind: str, latencies: Latencies, charged: Sequence[frozenset[str]], disturbances: Disturbances
) -> Figure:
    values = [value for value, kinds in zip(latencies.values_ms, charged, strict=True) if kind in kinds]
    lasted_s = sum(each.ended_s - each.began_s for each in disturbances.windows if each.what == kind)
    during = "" if kind == _QUIET else f" in {lasted_s:.1f} s"
    return Figure(
        name=f"  p99.9 of messages beside: {kind}",
        unit="ms",
        runs=(percentile(values, 99.9) if values else 0.0,),
        note=f"max {max(values, default=0.0):.0f} ms of {len(values):,} messages{during}",
    )


def _largest(latencies: Latencies, charged: Sequence[frozenset[str]]) -> Iterable[str]:
    """Yield a line for each of the largest delays: when it was, and what happened then. Close delays count as one."""
    began_s, slow_ms = latencies.intended_s[0], latencies.at(99.5)
    slow = sorted(
        (number for number, value in enumerate(latencies.values_ms) if value > slow_ms),
        key=lambda number: latencies.intended_s[number],
    )
    groups: list[list[int]] = [slow[:1]]
    for before, number in pairwise(slow):
        if latencies.intended_s[number] - latencies.intended_s[before] > _APART_S:
            groups.append([])
        groups[-1].append(number)
    worst = [max(group, key=lambda number: latencies.values_ms[number]) for group in groups if group]
    for number in sorted(worst, key=lambda number: -latencies.values_ms[number])[:_SHOWN]:
        yield (
            f"{latencies.values_ms[number]:8.1f} ms after {latencies.intended_s[number] - began_s:6.1f} s:"
            f" {', '.join(sorted(charged[number]))}"
        )
