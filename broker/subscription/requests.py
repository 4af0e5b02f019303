"""The objects that a subscription and the doors (`broker/doors`) exchange: requests, deliveries, and a door's sink.

Objects made for every entry are named tuples (see broker/core/entry.py); objects made for a request are frozen
dataclasses.
"""

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
    """One entry on its way to one consumer. Its permits are already spent.

    On Shared and Key_Shared its pending ack is already recorded, unless the topic is non-persistent.
    """

    entry: StoredEntry
    redelivery_count: int  # as `RedeliveryCounts` counts; always 0 on Exclusive and Failover
    remaining: int | None  # bitset of the entry's messages that are not acked yet; None = all


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeRequest:
    """A request to attach a consumer, with the options of its client."""

    topic: TopicName
    subscription: str
    type: SubscriptionType
    consumer_name: str
    durable: bool = True
    priority: int = 0
    earliest: bool = False  # True: a new subscription begins at the first entry; False: after the last entry
    start: Position | None = None  # non-durable: the first entry to send, or EARLIEST/LATEST; None = LATEST
    start_remaining: int | None = None  # ack set of the entry at `start`; None = send all its messages
    rollback_s: int = 0  # > 0: a new cursor begins this many seconds back; `earliest` and `start` are ignored
    create_topic: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    subscription_properties: Mapping[str, str] = field(default_factory=dict)
    ack_timeout_ms: int = 0  # > 0: the broker runs the ack timeout, because the client runs none
    ack_timeout_tick_ms: int = 1  # the time at which a timeout is due is rounded up to a multiple of this
    # Maps a redelivery count to the ms added to the timeout.
    ack_timeout_backoff: Callable[[int], int] | None = None
    # Warnings about options: each is logged once for a subscription, and counted.
    warnings: Sequence[str] = ()
    # If the topic is compacted, read the entries that compaction kept, then the log.
    read_compacted: bool = False
    epoch: int | None = None  # the consumer epoch of the Java client; None = the client sends none
    key_shared: KeySharedPolicy = AUTO_SPLIT  # for Key_Shared; Exclusive uses its sticky ranges too
    # Full name. None = there are no dead letters, or the client writes them itself.
    dead_letter_topic: str | None = None
    schema: SchemaDefinition | None = None


class AckRequest(NamedTuple):
    """One id of an ack command."""

    position: Position
    remaining: int | None = None  # bitset of the messages that stay unacked; None = ack the whole entry


@dataclass(frozen=True, slots=True, kw_only=True)
class LastMessage:
    """The last message that a consumer can get, and mark-delete. Clients compute hasMessageAvailable from both."""

    position: Position  # of the last message; (-1, -1) = there is none
    batch_size: int  # messages of its batch, up to and including the last message; 0 = it is not in a batch
    mark_delete: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStatistics:
    """The figures of one consumer, and the backlog of its subscription. Rates are as last measured."""

    connected_ms: int
    permits: int
    unacked_messages: int  # always 0 on Exclusive and Failover, as in Pulsar
    is_blocked: bool  # whether the consumer's own limit on unacked messages stops delivery
    backlog_entries: int
    messages_out_per_s: float
    bytes_out_per_s: float
    messages_redelivered_per_s: float
    messages_acked_per_s: float


class ConsumerSink(Protocol):
    """The door's side of one consumer, called from the event loop. Only `is_alive` may wait."""

    def deliver(self, deliveries: Sequence[Delivery]) -> None:
        """Send these deliveries to the client."""

    def is_writable(self) -> bool:
        """Return False while the peer does not read what was written to it; the dispatcher then skips this consumer."""

    def on_end_of_topic(self) -> None:
        """Note that the topic is terminated and everything in it is acked. Some clients are told, others ask."""

    def on_consumer_closed(self, reason: str) -> None:
        """Tell the client that the broker detached the consumer. The client may subscribe again."""

    def close_connection(self, reason: str) -> None:
        """Close the whole connection, because the peer cannot split a batch. No further call follows."""

    def on_active_change(self, is_active: bool) -> None:
        """On Failover, tell the client, if its protocol can, whether this consumer now gets every message or none."""

    async def is_alive(self) -> bool:
        """Ping the peer, and return within 5 s whether it seems alive. Called when another consumer wants its place."""


DurableCallback = Callable[["BrokerError | None"], None]
