"""Requests, deliveries and callbacks that subscriptions exchange with the protocol code in `broker/doors`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker.core.dispatchers.key_shared_policy import AUTO_SPLIT, KeySharedPolicy

if TYPE_CHECKING:
    from broker.core.entry import StoredEntry
    from broker.core.errors import BrokerError
    from broker.core.position import Position
    from broker.core.schemas.schema import SchemaDefinition
    from broker.core.subscription.types import SubscriptionType
    from broker.core.topic_name import TopicName

__all__ = [
    "AckRequest",
    "ConsumerSink",
    "ConsumerStatistics",
    "Delivery",
    "DurableCallback",
    "LastMessage",
    "SubscribeRequest",
]


class Delivery(NamedTuple):
    """One entry on its way to one consumer.

    The permits are already spent. On Shared and Key_Shared, the pending ack is already recorded, unless the topic
    is non-persistent.
    """

    entry: StoredEntry
    redelivery_count: int  # Always 0 on Exclusive and Failover
    remaining: int | None  # Bitset of the unacked messages; None = all messages


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeRequest:
    """A request to attach a consumer, with the options of its client."""

    topic: TopicName
    subscription: str
    type: SubscriptionType
    consumer_name: str
    durable: bool = True
    priority: int = 0
    earliest: bool = False  # Whether a new subscription begins at the first entry
    start: Position | None = None  # First entry of a non-durable subscription; None = LATEST
    start_remaining: int | None = None  # Bitset of the messages to send from entry `start`; None = all
    # If positive, a new cursor begins this many seconds ago, and `earliest` and `start` are ignored.
    rollback_s: int = 0
    create_topic: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    subscription_properties: Mapping[str, str] = field(default_factory=dict)
    ack_timeout_ms: int = 0  # If positive, the broker runs the ack timeout
    ack_timeout_tick_ms: int = 1  # Timeouts are rounded up to a multiple of the tick
    # Maps a redelivery count to milliseconds that are added to the timeout.
    ack_timeout_backoff: Callable[[int], int] | None = None
    # Warnings about options. A subscription logs each warning once.
    warnings: Sequence[str] = ()
    # On a compacted topic, read the entries that compaction kept, then the log.
    read_compacted: bool = False
    epoch: int | None = None  # The Java client's consumer epoch
    key_shared: KeySharedPolicy = AUTO_SPLIT  # Exclusive also uses sticky ranges
    # Full topic name. None = the broker writes no dead letters.
    dead_letter_topic: str | None = None
    schema: SchemaDefinition | None = None


class AckRequest(NamedTuple):
    """One message id of an ack command."""

    position: Position
    remaining: int | None = None  # Bitset of the messages that stay unacked; None = ack the whole entry


@dataclass(frozen=True, slots=True, kw_only=True)
class LastMessage:
    """The last message that a consumer can get, and the mark-delete position."""

    position: Position  # (-1, -1) = there is no message
    batch_size: int  # Number of messages in the batch up to the last message; 0 = no batch
    mark_delete: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStatistics:
    """The figures of one consumer, and its subscription's backlog."""

    connected_ms: int
    permits: int
    unacked_messages: int  # Always 0 on Exclusive and Failover, as in Pulsar
    is_blocked: bool  # Whether the consumer's limit on unacked messages stops delivery
    backlog_entries: int
    messages_out_per_s: float
    bytes_out_per_s: float
    messages_redelivered_per_s: float
    messages_acked_per_s: float


class ConsumerSink(Protocol):
    """One consumer's link to its client. Only `is_alive` may wait."""

    def deliver(self, deliveries: Sequence[Delivery]) -> None:
        """Send deliveries to the client."""

    def is_writable(self) -> bool:
        """Return whether the client can receive more."""

    def on_end_of_topic(self) -> None:
        """Note that the topic is terminated and fully acked."""

    def on_consumer_closed(self, reason: str) -> None:
        """Tell the client that the broker detached the consumer."""

    def close_connection(self, reason: str) -> None:
        """Close the connection, because the client cannot receive part of a batch. No further call follows."""

    def on_active_change(self, is_active: bool) -> None:
        """Tell a Failover client whether its consumer is active."""

    async def is_alive(self) -> bool:
        """Return within 5 s whether the client seems alive."""


DurableCallback = Callable[["BrokerError | None"], None]
