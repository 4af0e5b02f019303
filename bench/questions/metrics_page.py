"""What does reading /metrics of ten thousand subscriptions do to messages at 1,000 a second?"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext

from bench.figures import Figure, Goal
from bench.load.end_to_end import binary_latency
from bench.load.many.topics import ManyTopics
from bench.load.open_loop import Latencies, run_exactly
from bench.load.scraper import scraping
from bench.setting import Setting

__all__ = ["ask"]

TOPICS = 10_000
QUICK_TOPICS = 500
PER_S = 1000.0
PAYLOAD_BYTES = 1024
_GOAL = Goal(at_most=2.0)


def ask(setting: Setting) -> list[Figure]:
    """A topic with a subscription, a producer and a consumer each; alone and with a scraper, run by run."""
    return asyncio.run(_ask(setting))


async def _ask(setting: Setting) -> list[Figure]:
    prefix = setting.fresh_topic("metrics")
    count = setting.sized(TOPICS, QUICK_TOPICS)
    topics = [f"{prefix}-{number}" for number in range(count)]
    peer = await ManyTopics.open(setting.pulsar_port, topics, PAYLOAD_BYTES)
    setting.say(f"metrics: {count:,} topics opened")
    try:
        return await asyncio.to_thread(_measured, setting, count)  # here the peer answers keep-alives
    finally:
        peer.close()


def _measured(setting: Setting, count: int) -> list[Figure]:
    runs: dict[bool, list[Latencies]] = {False: [], True: []}
    note = ""
    for _ in range(setting.repeats):
        for is_read in (False, True):
            reading: AbstractContextManager[list[str]] = (
                scraping(setting.http_port) if is_read else nullcontext([])
            )
            with reading as report:
                runs[is_read].append(_latency(setting))
            note = report[0] if report else note
            setting.say(f"metrics {'read' if is_read else 'not read'}: {runs[is_read][-1]} {note}")
    alone, read = runs[False], runs[True]
    return [
        Figure(
            name=f"{count:,} subscriptions, p99 without reading /metrics",
            unit="ms",
            runs=tuple(run.at(99) for run in alone),
        ),
        Figure(name="  p99 while it is read", unit="ms", runs=tuple(run.at(99) for run in read), note=note),
        Figure(
            name="  p99 moves by",
            unit="ms",
            runs=tuple(with_.at(99) - without.at(99) for without, with_ in zip(alone, read, strict=True)),
            goal=_GOAL,
        ),
        Figure(
            name="  longest wait without",
            unit="ms",
            runs=tuple(max(run.values_ms) for run in alone),
        ),
        Figure(
            name="  longest wait while it is read", unit="ms", runs=tuple(max(run.values_ms) for run in read)
        ),
    ]


def _latency(setting: Setting) -> Latencies:
    return run_exactly(
        binary_latency(
            setting.pulsar_port,
            setting.fresh_topic("latency"),
            payload_bytes=PAYLOAD_BYTES,
            per_s=PER_S,
            warm_up_s=setting.warm_up_s,
            run_s=setting.run_s,
        )
    )
