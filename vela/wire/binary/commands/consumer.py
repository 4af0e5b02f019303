"""Consumers: subscribing, permits, seeking, closing. Acks are in `acks`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from vela.wire.binary.commands.connection import frame_of
from vela.wire.binary.commands.schema import schema_body
from vela.wire.binary.enums import InitialPosition, SubType
from vela.wire.binary.schema import Schema
from vela.wire.message_id import MessageId
from vela.wire.pb import vela_pulsar_pb2 as pb
from vela.wire.varint import UINT64_MASK

__all__ = [
    "NO_REQUEST",
    "close_consumer",
    "consumer_stats",
    "flow",
    "get_last_message_id",
    "id_data",
    "seek",
    "subscribe",
    "unsubscribe",
]

NO_REQUEST: Final = -1
"""The request id of commands that answer no request, 2^64-1 on the wire."""
_NO_PROPERTIES: Final[Mapping[str, str]] = {}


def id_data(message_id: MessageId) -> pb.MessageIdData:
    """Return a message id as commands carry it."""
    return pb.MessageIdData(
        ledgerId=message_id.ledger_id & UINT64_MASK,
        entryId=message_id.entry_id & UINT64_MASK,
        partition=message_id.partition if message_id.partition >= 0 else None,
        batch_index=message_id.batch_index if message_id.batch_index >= 0 else None,
    )


def subscribe(
    topic: str,
    subscription: str,
    *,
    type: SubType,  # noqa: A002 - the protocol's word
    consumer_id: int,
    request_id: int,
    consumer_name: str | None = None,
    priority: int = 0,
    durable: bool = True,
    start: MessageId | None = None,
    rollback_s: int = 0,
    initial_position: InitialPosition = InitialPosition.LATEST,
    create_topic: bool = True,
    read_compacted: bool = False,
    epoch: int | None = None,
    sticky_ranges: Sequence[tuple[int, int]] | None = None,
    allow_out_of_order: bool = False,
    properties: Mapping[str, str] = _NO_PROPERTIES,
    schema: Schema | None = None,
    subscription_properties: Mapping[str, str] = _NO_PROPERTIES,
    replicate: bool = False,
) -> bytes:
    """SUBSCRIBE: opens a consumer. `start` is for non-durable subscriptions.

    A new subscription begins `rollback_s` seconds back; 0 = at `start` or `initial_position`. `sticky_ranges` are pairs
    of first and last hash, both included; with them, a Key_Shared consumer is STICKY. `properties` are the consumer's.
    `subscription_properties` are stored with a subscription that this command creates.
    """
    body = pb.CommandSubscribe(
        topic=topic,
        subscription=subscription,
        subType=pb.CommandSubscribe.SubType.ValueType(type),
        consumer_id=consumer_id,
        request_id=request_id,
        consumer_name=consumer_name,
        priority_level=priority,
        durable=durable,
        start_message_id=None if start is None else id_data(start),
        start_message_rollback_duration_sec=rollback_s or None,
        initialPosition=pb.CommandSubscribe.InitialPosition.ValueType(initial_position),
        force_topic_creation=create_topic,
        read_compacted=read_compacted,
        consumer_epoch=epoch,
        keySharedMeta=_key_shared_meta(sticky_ranges, allow_out_of_order)
        if type is SubType.KEY_SHARED
        else None,
        metadata=[pb.KeyValue(key=key, value=value) for key, value in properties.items()],
        schema=None if schema is None else schema_body(schema),
        subscription_properties=[
            pb.KeyValue(key=key, value=value) for key, value in subscription_properties.items()
        ],
        replicate_subscription_state=True if replicate else None,
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.SUBSCRIBE, subscribe=body))


def _key_shared_meta(
    sticky_ranges: Sequence[tuple[int, int]] | None, allow_out_of_order: bool
) -> pb.KeySharedMeta:
    return pb.KeySharedMeta(
        keySharedMode=pb.AUTO_SPLIT if sticky_ranges is None else pb.STICKY,
        hashRanges=[pb.IntRange(start=first, end=last) for first, last in sticky_ranges or ()],
        allowOutOfOrderDelivery=allow_out_of_order,
    )


def flow(consumer_id: int, permits: int) -> bytes:
    """FLOW: the broker may send this many more messages."""
    body = pb.CommandFlow(consumer_id=consumer_id, messagePermits=permits)
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.FLOW, flow=body))


def unsubscribe(consumer_id: int, *, request_id: int, force: bool = False) -> bytes:
    """UNSUBSCRIBE: deletes the subscription."""
    body = pb.CommandUnsubscribe(consumer_id=consumer_id, request_id=request_id, force=force)
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.UNSUBSCRIBE, unsubscribe=body))


def seek(
    consumer_id: int,
    *,
    request_id: int,
    message_id: MessageId | None = None,
    publish_time_ms: int | None = None,
) -> bytes:
    """SEEK: moves the subscription to a message id or a time."""
    body = pb.CommandSeek(
        consumer_id=consumer_id,
        request_id=request_id,
        message_id=None if message_id is None else id_data(message_id),
        message_publish_time=publish_time_ms,
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.SEEK, seek=body))


def close_consumer(consumer_id: int, *, request_id: int) -> bytes:
    """CLOSE_CONSUMER: closes a consumer. If the broker sends it, its request id is `NO_REQUEST`."""
    body = pb.CommandCloseConsumer(consumer_id=consumer_id, request_id=request_id & UINT64_MASK)
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.CLOSE_CONSUMER, close_consumer=body))


def get_last_message_id(consumer_id: int, *, request_id: int) -> bytes:
    """GET_LAST_MESSAGE_ID: asks for the id of the topic's newest message."""
    body = pb.CommandGetLastMessageId(consumer_id=consumer_id, request_id=request_id)
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.GET_LAST_MESSAGE_ID, getLastMessageId=body))


def consumer_stats(consumer_id: int, *, request_id: int) -> bytes:
    """CONSUMER_STATS: asks for the broker's statistics of a consumer."""
    body = pb.CommandConsumerStats(consumer_id=consumer_id, request_id=request_id)
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.CONSUMER_STATS, consumerStats=body))
