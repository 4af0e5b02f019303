"""Publish with `vela.aio` as fast as possible."""

from __future__ import annotations

import os
import time

from vela.aio import Client
from vela.message import MessageId

__all__ = ["publish_with_client"]

# Messages that one pass of the loop sends. The pass then waits for the last receipt of the pass before it.
AT_ONCE = 2000


async def publish_with_client(
    service_url: str, topic: str, payload_bytes: int, run_s: float
) -> tuple[float, float]:
    """Return the messages per second, and this process's CPU time per message in µs.

    Batches and limits are those of `publish_with_apache`.
    """
    payload = os.urandom(payload_bytes)
    async with Client(service_url) as client:
        producer = await client.create_producer(
            topic,
            batching_enabled=True,
            batching_max_publish_delay_ms=5,
            block_if_queue_full=True,
            max_pending_messages=20_000,
        )
        await producer.send(payload)
        sent, began, cpu = 0, time.perf_counter(), time.process_time()
        last: list[MessageId] = []
        waiting = producer.send_async(payload)
        while time.perf_counter() - began < run_s:
            futures = [producer.send_async(payload) for _ in range(AT_ONCE)]
            sent += AT_ONCE
            last.append(await waiting)
            waiting = futures[-1]
        await producer.flush()
        seconds, used_s = time.perf_counter() - began, time.process_time() - cpu
        if not all(each.ledger_id() >= 0 for each in last):
            raise AssertionError("a message was taken for a duplicate")
    return sent / seconds, used_s / sent * 1e6
