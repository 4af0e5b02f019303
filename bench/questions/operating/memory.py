"""How many bytes of the broker's memory does one connection, producer, consumer, topic and so on take?"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from bench.figures import Figure
from bench.load.delayed import delayed_entry
from bench.load.many.opened import Opened, allow_files, opened_connections
from bench.load.messages import entries
from bench.load.peers.binary import BinaryPeer
from bench.load.peers.waiting import until
from bench.load.publishing.binary import publish_count, publish_each
from bench.setting import Setting
from bench.usage import rss_bytes
from vela.wire.binary import commands
from vela.wire.binary.enums import SubType

__all__ = ["SETTINGS", "ask"]

SETTINGS: Final = {  # one consumer may hold all pending acks of a run, and nothing else grows with messages
    "VELA_MAX_UNACKED_PER_CONSUMER": "0",
    "VELA_MAX_UNACKED_PER_SUBSCRIPTION": "0",
    "VELA_TAIL_CACHE_BYTES": "0",
}
_PAYLOAD_BYTES: Final = 100
_WINDOW: Final = 1000
_ACKS_A_COMMAND: Final = 500
_SETTLING_S: Final = 3.0  # the broker stores cursors and writes its reports
_DAY_MS: Final = 24 * 3600 * 1000

_Made = tuple[int, Sequence[BinaryPeer]]  # how many, and the connections that hold them


def ask(setting: Setting) -> list[Figure]:
    """Make many of each kind, and divide the growth of the broker's resident size by their number.

    Everything is kept until the end, so that the broker uses no freed memory again. A first round fills caches and does
    not count.
    """
    allow_files(20_000)
    return asyncio.run(_ask(setting))


async def _ask(setting: Setting) -> list[Figure]:
    kinds: dict[str, Callable[[Setting, int], Awaitable[_Made]]] = {
        "connection": _connections,
        "producer": _producers,
        "consumer": _consumers,
        "subscription without a consumer": _subscriptions,
        "topic with a producer": _topics,
        "delayed message": _delayed,
        "pending ack": _pending,
        "ack hole": _holes,
    }
    kept: list[BinaryPeer] = []
    figures: list[Figure] = []
    for name, make in kinds.items():
        is_small = name in ("delayed message", "pending ack", "ack hole")
        count = setting.sized(200_000, 20_000) if is_small else setting.sized(3_000, 300)
        runs: list[float] = []
        for _ in range(1 + setting.repeats):
            before = rss_bytes(setting.processes.broker_pid)
            made, peers = await make(setting, count)
            kept += peers
            await asyncio.sleep(_SETTLING_S)
            runs.append((rss_bytes(setting.processes.broker_pid) - before) / made)
        setting.say(f"memory, {name}: {' '.join(f'{run:,.1f}' for run in runs)} B, the first does not count")
        each = statistics.median(runs[1:])
        figures.append(
            Figure(
                name=name,
                unit="B",
                runs=tuple(runs[1:]),
                note=f"{each:,.0f} MB a million; {made:,} at a time",
            )
        )
    for peer in kept:
        peer.close()
    return figures


async def _connections(setting: Setting, count: int) -> _Made:
    return count, await opened_connections(setting.pulsar_port, count)


async def _producers(setting: Setting, count: int) -> _Made:
    peer = await _opened(setting)
    await peer.producers([setting.fresh_topic("producers")] * count)
    return count, [peer]


async def _consumers(setting: Setting, count: int) -> _Made:
    peer = await _opened(setting)
    await peer.consumers(setting.fresh_topic("consumers"), ["s"] * count)
    return count, [peer]


async def _subscriptions(setting: Setting, count: int) -> _Made:
    """Make subscriptions whose consumers leave. A producer keeps the topic loaded."""
    topic = setting.fresh_topic("subscriptions")
    keeper, consumers = await _opened(setting), await _opened(setting)
    await keeper.producers([topic])
    await consumers.consumers(topic, [f"s-{number}" for number in range(count)])
    consumers.close()
    return count, [keeper]


async def _topics(setting: Setting, count: int) -> _Made:
    peer = await _opened(setting)
    prefix = setting.fresh_topic("topics")
    await peer.producers([f"{prefix}-{number}" for number in range(count)])
    return count, [peer]


async def _delayed(setting: Setting, count: int) -> _Made:
    topic = setting.fresh_topic("delayed")
    consumer = await BinaryPeer.connect(setting.pulsar_port)
    await consumer.subscribe(topic, "s", SubType.SHARED)
    consumer.write([commands.flow(0, _WINDOW)])
    due_ms = int(time.time() * 1000) + _DAY_MS

    def entry(number: int) -> bytes:
        return delayed_entry(due_ms + number, _PAYLOAD_BYTES)

    await publish_each(setting.pulsar_port, topic, entry, count, window=_WINDOW)
    return count, [consumer]


async def _pending(setting: Setting, count: int) -> _Made:
    """Deliver messages to one Shared consumer that acks nothing."""
    return count, [await _received(setting, count, SubType.SHARED, must_ack=lambda _: False)]


async def _holes(setting: Setting, count: int) -> _Made:
    """Ack every second message. The consumer is Exclusive, for which the broker keeps no pending acks, only a range."""
    return count, [
        await _received(setting, 2 * count, SubType.EXCLUSIVE, must_ack=lambda number: number % 2 > 0)
    ]


async def _received(
    setting: Setting, count: int, type_: SubType, *, must_ack: Callable[[int], bool]
) -> BinaryPeer:
    topic = setting.fresh_topic("received")
    entry = entries.single(os.urandom(_PAYLOAD_BYTES))
    consumer = await BinaryPeer.connect(setting.pulsar_port)
    await consumer.subscribe(topic, "s", type_)
    received = 0
    acks: list[tuple[int, int, int | None]] = []

    def on_message(ledger_id: int, entry_id: int, _: bytes) -> None:
        nonlocal received
        if must_ack(received):
            acks.append((ledger_id, entry_id, None))
        received += 1
        if len(acks) == _ACKS_A_COMMAND:
            consumer.write([commands.ack(0, acks)])
            acks.clear()

    consumer.on_message = on_message
    consumer.write([commands.flow(0, count)])
    await publish_count(setting.pulsar_port, topic, entry, count, window=_WINDOW)
    await until(lambda: received == count, lambda: received, [consumer], "a message")
    return consumer


async def _opened(setting: Setting) -> Opened:
    peer = await Opened.connect(setting.pulsar_port)
    assert isinstance(peer, Opened)
    return peer
