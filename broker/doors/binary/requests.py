"""Convert PRODUCER, SUBSCRIBE and schemas to the broker's own types."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

from broker.core.dispatchers.key_shared_policy import KeySharedPolicy
from broker.core.errors import IncompatibleSchema, NotAllowed
from broker.core.hash_slots import SlotRange
from broker.core.position import Position
from broker.core.producers.access import AccessMode
from broker.core.schemas.schema import SchemaDefinition, SchemaType
from broker.core.subscription.types import SubscriptionType
from broker.core.topic_name import TopicName
from broker.doors.binary.wire.events import OpenProducer, Subscribe
from broker.producers.requests import ProducerRequest
from broker.subscription.requests import SubscribeRequest
from vela.wire.binary import enums as wire
from vela.wire.binary.enums import InitialPosition, SubType
from vela.wire.binary.schema import Schema

__all__ = ["definition_of", "producer_request", "subscribe_request"]

_TYPES: Final = {
    SubType.EXCLUSIVE: SubscriptionType.EXCLUSIVE,
    SubType.SHARED: SubscriptionType.SHARED,
    SubType.FAILOVER: SubscriptionType.FAILOVER,
    SubType.KEY_SHARED: SubscriptionType.KEY_SHARED,
}


_ACCESS_MODES: Final = {
    wire.AccessMode.SHARED: AccessMode.SHARED,
    wire.AccessMode.EXCLUSIVE: AccessMode.EXCLUSIVE,
    wire.AccessMode.WAIT_FOR_EXCLUSIVE: AccessMode.WAIT_FOR_EXCLUSIVE,
    wire.AccessMode.EXCLUSIVE_WITH_FENCING: AccessMode.EXCLUSIVE_WITH_FENCING,
}


def definition_of(schema: Schema) -> SchemaDefinition:
    """Convert a client's schema. Raises IncompatibleSchema for an unknown type."""
    try:
        type_ = SchemaType(schema.type)
    except ValueError:
        raise IncompatibleSchema(f"{schema.type} is not a schema type of the protocol") from None
    return SchemaDefinition(type=type_, data=schema.data, name=schema.name, properties=schema.properties)


def producer_request(
    event: OpenProducer, *, on_ready: Callable[[], None], on_throttled: Callable[[bool], None]
) -> ProducerRequest:
    """Convert PRODUCER.

    Raises InvalidTopicName or IncompatibleSchema. Raises NotAllowed if the producer asks for a transaction.
    """
    if event.in_transaction:
        raise NotAllowed("transactions are not available; open the producer without one")
    return ProducerRequest(
        topic=TopicName.parse(event.topic),
        name=event.producer_name or None,
        epoch=event.epoch,
        user_provided_name=event.user_provided_name,
        properties=event.properties,
        initial_subscription=event.initial_subscription or None,
        access_mode=_ACCESS_MODES[event.access_mode],
        topic_epoch=event.topic_epoch,
        schema=None if event.schema is None else definition_of(event.schema),
        on_ready=on_ready,
        on_throttled=on_throttled,
    )


def subscribe_request(event: Subscribe) -> SubscribeRequest:
    """Convert SUBSCRIBE. Raises InvalidTopicName or IncompatibleSchema."""
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
        read_compacted=event.read_compacted,
        epoch=event.epoch,
        key_shared=KeySharedPolicy(
            sticky=event.key_shared_sticky,
            ranges=tuple(SlotRange(first, last) for first, last in event.key_shared_ranges),
            allow_out_of_order=event.key_shared_out_of_order,
        ),
        schema=None if event.schema is None else definition_of(event.schema),
    )
