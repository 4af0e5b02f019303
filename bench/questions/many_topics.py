"""How much CPU time and memory do ten thousand topics take when each gets a message a minute?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine

from bench.figures import Figure, Goal
from bench.load.many.topics import ManyTopics
from bench.setting import Setting
from bench.usage import CpuTime, rss_bytes

__all__ = ["ask"]

TOPICS = 10_000
QUICK_TOPICS = 500
PAYLOAD_BYTES = 1024
_RUN_S = 60.0  # every topic gets its message once
_GOAL = Goal(at_most=25.0)
_PATIENCE_S = 30.0


def ask(setting: Setting) -> list[Figure]:
    """Open a producer and a consumer on each topic. Send each a message a minute, evenly spread; then send nothing."""
    return asyncio.run(_ask(setting))


async def _ask(setting: Setting) -> list[Figure]:
    count = setting.sized(TOPICS, QUICK_TOPICS)
    prefix = setting.fresh_topic("many")
    began = time.perf_counter()
    before_bytes = rss_bytes(setting.processes.broker_pid)
    peer = await ManyTopics.open(
        setting.pulsar_port, [f"{prefix}-{number}" for number in range(count)], PAYLOAD_BYTES
    )
    opened_s = time.perf_counter() - began
    setting.say(f"many topics: {count:,} opened in {opened_s:.0f} s")
    run_s = 10.0 if setting.is_quick else _RUN_S
    busy: list[CpuTime] = []
    try:
        await asyncio.sleep(5)
        for _ in range(setting.repeats):
            busy.append(await _used(setting, _write(peer, count, run_s)))
            setting.say(f"many topics, a message each: {busy[-1]}")
        held_bytes = rss_bytes(setting.processes.broker_pid)
        quiet = [await _used(setting, asyncio.sleep(run_s)) for _ in range(setting.repeats)]
    finally:
        peer.close()
    return [
        Figure(
            name=f"{count:,} topics, a message a minute each: broker",
            unit="% core",
            runs=tuple(100 * used.broker_s / run_s for used in busy),
            goal=_GOAL,
            note=f"{count / run_s:,.0f} msg/s published, delivered and acked" if run_s == _RUN_S else "",
        ),
        Figure(
            name="  PostgreSQL", unit="% core", runs=tuple(100 * used.postgres_s / run_s for used in busy)
        ),
        Figure(
            name="  nobody writes: broker",
            unit="% core",
            runs=tuple(100 * used.broker_s / run_s for used in quiet),
        ),
        Figure(
            name="  nobody writes: PostgreSQL",
            unit="% core",
            runs=tuple(100 * used.postgres_s / run_s for used in quiet),
        ),
        Figure(
            name="  memory a topic with both clients",
            unit="KiB",
            runs=((held_bytes - before_bytes) / count / 1024,),
            note=f"opened in {opened_s:.0f} s",
        ),
    ]


async def _write(peer: ManyTopics, count: int, run_s: float) -> None:
    """Send one message to each topic, spread over the whole time. Raises PeerFailed when one does not arrive."""
    expected = peer.delivered + count
    began = time.perf_counter()
    for number in range(count):
        wait_s = began + run_s * number / count - time.perf_counter()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        peer.send(number)
    await asyncio.sleep(max(0.0, began + run_s - time.perf_counter()))
    await peer.all_arrived(expected, _PATIENCE_S)


async def _used(setting: Setting, work: Coroutine[object, object, None]) -> CpuTime:
    before = setting.processes.cpu()
    await work
    return setting.processes.cpu() - before
