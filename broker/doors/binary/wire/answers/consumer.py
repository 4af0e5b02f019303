"""Builders for answers and notices to consumers."""

from __future__ import annotations

from typing import Final

from vela.wire.binary.commands.connection import error_value, frame_of
from vela.wire.binary.commands.consumer import id_data
from vela.wire.binary.enums import ServerError, SubType
from vela.wire.message_id import MessageId
from vela.wire.pb import vela_pulsar_pb2 as pb

__all__ = [
    "ack_response",
    "active_consumer_change",
    "consumer_stats_failed",
    "consumer_stats_response",
    "last_message_id",
    "reached_end_of_topic",
]

_TYPE_NAMES: Final = {
    SubType.EXCLUSIVE: "Exclusive",
    SubType.SHARED: "Shared",
    SubType.FAILOVER: "Failover",
    SubType.KEY_SHARED: "Key_Shared",
}


def ack_response(
    consumer_id: int, *, request_id: int, code: ServerError | None = None, message: str | None = None
) -> bytes:
    """Build ACK_RESPONSE."""
    body = pb.CommandAckResponse(
        consumer_id=consumer_id,
        request_id=request_id,
        error=None if code is None else error_value(code),
        message=message,
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.ACK_RESPONSE, ackResponse=body))


def last_message_id(request_id: int, *, last: MessageId, mark_delete: MessageId) -> bytes:
    """Build GET_LAST_MESSAGE_ID_RESPONSE."""
    body = pb.CommandGetLastMessageIdResponse(
        request_id=request_id,
        last_message_id=id_data(last),
        consumer_mark_delete_position=id_data(mark_delete),
    )
    kind = pb.BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE
    return frame_of(pb.BaseCommand(type=kind, getLastMessageIdResponse=body))


def active_consumer_change(consumer_id: int, *, is_active: bool) -> bytes:
    """Build ACTIVE_CONSUMER_CHANGE for a Failover consumer."""
    body = pb.CommandActiveConsumerChange(consumer_id=consumer_id, is_active=is_active)
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.ACTIVE_CONSUMER_CHANGE, active_consumer_change=body))


def reached_end_of_topic(consumer_id: int) -> bytes:
    """Build REACHED_END_OF_TOPIC."""
    body = pb.CommandReachedEndOfTopic(consumer_id=consumer_id)
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.REACHED_END_OF_TOPIC, reachedEndOfTopic=body))


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
    ack_rate: float,
) -> bytes:
    """Build CONSUMER_STATS_RESPONSE. `connected_since` is an ISO 8601 time."""
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
        messageAckRate=ack_rate,
    )
    return _stats_frame(body)


def consumer_stats_failed(request_id: int, code: ServerError, message: str) -> bytes:
    """Build CONSUMER_STATS_RESPONSE with an error."""
    body = pb.CommandConsumerStatsResponse(
        request_id=request_id, error_code=error_value(code), error_message=message
    )
    return _stats_frame(body)


def _stats_frame(body: pb.CommandConsumerStatsResponse) -> bytes:
    kind = pb.BaseCommand.CONSUMER_STATS_RESPONSE
    return frame_of(pb.BaseCommand(type=kind, consumerStatsResponse=body))
