"""What does a transaction that somebody forgot to end cost producers and consumers?"""

from __future__ import annotations

import asyncio
import statistics

import psycopg

from bench.figures import Figure, Goal
from bench.load.steady import SteadyCycle
from bench.setting import Setting

__all__ = ["ask"]

PAYLOAD_BYTES = 1024
HELD_S = 300.0
_SLICES = 10
_GOAL = Goal(at_most=5.0)


def ask(setting: Setting) -> list[Figure]:
    """Publish and consume at full speed before, during and after one REPEATABLE READ transaction.

    The rate is measured in slices of time. A loss may grow with time, so only the last slices during the transaction
    decide. They are compared with the mean of the rates before and after, so that the machine's own drift cancels out.
    """
    return asyncio.run(_ask(setting))


async def _ask(setting: Setting) -> list[Figure]:
    slice_s = (30.0 if setting.is_quick else HELD_S) / _SLICES
    cycle = await SteadyCycle.start(setting.pulsar_port, setting.fresh_topic("held"), PAYLOAD_BYTES)
    try:
        await cycle.per_s(setting.warm_up_s * 2)
        before = [await cycle.per_s(slice_s) for _ in range(3)]
        async with await psycopg.AsyncConnection.connect(setting.vela.database_url) as connection:
            await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
            await connection.execute("SELECT count(*) FROM vela_topic")  # the snapshot is taken here
            held = [await cycle.per_s(slice_s) for _ in range(_SLICES)]
            dead = await _dead_rows(setting.vela.database_url)
            await connection.rollback()
        after = [await cycle.per_s(slice_s) for _ in range(3)]
    finally:
        cycle.stop()
    for name, slices in (("before", before), ("held", held), ("after", after)):
        setting.say(f"held snapshot, {name}: {', '.join(f'{rate:,.0f}' for rate in slices)} msg/s")
    free = statistics.mean((statistics.median(before), statistics.median(after)))
    last = held[-3:]
    return [
        Figure(name="cycle without it (before and after)", unit="msg/s", runs=(*before, *after)),
        Figure(
            name=f"  held {slice_s * _SLICES:.0f} s, all slices",
            unit="msg/s",
            runs=tuple(held),
            note=f"dead rows at its end: {dead}",
        ),
        Figure(
            name="  lost in its last slices",
            unit="%",
            runs=tuple(100 * (1 - rate / free) for rate in last),
            goal=_GOAL,
        ),
    ]


async def _dead_rows(database_url: str) -> str:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute("SELECT pg_stat_clear_snapshot()")
        cursor = await connection.execute(
            "SELECT relname, n_dead_tup FROM pg_stat_user_tables WHERE n_dead_tup > 0 ORDER BY 2 DESC LIMIT 4"
        )
        return ", ".join(f"{name} {count:,}" for name, count in await cursor.fetchall())
