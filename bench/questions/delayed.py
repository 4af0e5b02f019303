"""How much memory do a million delayed messages take, and how late do they come?"""

from __future__ import annotations

import asyncio
import os
import random
import time

from bench.figures import Figure, Goal, percentile
from bench.load.delayed import Lateness, delayed_entry
from bench.load.messages import entries
from bench.load.peers.binary import PeerFailed
from bench.load.publishing.binary import publish_count, publish_each
from bench.setting import Setting
from bench.usage import rss_bytes

__all__ = ["ask"]

PAYLOAD_BYTES = 100
DUE_PER_S = 5000
_FAR_MS = 24 * 3600 * 1000
_PRELOAD_PER_S = 20_000  # at this rate, publishing ends five seconds before the first message is due
_WINDOW = 1000
_CACHE_ENTRIES = 150_000  # entries of one payload each, more than the broker's tail cache holds
_MEMORY = Goal(at_most=100.0)
_LATE = Goal(at_most=100.0)


def ask(setting: Setting) -> list[Figure]:
    """Let delayed messages wait at one Shared subscription. A tenth of them, at random places, fall due in the run.

    The memory is the growth of the broker's resident size while these messages are published. Ordinary messages fill
    the broker's tail cache first, so the cache does not count.
    """
    waiting = setting.sized(1_000_000, 100_000)
    filler = entries.single(os.urandom(PAYLOAD_BYTES))
    asyncio.run(
        publish_count(
            setting.pulsar_port, setting.fresh_topic("filler"), filler, _CACHE_ENTRIES, window=_WINDOW
        )
    )
    memory: list[float] = []
    p50: list[float] = []
    p99: list[float] = []
    rates: list[float] = []
    worst = 0.0
    for number in range(setting.repeats):
        before = rss_bytes(setting.processes.broker_pid)
        run = asyncio.run(_run(setting, waiting))
        memory.append((run.rss_bytes - before) / 1e6)
        rates.append(run.publish_per_s)
        p50.append(percentile(run.late_ms, 50))
        p99.append(percentile(run.late_ms, 99))
        worst = max(worst, *run.late_ms)
        setting.say(
            f"delayed, run {number}: {memory[-1]:.1f} MB for {waiting:,} waiting, published at {rates[-1]:,.0f}/s;"
            f" {len(run.late_ms):,} due at {DUE_PER_S:,}/s: late p50 {p50[-1]:.1f} ms, p99 {p99[-1]:.1f} ms"
        )
    return [
        Figure(
            name=f"memory of {waiting:,} delayed messages",
            unit="MB",
            runs=tuple(memory),
            goal=_MEMORY,
            note="growth of the broker's resident size; its tail cache was full before",
        ),
        Figure(
            name=f"lateness at {DUE_PER_S:,} due a second, p50",
            unit="ms",
            runs=tuple(p50),
            note="from the due time to the client",
        ),
        Figure(name="  p99", unit="ms", runs=tuple(p99), goal=_LATE, note=f"max {worst:.0f} ms"),
        Figure(name="  publishing them, one a frame", unit="msg/s", runs=tuple(rates)),
    ]


class _Run:
    """What one run measured."""

    def __init__(self, rss: int, publish_per_s: float, late_ms: list[float]) -> None:
        self.rss_bytes = rss
        self.publish_per_s = publish_per_s
        self.late_ms = late_ms


async def _run(setting: Setting, waiting: int) -> _Run:
    topic = setting.fresh_topic("delayed")
    due = waiting // 10
    lead_s = waiting / _PRELOAD_PER_S + 5.0
    first_due_ms = int(time.time() * 1000 + lead_s * 1000)
    chance = random.Random(1)
    near = [first_due_ms + number * 1000 // DUE_PER_S for number in range(due)]
    far = [first_due_ms + _FAR_MS + number for number in range(waiting - due)]
    times = near + far
    chance.shuffle(times)
    consumer = await Lateness.start(setting.pulsar_port, topic, "s", PAYLOAD_BYTES)
    try:
        published = await publish_each(
            setting.pulsar_port,
            topic,
            lambda number: delayed_entry(times[number], PAYLOAD_BYTES),
            waiting,
            window=_WINDOW,
        )
        if time.time() * 1000 > first_due_ms:
            raise PeerFailed(
                f"publishing took longer than the {lead_s:.0f} s until the first message was due"
            )
        rss = rss_bytes(setting.processes.broker_pid)
        await consumer.has(due)
        return _Run(rss, published.per_s, list(consumer.late_ms))
    finally:
        consumer.stop()
