"""How much does reading /metrics of ten thousand subscriptions delay messages at 1,000 a second?"""

from __future__ import annotations

import asyncio
from functools import partial

from bench.figures import Figure
from bench.load.many.topics import ManyTopics
from bench.load.scraper import scraping
from bench.questions.operating.pairs import PAYLOAD_BYTES, measured
from bench.setting import Setting

__all__ = ["ask"]

TOPICS = 10_000
QUICK_TOPICS = 500


def ask(setting: Setting) -> list[Figure]:
    """Open many topics with a subscription, a producer and a consumer each; then measure without and with a scraper."""
    return asyncio.run(_ask(setting))


async def _ask(setting: Setting) -> list[Figure]:
    prefix = setting.fresh_topic("metrics")
    count = setting.sized(TOPICS, QUICK_TOPICS)
    topics = [f"{prefix}-{number}" for number in range(count)]
    peer = await ManyTopics.open(setting.pulsar_port, topics, PAYLOAD_BYTES)
    setting.say(f"metrics: {count:,} topics opened")
    try:
        # `_measured` runs in a thread, so that the peer can answer pings here.
        return await asyncio.to_thread(_measured, setting, count)
    finally:
        peer.close()


def _measured(setting: Setting, count: int) -> list[Figure]:
    pairs = measured(setting, "metrics", partial(scraping, setting.http_port))
    return [
        *pairs.figures(
            alone=f"{count:,} subscriptions, p99 without reading /metrics", beside="p99 while it is read"
        ),
        Figure(
            name="  longest wait without", unit="ms", runs=tuple(max(run.values_ms) for run in pairs.alone)
        ),
        Figure(
            name="  longest wait while it is read",
            unit="ms",
            runs=tuple(max(run.values_ms) for run in pairs.beside),
        ),
    ]
