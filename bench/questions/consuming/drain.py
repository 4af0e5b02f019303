"""Does a backlog of a million drain as fast as one of ten thousand?"""

from __future__ import annotations

import asyncio
import os

from bench.figures import Figure, Goal
from bench.load.consuming.drain import drain
from bench.load.messages import entries
from bench.load.publishing.binary import publish_count
from bench.setting import Setting

__all__ = ["ask"]

PAYLOAD_BYTES = 100
SMALL = 10_000
_GOAL = Goal(at_least=90.0)


def ask(setting: Setting) -> list[Figure]:
    """Drain messages that were sent alone, with a Shared consumer that acks each.

    One small backlog is drained too quickly to be compared, so there are ten, each drained once in each run. They are
    published before the large one, which pushes them out of the broker's cache.
    """
    large = setting.sized(1_000_000, 100_000)
    entry = entries.single(os.urandom(PAYLOAD_BYTES))
    port = setting.pulsar_port
    small_topics = [setting.fresh_topic("small") for _ in range(10)]
    large_topic = setting.fresh_topic("large")
    for small_topic in small_topics:
        asyncio.run(publish_count(port, small_topic, entry, SMALL, window=1000))
    preload = asyncio.run(publish_count(port, large_topic, entry, large, window=1000))
    setting.say(f"drain: preloaded {large:,} single messages at {preload.per_s:,.0f}/s")
    small_runs: list[float] = []
    large_runs: list[float] = []
    note = ""
    for number in range(setting.repeats):
        rates = [asyncio.run(drain(port, topic, f"s{number}", SMALL)) for topic in small_topics]
        small_runs.append(len(rates) / sum(1 / rate for rate in rates))
        cpu = setting.processes.cpu()
        large_runs.append(asyncio.run(drain(port, large_topic, f"s{number}", large)))
        note = (setting.processes.cpu() - cpu).per(large)
        setting.say(
            f"drain: {SMALL:,} at {small_runs[-1]:,.0f}/s, {large:,} at {large_runs[-1]:,.0f}/s; {note}"
        )
    ratios = tuple(100 * big / small for big, small in zip(large_runs, small_runs, strict=True))
    return [
        Figure(name=f"drain of {large:,} single messages", unit="msg/s", runs=tuple(large_runs), note=note),
        Figure(name=f"  drain of {SMALL:,}", unit="msg/s", runs=tuple(small_runs)),
        Figure(name="  of the small backlog's rate", unit="%", runs=ratios, goal=_GOAL),
        Figure(
            name="  publishing them, one a frame",
            unit="msg/s",
            runs=(preload.per_s,),
            note="window 1,000, 100 B; the preload, measured once",
        ),
    ]
