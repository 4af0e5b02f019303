"""Builders for the commands that only the broker sends."""

from __future__ import annotations

from broker.doors.binary.wire.answers.connection import auth_challenge, connected, error, success
from broker.doors.binary.wire.answers.consumer import (
    ack_response,
    active_consumer_change,
    consumer_stats_failed,
    consumer_stats_response,
    last_message_id,
    reached_end_of_topic,
)
from broker.doors.binary.wire.answers.delivery import message_head
from broker.doors.binary.wire.answers.lookup import (
    lookup_failed,
    lookup_response,
    partition_metadata_failed,
    partition_metadata_response,
    topics_hash,
    topics_of_namespace,
    watch_success,
    watch_update,
)
from broker.doors.binary.wire.answers.producer import (
    ReceiptFields,
    producer_success,
    send_error,
    send_receipts,
)
from broker.doors.binary.wire.answers.schema import schema_refused, schema_response, schema_version

__all__ = [
    "ReceiptFields",
    "ack_response",
    "active_consumer_change",
    "auth_challenge",
    "connected",
    "consumer_stats_failed",
    "consumer_stats_response",
    "error",
    "last_message_id",
    "lookup_failed",
    "lookup_response",
    "message_head",
    "partition_metadata_failed",
    "partition_metadata_response",
    "producer_success",
    "reached_end_of_topic",
    "schema_refused",
    "schema_response",
    "schema_version",
    "send_error",
    "send_receipts",
    "success",
    "topics_hash",
    "topics_of_namespace",
    "watch_success",
    "watch_update",
]
