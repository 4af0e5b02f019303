"""Publish messages with keys, compact topics, and read what a compaction kept."""

from __future__ import annotations

from typing import Any

from broker.core.position import EARLIEST, Position
from broker.core.subscription.types import SubscriptionType
from broker.storage.log.compaction import CompactionResult
from tests.support.broker_harness import BrokerRun, ConsumerProbe, ProducerProbe
from vela.wire.entry import Compression, OutgoingMessage, decode_messages, encode_batch, encode_single

__all__ = ["batch", "compact", "compacted_reader", "put", "values"]


async def put(producer: ProducerProbe, *pairs: str, key_b64: bool = False) -> list[Position]:
    """Publish each "key=value", one after the other; "key=" deletes, "=value" has no key."""
    before = len(producer.receipts)
    for at, pair in enumerate(pairs):
        key, _, value = pair.partition("=")
        data = encode_single(
            producer_name="p",
            sequence_id=producer.next_sequence_id + at,
            publish_time_ms=1,
            payload=value.encode(),
            key=key or None,
            key_b64=key_b64,
        )
        producer.send_entry(data)
        await producer.has_receipts(before + at + 1)
    producer.next_sequence_id += len(pairs)
    return [Position(each.ledger_id, each.entry_id) for each in producer.receipts[before:]]


def batch(*pairs: str, compression: Compression = Compression.NONE) -> bytes:
    """Return these messages, "key=value" each, as one entry."""
    messages = []
    for pair in pairs:
        key, _, value = pair.partition("=")
        messages.append(OutgoingMessage(payload=value.encode(), key=key or None))
    return encode_batch(
        messages, producer_name="p", sequence_id=0, publish_time_ms=1, compression=compression
    )


async def compact(run: BrokerRun, topic: str = "t") -> CompactionResult:
    """Compact a topic in this broker."""
    return await run.broker.compactor.compact(run.topic(topic))


async def compacted_reader(
    run: BrokerRun,
    topic: str = "t",
    *,
    permits: int = 1000,
    start: Position = EARLIEST,
    subscription: str = "reader",
    **request: Any,
) -> ConsumerProbe:
    """Attach a reader that asks for the compacted topic."""
    return await run.consumer(
        topic,
        subscription,
        SubscriptionType.EXCLUSIVE,
        permits=permits,
        durable=False,
        start=start,
        read_compacted=True,
        **request,
    )


def values(probe: ConsumerProbe) -> list[str]:
    """Return "key=value" for each message that a client would get, without those that compaction removed."""
    return [
        f"{message.key or ''}={message.payload.decode()}"
        for each in probe.deliveries
        for message in decode_messages(bytes(each.entry.data), max_message_bytes=1 << 20)
    ]
