"""The replies of a broker, one class for each command, as `ClientEngine.receive` returns them.

Ids of entries and sequence ids are signed 64 bits (-1 travels as 2^64-1); producer, consumer and request ids
are the client's own. Replies that come for every message are named tuples, which are cheaper to make.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vela.wire.binary.enums import ServerError
from vela.wire.binary.schema import Schema
from vela.wire.message_id import MessageId

__all__ = [
    "AckResponse",
    "ActiveConsumerChange",
    "Answer",
    "AuthChallenge",
    "CloseConsumer",
    "CloseProducer",
    "Connected",
    "ConsumerStats",
    "EndOfTopic",
    "LastMessageId",
    "Located",
    "Message",
    "Partitions",
    "Ping",
    "Pong",
    "ProducerSuccess",
    "Receipt",
    "Refusal",
    "Reply",
    "SchemaFound",
    "SchemaVersion",
    "SendError",
    "Success",
    "TopicsOfNamespace",
    "Unknown",
]


class Message(NamedTuple):
    """MESSAGE: one entry, that is one message or one batch."""

    consumer_id: int
    ledger_id: int
    entry_id: int
    partition: int  # -1 = the broker did not say
    batch_index: int  # brokers send -1, and the client splits the batch
    redelivery_count: int  # of the entry, by the broker's count; 0 at the first delivery
    ack_set: int | None  # bit i set = index i is to be processed; None = all
    consumer_epoch: int | None  # of the consumer's latest SUBSCRIBE or REDELIVER; None = the broker sent none
    entry_block: bytes  # everything after the command: checksum, metadata, payload, for `vela.wire.entry`


class Receipt(NamedTuple):
    """SEND_RECEIPT: the broker has accepted an entry, and stored it if the topic is persistent."""

    producer_id: int
    sequence_id: int
    highest_sequence_id: int | None  # None = the SEND had none
    ledger_id: int  # -1 with entry_id -1: a duplicate that was dropped
    entry_id: int


class AckResponse(NamedTuple):
    """ACK_RESPONSE: the ack is applied. A failed ack is a `Refusal`."""

    consumer_id: int
    request_id: int


class Success(NamedTuple):
    """SUCCESS: the request is done."""

    request_id: int


class Refusal(NamedTuple):
    """ERROR, or any answer that gives an error."""

    request_id: int  # -1 = answers no request: the connection itself is refused
    code: ServerError
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """CONNECTED: the broker accepts this client."""

    server_version: str
    protocol_version: int  # as the broker announces it
    max_message_bytes: int | None  # None = the broker did not say


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthChallenge:
    """AUTH_CHALLENGE: answer with fresh credentials."""

    auth_method: str | None
    challenge: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """PING: answer with PONG at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong:
    """PONG: the answer to a PING."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """PARTITIONED_METADATA_RESPONSE: the number of a topic's partitions."""

    request_id: int
    partitions: int  # 0 = not partitioned


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """LOOKUP_RESPONSE: the broker that serves the topic."""

    request_id: int
    url: str | None  # pulsar://host:port
    url_tls: str | None  # pulsar+ssl://host:port
    redirect: bool  # repeat the lookup at `url`, do not connect for the topic yet
    authoritative: bool  # repeat this value in the lookup at `url`
    proxy_through_service_url: bool  # connect to the service URL and name `url` in CONNECT


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsOfNamespace:
    """GET_TOPICS_OF_NAMESPACE_RESPONSE: the topics of a namespace."""

    request_id: int
    topics: Sequence[str]  # full names, partitions one by one; empty when not `changed`
    topics_hash: str | None
    changed: bool  # False: the list still has the hash that the request named
    filtered: bool  # the broker applied the pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSuccess:
    """PRODUCER_SUCCESS: the producer is open, or queued for exclusive access."""

    request_id: int
    name: str
    last_sequence_id: int  # highest stored under the name; -1 = none, or the topic does not deduplicate
    schema_version: bytes  # of the schema that the producer named; b"" = it named none
    topic_epoch: int | None
    ready: bool  # False: queued, another PRODUCER_SUCCESS to the same request follows


class SendError(NamedTuple):
    """SEND_ERROR: an entry is refused and not stored."""

    producer_id: int
    sequence_id: int  # the higher of the two sequence ids in the SEND
    code: ServerError
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseProducer:
    """CLOSE_PRODUCER by the broker: attach again."""

    producer_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseConsumer:
    """CLOSE_CONSUMER by the broker: attach again."""

    consumer_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveConsumerChange:
    """ACTIVE_CONSUMER_CHANGE: a Failover consumer becomes the active one, or stops being active."""

    consumer_id: int
    is_active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOfTopic:
    """REACHED_END_OF_TOPIC: the topic is terminated and the subscription has acknowledged everything."""

    consumer_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LastMessageId:
    """GET_LAST_MESSAGE_ID_RESPONSE: the id of the topic's newest message."""

    request_id: int
    last: MessageId  # EARLIEST (-1:-1) = the topic is empty
    mark_delete: MessageId | None  # of the subscription, None = the broker did not say


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFound:
    """GET_SCHEMA_RESPONSE: a version of a topic's schema."""

    request_id: int
    schema: Schema
    version: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaVersion:
    """GET_OR_CREATE_SCHEMA_RESPONSE: the version of a schema."""

    request_id: int
    version: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStats:
    """CONSUMER_STATS_RESPONSE: the broker's statistics of a consumer. Rates are per second."""

    request_id: int
    consumer_name: str
    type: str  # "Exclusive", "Shared", "Failover", "Key_Shared"
    address: str
    connected_since: str  # ISO 8601
    permits: int
    unacked_messages: int
    blocked: bool  # by the limit of unacked messages
    backlog_entries: int
    message_rate_out: float
    bytes_rate_out: float
    redeliver_rate: float
    ack_rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A broker's command that this client does not use and never waits for."""

    name: str


Answer = (
    Success
    | Refusal
    | AckResponse
    | ProducerSuccess
    | Partitions
    | Located
    | TopicsOfNamespace
    | LastMessageId
    | SchemaFound
    | SchemaVersion
    | ConsumerStats
)
"""The replies that answer a request. Each has a `request_id`."""

Reply = (
    Message
    | Receipt
    | Answer
    | Connected
    | AuthChallenge
    | Ping
    | Pong
    | SendError
    | CloseProducer
    | CloseConsumer
    | ActiveConsumerChange
    | EndOfTopic
    | Unknown
)
