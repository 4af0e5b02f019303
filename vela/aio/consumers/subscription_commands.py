"""Build SUBSCRIBE and SEEK from a consumer's options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vela.message import MessageId
from vela.options import KeySharedMode
from vela.wire import message_id as wire
from vela.wire.binary import commands
from vela.wire.binary.enums import InitialPosition, SubType

if TYPE_CHECKING:
    from vela.aio.consumers.options import ConsumerOptions

__all__ = ["seek_command", "subscribe_command"]


def subscribe_command(
    options: ConsumerOptions,
    *,
    topic: str,
    consumer_id: int,
    consumer_name: str,
    request_id: int,
    start: MessageId | None,
    rollback_s: int,
    epoch: int | None,
) -> bytes:
    """Return SUBSCRIBE.

    `start` and `rollback_s` are for non-durable subscriptions, `epoch` is for Exclusive and Failover.
    """
    schema = options.schema
    policy = options.key_shared_policy
    is_sticky = policy is not None and policy.key_shared_mode is KeySharedMode.Sticky
    return commands.subscribe(
        topic,
        options.subscription_name,
        type=SubType(options.consumer_type),
        consumer_id=consumer_id,
        request_id=request_id,
        consumer_name=consumer_name,
        priority=options.priority_level,
        durable=options.durable,
        start=None if start is None else _wire_id(start),
        rollback_s=rollback_s,
        initial_position=InitialPosition(options.initial_position),
        create_topic=options.create_topic,
        read_compacted=options.is_read_compacted,
        epoch=epoch,
        sticky_ranges=policy.sticky_ranges if policy is not None and is_sticky else None,
        allow_out_of_order=policy is not None and policy.allow_out_of_order_delivery,
        properties=options.properties,
        schema=None if schema is None else schema.schema_info().to_wire(),
        subscription_properties=options.subscription_properties,
        replicate=options.replicate_subscription_state_enabled,
    )


def seek_command(consumer_id: int, position: MessageId | int, *, request_id: int) -> bytes:
    """Return SEEK to a message, or to a time in milliseconds since 1970."""
    if isinstance(position, MessageId):
        return commands.seek(consumer_id, request_id=request_id, message_id=_wire_id(position))
    return commands.seek(consumer_id, request_id=request_id, publish_time_ms=position)


def _wire_id(message_id: MessageId) -> wire.MessageId:
    """Return the entry at which the broker begins: the first chunk of a chunked message.

    The consumer itself skips messages of the entry that come before the start.
    """
    first = message_id.first_chunk() or message_id
    return wire.MessageId(first.ledger_id(), first.entry_id(), first.partition())
