"""Receive and acknowledge small messages with a client library as fast as possible."""

from __future__ import annotations

import asyncio
import time
from typing import Any, NamedTuple

import pulsar

import vela
from vela import aio

__all__ = ["Run", "consume_aio", "consume_apache", "consume_blocking"]

_PATIENCE_S = 60.0


class Run(NamedTuple):
    """One measured run, from the first message to the last."""

    messages_s: float  # per second
    cpu_us: float  # of this process, per message


async def consume_aio(url: str, topic: str, subscription: str, messages: int, queue: int) -> Run:
    """Consume with `async for` and acknowledge each message. The client groups acks, as it does by default."""
    async with aio.Client(url) as client:
        consumer = await client.subscribe(
            topic,
            subscription,
            receiver_queue_size=queue,
            initial_position=vela.InitialPosition.Earliest,
        )
        left = messages
        began, cpu = time.perf_counter(), time.process_time()
        async with asyncio.timeout(_PATIENCE_S):
            async for message in consumer:
                consumer.acknowledge(message)
                left -= 1
                if not left:
                    break
        return _run(messages, began, cpu)


def consume_blocking(url: str, topic: str, subscription: str, messages: int, queue: int) -> Run:
    """Consume with `receive` and `acknowledge` of `vela.Client`."""
    return _consume(vela.Client(url), vela.InitialPosition.Earliest, topic, subscription, messages, queue)


def consume_apache(url: str, topic: str, subscription: str, messages: int, queue: int) -> Run:
    """Consume with the same calls of Apache's client."""
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    return _consume(client, pulsar.InitialPosition.Earliest, topic, subscription, messages, queue)


def _consume(client: Any, position: Any, topic: str, subscription: str, messages: int, queue: int) -> Run:
    try:
        consumer = client.subscribe(topic, subscription, receiver_queue_size=queue, initial_position=position)
        receive, acknowledge = consumer.receive, consumer.acknowledge
        began, cpu = time.perf_counter(), time.process_time()
        for _ in range(messages):
            acknowledge(receive(int(_PATIENCE_S * 1000)))
        return _run(messages, began, cpu)
    finally:
        client.close()


def _run(messages: int, began_s: float, cpu_s: float) -> Run:
    return Run(messages / (time.perf_counter() - began_s), (time.process_time() - cpu_s) * 1e6 / messages)
