"""Statistics of connected producers and consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.dispatchers.key_shared import KeySharedDispatcher
from broker.doors.admin.statistics.values import ConsumerStats, DrainingHash, PublisherStats
from broker.doors.times import format_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.dispatchers.base import DispatchConsumer, Dispatcher
    from broker.core.dispatchers.key_shared import DrainingSlot
    from broker.producers.producer import Producer
    from broker.subscription.consumer import Consumer
    from broker.topics.rates import Rates

__all__ = ["consumer_stats", "key_ranges", "publisher_stats"]


def publisher_stats(producer: Producer, rates: Rates) -> PublisherStats:
    """Return the statistics of a producer."""
    messages, size_bytes = rates.producer_per_s(producer)
    return PublisherStats(
        accessMode=producer.access_mode.value,
        msgRateIn=messages,
        msgThroughputIn=size_bytes,
        averageMsgSize=size_bytes / messages if messages else 0.0,
        producerId=producer.key,
        producerName=producer.name,
        address=f"/{producer.identity.address}",
        connectedSince=format_time(producer.connected_ms),
        clientVersion=producer.identity.client_version,
        metadata=dict(producer.request.properties),
    )


def consumer_stats(
    consumer: Consumer,
    rates: Rates,
    *,
    ranges: list[tuple[int, int]] | None = None,
    draining: Sequence[DrainingSlot] = (),
) -> ConsumerStats:
    """Return the statistics of a consumer.

    `ranges` are the consumer's hash slots, or None if the subscription is not Key_Shared.
    """
    figures = consumer.statistics(rates)
    return ConsumerStats(
        msgRateOut=figures.messages_out_per_s,
        msgThroughputOut=figures.bytes_out_per_s,
        msgRateRedeliver=figures.messages_redelivered_per_s,
        messageAckRate=figures.messages_acked_per_s,
        bytesOutCounter=consumer.bytes_out,
        msgOutCounter=consumer.messages_out,
        consumerName=consumer.name,
        address=f"/{consumer.identity.address}",
        connectedSince=format_time(figures.connected_ms),
        clientVersion=consumer.identity.client_version,
        availablePermits=figures.permits,
        unackedMessages=figures.unacked_messages,
        avgMessagesPerEntry=round(consumer.messages_out / consumer.entries_out)
        if consumer.entries_out
        else 0,
        blockedConsumerOnUnackedMsgs=figures.is_blocked,
        firstConsumedFlowTimestamp=consumer.first_flow_ms,
        firstMessagesSentTimestamp=consumer.first_delivery_ms,
        lastAckedTimestamp=consumer.last_ack_ms,
        lastConsumedTimestamp=consumer.last_delivery_ms,
        lastConsumedFlowTimestamp=consumer.last_flow_ms,
        lastAckedTime=format_time(consumer.last_ack_ms),
        lastConsumedTime=format_time(consumer.last_delivery_ms),
        keyHashRangeArrays=ranges,
        drainingHashes=None if ranges is None else [_draining(each) for each in draining],
        drainingHashesCount=len(draining),
        drainingHashesUnackedMessages=sum(each.pending_entries for each in draining),
        metadata=dict(consumer.request.properties),
    )


def key_ranges(dispatcher: Dispatcher) -> dict[DispatchConsumer, list[tuple[int, int]]]:
    """Return the hash slots of each consumer."""
    if not isinstance(dispatcher, KeySharedDispatcher):
        return {}
    return {
        each.consumer: [(slots.first, slots.last) for slots in each.ranges] for each in dispatcher.ranges()
    }


def _draining(slot: DrainingSlot) -> DrainingHash:
    return DrainingHash(hash=slot.slot, unackMsgs=slot.pending_entries, blockedAttempts=slot.waiting_entries)
