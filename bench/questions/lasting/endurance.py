"""Do memory, open files, dead rows and disk stay flat while messages come and go at full speed for a long time?"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import psycopg

from bench.figures import Figure, Goal
from bench.load.steady import SteadyCycle
from bench.setting import Setting
from bench.usage import open_files, private_bytes, with_children

__all__ = ["SETTINGS", "ask", "growth_percent"]

SETTINGS: Final = {  # delete on ack, and tables small enough for many of them to come and go
    "VELA_DEFAULT_RETENTION_MS": "0",
    "VELA_DEFAULT_RETENTION_BYTES": "0",
    "VELA_LEDGER_MAX_ENTRIES": "5000",
    "VELA_LEDGER_MIN_AGE_S": "0",
    "VELA_LIFETIME_CHECK_S": "1",
    "VELA_SEGMENT_MAX_BYTES": str(32 * 1024 * 1024),
}
PAYLOAD_BYTES: Final = 1024
TOPICS: Final = 4
_RUN_S: Final = 20 * 60.0
_QUICK_RUN_S: Final = 60.0
_SAMPLES: Final = 120
_FLAT: Final = Goal(at_most=10.0)
_LOOK: Final = """\
SELECT pg_database_size(current_database()), (SELECT coalesce(sum(n_dead_tup), 0) FROM pg_stat_user_tables)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    """One quantity over time."""

    times_s: tuple[float, ...]
    values: tuple[float, ...]


def ask(setting: Setting) -> list[Figure]:
    """Do one run. A figure is the growth of a quantity over the second half, by a straight line through its samples."""
    run_s = _QUICK_RUN_S if setting.is_quick else _RUN_S
    delivered, series = asyncio.run(_run(setting, run_s))
    figures = [
        Figure(
            name=f"published, delivered and acked over {run_s:.0f} s",
            unit="msg/s",
            runs=(delivered / run_s,),
            note=f"{delivered * PAYLOAD_BYTES / 1e9:.1f} GB through {TOPICS} topics",
        )
    ]
    for name, each in series.items():
        half = len(each.values) // 2
        times_s, values = each.times_s[half:], each.values[half:]
        figures.append(
            Figure(
                name=f"  {name}: growth over the second half",
                unit="%",
                runs=(growth_percent(times_s, values),),
                goal=None if name.startswith("dead rows") else _FLAT,
                note=f"mean {sum(values) / len(values):,.1f}, lowest {min(values):,.1f}, highest {max(values):,.1f}",
            )
        )
    return figures


def growth_percent(times_s: tuple[float, ...], values: tuple[float, ...]) -> float:
    """Return how much a straight line through the samples grows from first to last, in percent of their mean."""
    count = len(values)
    mean_s, mean = sum(times_s) / count, sum(values) / count
    spread = sum((time_s - mean_s) ** 2 for time_s in times_s)
    if not mean or not spread:
        return 0.0
    slope = sum((at - mean_s) * (value - mean) for at, value in zip(times_s, values, strict=True)) / spread
    return 100 * slope * (times_s[-1] - times_s[0]) / mean


async def _run(setting: Setting, run_s: float) -> tuple[int, dict[str, _Series]]:
    cycles = [
        await SteadyCycle.start(setting.pulsar_port, setting.fresh_topic("endure"), PAYLOAD_BYTES)
        for _ in range(TOPICS)
    ]
    samples: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    began = time.monotonic()
    async with await psycopg.AsyncConnection.connect(
        setting.vela.database_url, autocommit=True
    ) as connection:
        try:
            while (now_s := time.monotonic() - began) < run_s:
                for name, value in (await _sample(setting, connection)).items():
                    samples[name].append((now_s, value))
                await asyncio.sleep(run_s / _SAMPLES)
                for cycle in cycles:
                    await cycle.per_s(0)  # raises if a peer has failed
            delivered = sum(cycle.delivered for cycle in cycles)
            for cycle in cycles:
                await cycle.finish()
        finally:
            for cycle in cycles:
                cycle.stop()
    return delivered, {
        name: _Series(times_s=tuple(at for at, _ in found), values=tuple(value for _, value in found))
        for name, found in samples.items()
    }


async def _sample(
    setting: Setting, connection: psycopg.AsyncConnection[tuple[object, ...]]
) -> dict[str, float]:
    """Return the memory and open files of each process with its children, the disk's use and the dead rows.

    PostgreSQL's shared buffers do not count.
    """
    found: dict[str, float] = {}
    for name, pid in sorted((await asyncio.to_thread(setting.vela.pids)).items()):
        family = with_children(pid)
        found[f"{name}, memory in MB"] = sum(private_bytes(each) for each in family) / 1e6
        found[f"{name}, open files"] = sum(open_files(each) for each in family)
    row = await (await connection.execute(_LOOK)).fetchone()
    assert row is not None
    size, dead = (float(str(value)) for value in row)
    return {**found, "disk in MB": size / 1e6, "dead rows": dead}
