"""Builders: one function a command, giving the bytes of its frame; the broker's commands and the client's.

Ids of entries and sequence ids may be negative (-1 travels as 2^64-1).
"""

from __future__ import annotations

from vela.wire.binary.commands.acks import ack, ack_response, redeliver
from vela.wire.binary.commands.connection import (
    auth_challenge,
    auth_response,
    connect,
    connected,
    error,
    ping,
    pong,
    success,
)
from vela.wire.binary.commands.consumer import (
    NO_REQUEST,
    active_consumer_change,
    close_consumer,
    consumer_stats,
    consumer_stats_failed,
    consumer_stats_response,
    flow,
    get_last_message_id,
    last_message_id,
    reached_end_of_topic,
    seek,
    subscribe,
    unsubscribe,
)
from vela.wire.binary.commands.delivery import message_frame, message_head
from vela.wire.binary.commands.lookup import (
    get_topics_of_namespace,
    lookup,
    lookup_failed,
    lookup_response,
    partition_metadata,
    partition_metadata_failed,
    partition_metadata_response,
    topics_hash,
    topics_of_namespace,
)
from vela.wire.binary.commands.producer import (
    close_producer,
    producer,
    producer_success,
    send,
    send_error,
    send_receipt,
)
from vela.wire.binary.commands.schema import (
    get_or_create_schema,
    get_schema,
    schema_refused,
    schema_response,
    schema_version,
)

__all__ = [
    "NO_REQUEST",
    "ack",
    "ack_response",
    "active_consumer_change",
    "auth_challenge",
    "auth_response",
    "close_consumer",
    "close_producer",
    "connect",
    "connected",
    "consumer_stats",
    "consumer_stats_failed",
    "consumer_stats_response",
    "error",
    "flow",
    "get_last_message_id",
    "get_or_create_schema",
    "get_schema",
    "get_topics_of_namespace",
    "last_message_id",
    "lookup",
    "lookup_failed",
    "lookup_response",
    "message_frame",
    "message_head",
    "partition_metadata",
    "partition_metadata_failed",
    "partition_metadata_response",
    "ping",
    "pong",
    "producer",
    "producer_success",
    "reached_end_of_topic",
    "redeliver",
    "schema_refused",
    "schema_response",
    "schema_version",
    "seek",
    "send",
    "send_error",
    "send_receipt",
    "subscribe",
    "success",
    "topics_hash",
    "topics_of_namespace",
    "unsubscribe",
]
