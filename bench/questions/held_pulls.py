"""How soon are parked pulls answered when thousands are parked over hundreds of topics?

The broker parks a pull: it leaves the request unanswered until there is a message for it.
"""

from __future__ import annotations

import asyncio
import re
import urllib.request

from bench.figures import Figure, Goal
from bench.load.messages import entries
from bench.load.open_loop import Latencies, OpenLoop
from bench.load.peers.binary import BinaryPeer
from bench.load.peers.pull import PullWaiter
from bench.setting import Setting
from vela.wire.binary import commands

__all__ = ["ask"]

TOPICS = 500
WAITERS = 5_000
PER_S = 200.0
PAYLOAD_BYTES = 100
_NUMBER_BYTES = 8
_CONNECT_AT_ONCE = 50
_P99 = Goal(at_most=50.0)


def ask(setting: Setting) -> list[Figure]:
    """Publish at a fixed rate. A message has arrived when all waiters of its topic have it. They pull again at once."""
    figures: list[Figure] = []
    for waiters in (setting.sized(TOPICS, TOPICS // 10), setting.sized(WAITERS, WAITERS // 10)):
        runs = []
        for _ in range(setting.repeats):
            runs.append(asyncio.run(_run(setting, waiters)))
            setting.say(f"parked pulls, {waiters:,}: {runs[-1]}")
        topics = setting.sized(TOPICS, TOPICS // 10)
        label = f"{waiters:,} parked over {topics} topics, {PER_S:.0f} publishes/s"
        figures.append(Figure(name=f"{label}, p50", unit="ms", runs=tuple(run.at(50) for run in runs)))
        figures.append(
            Figure(
                name=f"{label}, p99",
                unit="ms",
                runs=tuple(run.at(99) for run in runs),
                goal=_P99,
                note=f"from the intended publish to the last of {waiters // topics} waiters",
            )
        )
    return figures


async def _run(setting: Setting, waiters: int) -> Latencies:
    topics = [setting.fresh_topic("pull") for _ in range(setting.sized(TOPICS, TOPICS // 10))]
    per_topic = waiters // len(topics)
    loop = OpenLoop(per_s=PER_S, warm_up_s=setting.warm_up_s, run_s=setting.run_s)
    woken: dict[int, int] = {}

    def on_payload(payload: bytes) -> None:
        number = int.from_bytes(payload[:_NUMBER_BYTES], "big")
        woken[number] = woken.get(number, 0) + 1
        if woken[number] == per_topic:
            loop.arrived(number)

    producers: list[BinaryPeer] = []
    held: list[PullWaiter] = []
    try:
        for start in range(0, len(topics), _CONNECT_AT_ONCE):
            producers += await asyncio.gather(
                *(_producer(setting.pulsar_port, topic) for topic in topics[start : start + _CONNECT_AT_ONCE])
            )
        wanted = [topic for topic in topics for _ in range(per_topic)]
        for start in range(0, len(wanted), _CONNECT_AT_ONCE):
            held += await asyncio.gather(
                *(
                    PullWaiter.connect(setting.http_port, topic, on_payload)
                    for topic in wanted[start : start + _CONNECT_AT_ONCE]
                )
            )
        await _all_held(setting.http_port, len(wanted))

        def send(number: int) -> None:
            payload = number.to_bytes(_NUMBER_BYTES, "big").ljust(PAYLOAD_BYTES, b"\0")
            producers[number * 7919 % len(producers)].write(
                commands.send(0, number, entries.single(payload, number).data)
            )

        latencies = await loop.run(send)
        for each in held:
            if each.failure is not None:
                raise each.failure
        return latencies
    finally:
        for waiter in held:
            waiter.close()
        for producer in producers:
            producer.close()


async def _producer(port: int, topic: str) -> BinaryPeer:
    peer = await BinaryPeer.connect(port)
    await peer.open_producer(topic)
    peer.on_receipt = lambda _: None
    return peer


async def _all_held(http_port: int, count: int) -> None:
    """Wait until the broker reports this many parked pulls."""

    def held_now() -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/metrics", timeout=20) as page:
            found = re.search(r"^vela_pulls_held (\d+)", page.read().decode(), re.MULTILINE)
        return int(found[1]) if found else 0

    async with asyncio.timeout(120):
        while await asyncio.to_thread(held_now) < count:  # noqa: ASYNC110 - another process is waited for
            await asyncio.sleep(0.05)
