"""How fast does an application consume with Vela's client, compared with Apache's Python client?

One client at a time runs in this process. On a machine with two cores, the client uses one, and broker and PostgreSQL
share the other. The backlog consists of batches of 1,000, as both libraries' producers make them from small messages.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable

from bench.figures import Figure, Goal
from bench.load.consuming.client import Run, consume_aio, consume_apache, consume_blocking
from bench.load.messages import entries
from bench.load.publishing.binary import publish_count
from bench.setting import Setting

__all__ = ["ask"]

PAYLOAD_BYTES = 100
_GOAL = Goal(at_least=100_000.0)
_QUEUE = 10_000  # messages; with the default of 1,000, one full batch is the whole window
_AIO = "vela.aio, async for"


def ask(setting: Setting) -> list[Figure]:
    """Let the clients in turn receive and acknowledge everything, each time with a new subscription."""
    topic = setting.fresh_topic("clients")
    entry = entries.batch(PAYLOAD_BYTES)
    batches = setting.sized(500, 50)
    asyncio.run(publish_count(setting.pulsar_port, topic, entry, batches, window=64))
    messages = batches * entry.messages
    runs: dict[str, list[Run]] = {}
    for repeat in range(setting.repeats):
        for name, consume in _ways(setting).items():
            run = consume(topic, f"{name}-{repeat}", messages)
            runs.setdefault(name, []).append(run)
            setting.say(f"{name}: {run.messages_s:,.0f} msg/s, {run.cpu_us:.1f} us of CPU each")
    return [_figure(name, found) for name, found in runs.items()]


def _ways(setting: Setting) -> dict[str, Callable[[str, str, int], Run]]:
    tcp, websocket = setting.vela.pulsar_url, setting.vela.websocket_url

    def aio(url: str, queue: int) -> Callable[[str, str, int], Run]:
        return lambda topic, name, messages: asyncio.run(consume_aio(url, topic, name, messages, queue))

    return {
        _AIO: aio(tcp, _QUEUE),
        "vela.aio over WebSocket": aio(websocket, _QUEUE),
        "vela.aio, queue of 1,000": aio(tcp, 1000),
        "vela, receive": lambda topic, name, count: consume_blocking(tcp, topic, name, count, _QUEUE),
        "pulsar, receive": lambda topic, name, count: consume_apache(tcp, topic, name, count, _QUEUE),
    }


def _figure(name: str, runs: list[Run]) -> Figure:
    cpu_us = statistics.median(run.cpu_us for run in runs)
    return Figure(
        name=f"{name}, {PAYLOAD_BYTES} B" if name == _AIO else f"  {name}",
        unit="msg/s",
        runs=tuple(run.messages_s for run in runs),
        goal=_GOAL if name == _AIO else None,
        note=f"each acked, acks grouped; CPU a message in the client: {cpu_us:.1f} µs",
    )
