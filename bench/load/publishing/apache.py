"""Publish with Apache's Python client as fast as possible."""

from __future__ import annotations

import os
import time

import pulsar

from bench.load.messages import entries
from bench.setting import Setting

__all__ = ["publish_with_apache"]


def publish_with_apache(setting: Setting, client: pulsar.Client, payload_bytes: int) -> float:
    """Return the messages per second of a run, with at most 1,000 messages in a batch and 20,000 pending."""
    producer = client.create_producer(
        setting.fresh_topic("apache"),
        batching_enabled=True,
        batching_max_publish_delay_ms=5,
        batching_max_messages=entries.BATCH_MESSAGES,
        block_if_queue_full=True,
        max_pending_messages=20_000,
    )
    payload = os.urandom(payload_bytes)
    failed: list[pulsar.Result] = []

    def on_answer(result: pulsar.Result, _: pulsar.MessageId) -> None:
        if result != pulsar.Result.Ok:
            failed.append(result)

    sent, began = 0, time.perf_counter()
    while time.perf_counter() - began < setting.run_s:
        for _ in range(1000):
            producer.send_async(payload, on_answer)
        sent += 1000
    producer.flush()
    seconds = time.perf_counter() - began
    producer.close()
    if failed:
        raise AssertionError(f"{len(failed)} sends failed, the first with {failed[0]}")
    return sent / seconds
