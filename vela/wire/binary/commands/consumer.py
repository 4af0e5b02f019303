"""Consumers: subscribing, permits, seeking, closing. Deliveries are in `delivery`, acks in `acks`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from vela.wire.binary.commands.connection import error_value, frame_of
from vela.wire.binary.commands.schema import schema_body
from vela.wire.binary.enums import InitialPosition, ServerError, SubType
from vela.wire.binary.schema import Schema
from vela.wire.message_id import MessageId
from vela.wire.pb import vela_pulsar_pb2 as pb
from vela.wire.varint import UINT64_MASK

__all__ = [
    "NO_REQUEST",
    "active_consumer_change",
    "close_consumer",
    "consumer_stats",
    "consumer_stats_failed",
    "consumer_stats_response",
    "flow",
    "get_last_message_id",
    "last_message_id",
    "reached_end_of_topic",
    "seek",
    "subscribe",
    "unsubscribe",
]

NO_REQUEST: Final = -1
"""Request id of what the broker does by itself, 2^64-1 on the wire."""
_TYPE_NAMES: Final = {
    SubType.EXCLUSIVE: "Exclusive",
    SubType.SHARED: "Shared",
    SubType.FAILOVER: "Failover",
    SubType.KEY_SHARED: "Key_Shared",
}
_NO_PROPERTIES: Final[Mapping[str, str]] = {}


def _id_data(message_id: MessageId) -> pb.MessageIdData:
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
    """SUBSCRIBE; `start` is for non-durable subscriptions, `sticky_ranges` (inclusive) make Key_Shared STICKY.

    `properties` are the consumer's, `subscription_properties` are kept with a subscription that this makes.
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
        start_message_id=None if start is None else _id_data(start),
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
    """FLOW: so many more messages."""
    body = pb.CommandFlow(consumer_id=consumer_id, messagePermits=permits)
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.FLOW, flow=body))


def unsubscribe(consumer_id: int, *, request_id: int, force: bool = False) -> bytes:
    """UNSUBSCRIBE."""
    body = pb.CommandUnsubscribe(consumer_id=consumer_id, request_id=request_id, force=force)
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.UNSUBSCRIBE, unsubscribe=body))


def seek(
    consumer_id: int,
    *,
    request_id: int,
    message_id: MessageId | None = None,
    publish_time_ms: int | None = None,
) -> bytes:
    """SEEK by id or by time."""
    body = pb.CommandSeek(
        consumer_id=consumer_id,
        request_id=request_id,
        message_id=None if message_id is None else _id_data(message_id),
        message_publish_time=publish_time_ms,
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.SEEK, seek=body))


def close_consumer(consumer_id: int, *, request_id: int) -> bytes:
    """CLOSE_CONSUMER; the broker's own carries `NO_REQUEST`."""
    body = pb.CommandCloseConsumer(consumer_id=consumer_id, request_id=request_id & UINT64_MASK)
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.CLOSE_CONSUMER, close_consumer=body))


def get_last_message_id(consumer_id: int, *, request_id: int) -> bytes:
    """GET_LAST_MESSAGE_ID."""
    body = pb.CommandGetLastMessageId(consumer_id=consumer_id, request_id=request_id)
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.GET_LAST_MESSAGE_ID, getLastMessageId=body))


def last_message_id(request_id: int, *, last: MessageId, mark_delete: MessageId) -> bytes:
    """GET_LAST_MESSAGE_ID_RESPONSE; clients decide by both ids whether a message is available."""
    body = pb.CommandGetLastMessageIdResponse(
        request_id=request_id,
        last_message_id=_id_data(last),
        consumer_mark_delete_position=_id_data(mark_delete),
    )
    kind = pb.BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE
    return frame_of(pb.BaseCommand(type=kind, getLastMessageIdResponse=body))


def active_consumer_change(consumer_id: int, *, is_active: bool) -> bytes:
    """ACTIVE_CONSUMER_CHANGE: this Failover consumer is, or is not, the one receiving."""
    body = pb.CommandActiveConsumerChange(consumer_id=consumer_id, is_active=is_active)
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.ACTIVE_CONSUMER_CHANGE, active_consumer_change=body))


def reached_end_of_topic(consumer_id: int) -> bytes:
    """REACHED_END_OF_TOPIC: for Java's and Vela's clients; others close their connection."""
    body = pb.CommandReachedEndOfTopic(consumer_id=consumer_id)
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.REACHED_END_OF_TOPIC, reachedEndOfTopic=body))


def consumer_stats(consumer_id: int, *, request_id: int) -> bytes:
    """CONSUMER_STATS."""
    body = pb.CommandConsumerStats(consumer_id=consumer_id, request_id=request_id)
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.CONSUMER_STATS, consumerStats=body))


def consumer_stats_response(
    request_id: int,
    *,
    consumer_name: str,
    type: SubType,  # noqa: A002 - the protocol's word
    address: str,
    connected_since: str,
    permits: int,
    unacked_messages: int,
    blocked: bool,
    backlog_entries: int,
    message_rate_out: float,
    bytes_rate_out: float,
    redeliver_rate: float,
) -> bytes:
    """CONSUMER_STATS_RESPONSE; rates are per second, `connected_since` is ISO 8601."""
    body = pb.CommandConsumerStatsResponse(
        request_id=request_id,
        consumerName=consumer_name,
        type=_TYPE_NAMES[type],
        address=address,
        connectedSince=connected_since,
        availablePermits=max(permits, 0),
        unackedMessages=unacked_messages,
        blockedConsumerOnUnackedMsgs=blocked,
        msgBacklog=backlog_entries,
        msgRateOut=message_rate_out,
        msgThroughputOut=bytes_rate_out,
        msgRateRedeliver=redeliver_rate,
    )
    return _stats_frame(body)


def consumer_stats_failed(request_id: int, code: ServerError, message: str) -> bytes:
    """CONSUMER_STATS_RESPONSE that says why not."""
    body = pb.CommandConsumerStatsResponse(
        request_id=request_id, error_code=error_value(code), error_message=message
    )
    return _stats_frame(body)


def _stats_frame(body: pb.CommandConsumerStatsResponse) -> bytes:
    kind = pb.BaseCommand.CONSUMER_STATS_RESPONSE
    return frame_of(pb.BaseCommand(type=kind, consumerStatsResponse=body))
