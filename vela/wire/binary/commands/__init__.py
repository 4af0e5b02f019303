"""Builders: one function for each command of a client. Each returns the frame's bytes, `send` in two parts.

A broker also sends some of these commands. Ids of entries and sequence ids may be negative (-1 travels as 2^64-1).
"""

from __future__ import annotations

from vela.wire.binary.commands.acks import ack, redeliver
from vela.wire.binary.commands.connection import (
    auth_response,
    connect,
    ping,
    pong,
)
from vela.wire.binary.commands.consumer import (
    NO_REQUEST,
    close_consumer,
    consumer_stats,
    flow,
    get_last_message_id,
    seek,
    subscribe,
    unsubscribe,
)
from vela.wire.binary.commands.lookup import (
    get_topics_of_namespace,
    lookup,
    partition_metadata,
)
from vela.wire.binary.commands.producer import (
    close_producer,
    producer,
    send,
)
from vela.wire.binary.commands.schema import (
    get_or_create_schema,
    get_schema,
)

__all__ = [
    "NO_REQUEST",
    "ack",
    "auth_response",
    "close_consumer",
    "close_producer",
    "connect",
    "consumer_stats",
    "flow",
    "get_last_message_id",
    "get_or_create_schema",
    "get_schema",
    "get_topics_of_namespace",
    "lookup",
    "partition_metadata",
    "ping",
    "pong",
    "producer",
    "redeliver",
    "seek",
    "send",
    "subscribe",
    "unsubscribe",
]
