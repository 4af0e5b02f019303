"""PRODUCER and SUBSCRIBE as requests to the broker: names parsed, what is not available refused."""

from __future__ import annotations

import secrets
from typing import Final

from broker.core.errors import NotAllowed
from broker.core.position import Position
from broker.core.subscription import SubscriptionType
from broker.core.topic_name import TopicName
from broker.service.values import ProducerRequest, SubscribeRequest
from vela.wire.binary.enums import AccessMode, InitialPosition, SubType
from vela.wire.binary.events import OpenProducer, Subscribe

__all__ = ["producer_request", "subscribe_request"]

_TYPES: Final = {
    SubType.EXCLUSIVE: SubscriptionType.EXCLUSIVE,
    SubType.SHARED: SubscriptionType.SHARED,
    SubType.FAILOVER: SubscriptionType.FAILOVER,
    SubType.KEY_SHARED: SubscriptionType.KEY_SHARED,
}


def producer_request(event: OpenProducer) -> ProducerRequest:
    """Raises InvalidTopicName; NotAllowed for access modes and transactions. Schemas are taken as a label."""
    if event.access_mode is not AccessMode.SHARED:
        raise NotAllowed(f"access mode {event.access_mode.name} is not available; use Shared")
    if event.in_transaction:
        raise NotAllowed("transactions are not available; open the producer without one")
    return ProducerRequest(
        topic=TopicName.parse(event.topic),
        name=event.producer_name or None,
        epoch=event.epoch,
        user_provided_name=event.user_provided_name,
        properties=event.properties,
        initial_subscription=event.initial_subscription or None,
    )


def subscribe_request(event: Subscribe) -> SubscribeRequest:
    """Raises InvalidTopicName. No topic has been compacted, so a compacted reader reads all of it."""
    start = event.start
    return SubscribeRequest(
        topic=TopicName.parse(event.topic),
        subscription=event.subscription,
        type=_TYPES[event.type],
        consumer_name=event.consumer_name or secrets.token_hex(5),
        durable=event.durable,
        priority=event.priority,
        earliest=event.initial_position is InitialPosition.EARLIEST,
        start=None if start is None else Position(start.ledger_id, start.entry_id),
        start_remaining=event.start_ack_set,
        rollback_s=event.rollback_s,
        create_topic=event.create_topic,
        properties=event.properties,
        subscription_properties=event.subscription_properties,
    )
