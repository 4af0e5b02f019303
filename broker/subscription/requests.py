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
    """One entry on its way to one consumer. The consumer's permits for this entry are already spent."""

    entry: StoredEntry
    redelivery_count: int  # Always 0 on Exclusive and Failover
    remaining: int | None  # Bitset of the unacked messages; None if all are unacked


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeRequest:
    """A client's request to attach a consumer."""

    topic: TopicName
    subscription: str
    type: SubscriptionType
    consumer_name: str
    durable: bool = True
    priority: int = 0
    earliest: bool = False
    start: Position | None = None  # Start position of a non-durable subscription; None means LATEST
    start_remaining: int | None = None  # Bitset of the messages to deliver from entry `start`; None for all
    # A new subscription begins this many seconds in the past. If this is 0, `earliest` or `start` applies.
    rollback_s: int = 0
    create_topic: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    subscription_properties: Mapping[str, str] = field(default_factory=dict)
    ack_timeout_ms: int = 0  # Ack timeout enforced by the broker; 0 means none
    ack_timeout_tick_ms: int = 1  # Redelivery times are rounded up to a multiple of this
    # Returns the milliseconds to add to the timeout, given a redelivery count.
    ack_timeout_backoff: Callable[[int], int] | None = None
    warnings: Sequence[str] = ()
    read_compacted: bool = False
    epoch: int | None = None  # The Java client's consumer epoch
    key_shared: KeySharedPolicy = AUTO_SPLIT  # Sticky ranges also apply on Exclusive
    # Full name of the topic. If this is None, the broker writes no dead letters.
    dead_letter_topic: str | None = None
    schema: SchemaDefinition | None = None


class AckRequest(NamedTuple):
    """One message id of an ack command."""

    position: Position
    remaining: int | None = None  # Bitset of the messages that stay unacked; None if all are acked


@dataclass(frozen=True, slots=True, kw_only=True)
class LastMessage:
    """The last message that a consumer can get, and the mark-delete position."""

    position: Position  # (-1, -1) means there is no message
    number_in_batch: int  # Counted from 1; 0 if the message is not in a batch
    mark_delete: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStatistics:
    """The statistics of one consumer and the backlog of its subscription."""

    connected_ms: int
    permits: int
    unacked_messages: int  # Always 0 on Exclusive and Failover
    is_blocked: bool  # Whether too many unacked messages stop delivery to this consumer
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
        """Called when the topic is terminated and the subscription has acked all messages."""

    def on_consumer_closed(self, reason: str) -> None:
        """Tell the client that the broker detached the consumer."""

    def close_connection(self, reason: str) -> None:
        """Close the connection of a client that is too old to receive part of a batch.

        After this call, the consumer does not use the sink.
        """

    def on_active_change(self, is_active: bool) -> None:
        """Tell a Failover client whether its consumer is active."""

    async def is_alive(self) -> bool:
        """Return within 5 s whether the client seems alive."""


DurableCallback = Callable[["BrokerError | None"], None]
