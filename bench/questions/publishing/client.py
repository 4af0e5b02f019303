"""How fast does an application publish with Vela's client, compared with Apache's Python client?"""

from __future__ import annotations

import asyncio
import statistics

import pulsar

from bench.figures import Figure, Goal
from bench.load.publishing.apache import publish_with_apache
from bench.load.publishing.client import publish_with_client
from bench.setting import Setting

__all__ = ["ask"]

PAYLOAD_BYTES = 100
_GOAL = Goal(at_least=50_000.0)


def ask(setting: Setting) -> list[Figure]:
    """Publish 100 B messages in batches: with `vela.aio` over TCP and over WebSocket, then with Apache's client."""
    urls = {"TCP": setting.vela.pulsar_url, "WebSocket": setting.vela.websocket_url}
    figures = [_vela(setting, label, url) for label, url in urls.items()]
    return [*figures, _apache(setting)]


def _vela(setting: Setting, label: str, url: str) -> Figure:
    runs: list[float] = []
    cpu_us: list[float] = []
    for _ in range(setting.repeats):
        topic = setting.fresh_topic("client")
        per_s, us = asyncio.run(publish_with_client(url, topic, PAYLOAD_BYTES, setting.run_s))
        runs.append(per_s)
        cpu_us.append(us)
        setting.say(f"vela.aio over {label}: {per_s:,.0f} msg/s, {us:.1f} us of CPU each")
    return Figure(
        name=f"vela.aio over {label}, 100 B",
        unit="msg/s",
        runs=tuple(runs),
        goal=_GOAL,
        note=f"batching, 20,000 pending; CPU a message in the client: {statistics.median(cpu_us):.1f} µs",
    )


def _apache(setting: Setting) -> Figure:
    client = pulsar.Client(setting.vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        runs = [publish_with_apache(setting, client, PAYLOAD_BYTES) for _ in range(setting.repeats)]
    finally:
        client.close()
    setting.say(f"pulsar-client: {runs[-1]:,.0f} msg/s")
    return Figure(
        name="pulsar-client, 100 B", unit="msg/s", runs=tuple(runs), note="batching, 20,000 pending"
    )
