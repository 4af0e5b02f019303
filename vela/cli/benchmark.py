"""The measurements of `vela bench`: the highest throughput, and the latency at a lower rate."""

from __future__ import annotations

import asyncio
import struct
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vela.aio import Client, Consumer, Producer
    from vela.message import MessageId
    from vela.options import CompressionType, ConsumerType

__all__ = ["Latency", "Load", "Throughput", "measure_latency", "measure_throughput", "percentile"]

# time of the send, in ns of this process's clock; the same process receives the message
_STAMP: Final = struct.Struct("<q")
_WINDOW: Final = 5000  # most messages without a receipt
LEAST_BYTES: Final = _STAMP.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The messages that a measurement publishes and consumes."""

    topic: str
    messages: int
    size_bytes: int
    consumer_type: ConsumerType
    compression: CompressionType
    is_batched: bool
    rate: int  # messages a second while latency is measured
    latency_s: float  # how long latency is measured; 0 = not at all


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """The result of a producer and a consumer running at the same time, as fast as possible."""

    published_per_s: float  # from the first send to the last receipt
    consumed_per_s: float  # from the first message to the last


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """The result of sending each message alone, at the rate of the load."""

    messages: int
    publish_ms: Sequence[float]  # from send to receipt, sorted
    end_to_end_ms: Sequence[float]  # from send until the consumer has the message, sorted


async def measure_throughput(client: Client, load: Load) -> Throughput:
    """Publish and consume all messages. Raises VelaError if the client fails."""
    payload = bytes(load.size_bytes)
    async with (
        await _consumer(client, load, "throughput") as consumer,
        await _producer(client, load, is_batched=load.is_batched) as producer,
    ):
        consuming = asyncio.create_task(_consume(consumer, load.messages))
        try:
            began = time.perf_counter()
            waiting: deque[asyncio.Future[MessageId]] = deque()
            for _ in range(load.messages):
                waiting.append(producer.send_async(payload))
                if len(waiting) >= _WINDOW:
                    await waiting.popleft()
            for future in waiting:
                await future
            published_s = time.perf_counter() - began
            consumed_s = await consuming
        finally:
            consuming.cancel()
    return Throughput(
        published_per_s=load.messages / published_s, consumed_per_s=load.messages / max(consumed_s, 1e-9)
    )


async def measure_latency(client: Client, load: Load) -> Latency:
    """Publish at the load's rate and time each message. Raises VelaError if the client fails."""
    count = max(1, int(load.rate * load.latency_s))
    padding = bytes(load.size_bytes - LEAST_BYTES)
    published: list[float] = []
    async with (
        await _consumer(client, load, "latency") as consumer,
        await _producer(client, load, is_batched=False) as producer,
    ):
        receiving = asyncio.create_task(_receive_stamped(consumer, count))
        try:
            began = time.perf_counter()
            futures = []
            for number in range(count):
                if (left := began + number / load.rate - time.perf_counter()) > 0:
                    await asyncio.sleep(left)
                sent_ns = time.perf_counter_ns()
                future = producer.send_async(_STAMP.pack(sent_ns) + padding)
                future.add_done_callback(partial(_took, published, sent_ns))
                futures.append(future)
            await asyncio.gather(*futures)
            end_to_end = await receiving
        finally:
            receiving.cancel()
    return Latency(messages=count, publish_ms=sorted(published), end_to_end_ms=sorted(end_to_end))


def _took(times_ms: list[float], sent_ns: int, _receipt: asyncio.Future[MessageId]) -> None:
    times_ms.append((time.perf_counter_ns() - sent_ns) / 1e6)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return a percentile of sorted values, by nearest rank."""
    rank = max(1, -(-len(values) * percent // 100))
    return values[min(int(rank), len(values)) - 1]


async def _consumer(client: Client, load: Load, subscription: str) -> Consumer:
    return await client.subscribe(
        load.topic, subscription, consumer_type=load.consumer_type, receiver_queue_size=5000
    )


async def _producer(client: Client, load: Load, *, is_batched: bool) -> Producer:
    return await client.create_producer(
        load.topic,
        compression_type=load.compression,
        max_pending_messages=_WINDOW,
        block_if_queue_full=True,
        batching_enabled=is_batched,
    )


async def _consume(consumer: Consumer, count: int) -> float:
    """Return the seconds from the first message to the last."""
    first = 0.0
    async for message in consumer:
        first = first or time.perf_counter()
        consumer.acknowledge(message)
        count -= 1
        if not count:
            break
    return time.perf_counter() - first


async def _receive_stamped(consumer: Consumer, count: int) -> list[float]:
    took: list[float] = []
    async for message in consumer:
        took.append((time.perf_counter_ns() - _STAMP.unpack_from(message.data())[0]) / 1e6)
        consumer.acknowledge(message)
        if len(took) == count:
            break
    return took
