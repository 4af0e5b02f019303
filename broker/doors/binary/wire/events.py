"""The events that `ServerEngine.receive` returns.

Entry ids and sequence ids are signed here, but unsigned on the wire. Frequent events are named tuples, because creating
a frozen dataclass takes three times as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vela.wire.binary.enums import AccessMode, InitialPosition, SubType, TopicsMode, ValidationError
from vela.wire.binary.schema import Schema
from vela.wire.message_id import MessageId

__all__ = [
    "Ack",
    "AckId",
    "AuthResponse",
    "CloseConsumer",
    "CloseProducer",
    "CloseTopicWatcher",
    "Connect",
    "ConsumerStats",
    "Event",
    "Flow",
    "GetLastMessageId",
    "GetOrCreateSchema",
    "GetSchema",
    "GetTopicsOfNamespace",
    "Lookup",
    "OpenProducer",
    "PartitionMetadata",
    "Ping",
    "Pong",
    "Redeliver",
    "Seek",
    "Send",
    "Subscribe",
    "Unsubscribe",
    "Unsupported",
    "WatchTopicList",
]


class Send(NamedTuple):
    """The SEND command, which stores one entry."""

    producer_id: int
    sequence_id: int  # The receipt must repeat this id.
    highest_sequence_id: int | None
    messages: int  # The entry's metadata overrides this count.
    is_chunk: bool
    in_transaction: bool
    entry_block: bytes  # Everything after the command, with or without a checksum


class AckId(NamedTuple):
    """One id of an ACK."""

    ledger_id: int
    entry_id: int
    # Bit i is set if message i of the batch stays unacked. If the bitset is None or 0, the whole entry is acked.
    ack_set: int | None


class Ack(NamedTuple):
    """The ACK command."""

    consumer_id: int
    cumulative: bool
    ids: Sequence[AckId]
    validation_error: ValidationError | None
    # A long ACK becomes several events. Only the last event has the request id.
    request_id: int | None
    in_transaction: bool


class Flow(NamedTuple):
    """The FLOW command, which grants permits."""

    consumer_id: int
    permits: int  # Counted in messages, not entries


class Redeliver(NamedTuple):
    """The REDELIVER_UNACKNOWLEDGED_MESSAGES command."""

    consumer_id: int
    # Pairs of ledger id and entry id. An empty sequence means all pending messages of the consumer.
    positions: Sequence[tuple[int, int]]
    epoch: int | None
    is_continuation: bool = False  # True if an earlier event has the first positions of the command


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect:
    """The CONNECT command. Answer with `send_connected`, or call `refuse_connection` and close the connection."""

    client_version: str
    protocol_version: int
    auth_method: str | None
    auth_data: bytes | None
    proxy_to_broker_url: str | None
    supports_auth_refresh: bool
    original_role: str = ""  # Role of the client behind a proxy
    original_method: str | None = None
    original_data: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthResponse:
    """The AUTH_RESPONSE command, which answers AUTH_CHALLENGE."""

    auth_method: str | None
    auth_data: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """The PING command. Answer with `send_pong` at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong:
    """The PONG command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """The PARTITIONED_METADATA command, which asks for the number of partitions."""

    topic: str
    request_id: int
    create: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """The LOOKUP command, which asks for the broker of a topic."""

    topic: str
    request_id: int
    authoritative: bool
    listener_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTopicsOfNamespace:
    """The GET_TOPICS_OF_NAMESPACE command."""

    request_id: int
    namespace: str  # "tenant/namespace"
    mode: TopicsMode
    pattern: str | None
    topics_hash: str | None  # Hash of the topic list that the client has


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenProducer:
    """The PRODUCER command."""

    topic: str
    producer_id: int
    request_id: int
    producer_name: str | None
    user_provided_name: bool
    encrypted: bool
    properties: Mapping[str, str]
    schema: Schema | None
    epoch: int  # Rises with each reconnect of the producer
    access_mode: AccessMode
    topic_epoch: int | None
    initial_subscription: str | None
    in_transaction: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseProducer:
    """The CLOSE_PRODUCER command."""

    producer_id: int
    request_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe:
    """The SUBSCRIBE command."""

    topic: str
    subscription: str
    type: SubType
    consumer_id: int
    request_id: int
    consumer_name: str
    priority: int  # Consumers with priority 0 are served first.
    durable: bool
    # First entry of a non-durable subscription. None means LATEST.
    start: MessageId | None
    # Bit i is set if message i of the first entry must be delivered. Without a bitset, the whole entry is delivered.
    start_ack_set: int | None
    initial_position: InitialPosition
    rollback_s: int  # A new subscription starts this many seconds in the past.
    create_topic: bool
    read_compacted: bool
    replicate_state: bool
    properties: Mapping[str, str]
    subscription_properties: Mapping[str, str]
    schema: Schema | None
    key_shared_sticky: bool
    key_shared_ranges: Sequence[tuple[int, int]]  # First and last hash slot of each range
    key_shared_out_of_order: bool
    epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsubscribe:
    """The UNSUBSCRIBE command."""

    consumer_id: int
    request_id: int
    force: bool  # Delete the subscription even if other consumers are attached


@dataclass(frozen=True, slots=True, kw_only=True)
class Seek:
    """The SEEK command, which moves a subscription to a message id or to a publish time."""

    consumer_id: int
    request_id: int
    message_id: MessageId | None
    # Bit i is set if message i of the batch must be delivered. Without a bitset, all messages are delivered.
    ack_set: int | None
    publish_time_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseConsumer:
    """The CLOSE_CONSUMER command."""

    consumer_id: int
    request_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GetLastMessageId:
    """The GET_LAST_MESSAGE_ID command."""

    consumer_id: int
    request_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStats:
    """The CONSUMER_STATS command."""

    consumer_id: int
    request_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GetSchema:
    """The GET_SCHEMA command."""

    topic: str
    request_id: int
    version: bytes | None  # Eight bytes, or None for the latest version


@dataclass(frozen=True, slots=True, kw_only=True)
class GetOrCreateSchema:
    """The GET_OR_CREATE_SCHEMA command."""

    topic: str
    request_id: int
    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchTopicList:
    """The WATCH_TOPIC_LIST command."""

    request_id: int
    watcher_id: int
    namespace: str  # "tenant/namespace"
    pattern: str
    topics_hash: str | None  # Hash of the topic list that the client has


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseTopicWatcher:
    """The WATCH_TOPIC_LIST_CLOSE command."""

    request_id: int
    watcher_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """A command that Vela does not serve. Answer with `send_unsupported`."""

    name: str
    reason: str
    request_id: int | None  # None if the client waits for no answer


Event = (
    Send
    | Ack
    | Flow
    | Redeliver
    | Connect
    | AuthResponse
    | Ping
    | Pong
    | PartitionMetadata
    | Lookup
    | GetTopicsOfNamespace
    | OpenProducer
    | CloseProducer
    | Subscribe
    | Unsubscribe
    | Seek
    | CloseConsumer
    | GetLastMessageId
    | ConsumerStats
    | GetSchema
    | GetOrCreateSchema
    | WatchTopicList
    | CloseTopicWatcher
    | Unsupported
)
