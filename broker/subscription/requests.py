"""What crosses between a subscription and its doors: requests in, deliveries out, and the sink that a door implements.

What is made per entry is a named tuple (see broker/core/entry.py), what is made per request a frozen dataclass.
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
    "Delivery",
    "DurableCallback",
    "LastMessage",
    "SubscribeRequest",
]


class Delivery(NamedTuple):
    """One entry on its way to one consumer; permits are spent and the pending ack is recorded already."""

    entry: StoredEntry
    redelivery_count: int  # 0 on the first delivery
    remaining: int | None  # bitset of the indexes not yet acked, None = all


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeRequest:
    """Attaching a consumer (semantics 3.1, protocol 3.7)."""

    topic: TopicName
    subscription: str
    type: SubscriptionType
    consumer_name: str
    durable: bool = True
    priority: int = 0
    earliest: bool = False  # initial position of a subscription created now
    start: Position | None = None  # non-durable only: the first entry to send; EARLIEST/LATEST allowed
    start_remaining: int | None = None  # ack set of `start`, None = all its messages
    rollback_s: int = 0  # > 0: start this many seconds back
    create_topic: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    subscription_properties: Mapping[str, str] = field(default_factory=dict)
    ack_timeout_ms: int = 0  # > 0: the broker runs the ack timeout (faces whose client has no tracker)
    ack_timeout_tick_ms: int = 1  # timeouts are seen to at multiples of it
    ack_timeout_backoff: Callable[[int], int] | None = (
        None  # redelivery count to ms added to the timeout (S4.28)
    )
    warnings: Sequence[
        str
    ] = ()  # options that cannot do what they seem to: logged once a subscription, counted
    read_compacted: bool = False  # no topic is compacted yet, so it reads everything
    epoch: int | None = None  # Java's consumer epoch, None = the client has none
    key_shared: KeySharedPolicy = AUTO_SPLIT  # Key_Shared; on Exclusive its sticky ranges count
    receiver_queue: int = 0  # what the client said its queue holds, for the console; 0 = unknown
    schema: SchemaDefinition | None = None


class AckRequest(NamedTuple):
    """One id of an ack command."""

    position: Position
    remaining: int | None = None  # None = the whole entry; else bitset of indexes still unacked


@dataclass(frozen=True, slots=True, kw_only=True)
class LastMessage:
    """Answer of `Consumer.last_message`: the last stored entry and the cursor, for hasMessageAvailable."""

    position: Position  # (-1, -1) when the topic holds nothing
    batch_size: int  # 0 when the last entry is not a batch
    mark_delete: Position


class ConsumerSink(Protocol):
    """What a transport does for one of its consumers. Calls come from the event loop and must not block."""

    def deliver(self, deliveries: Sequence[Delivery]) -> None:
        """Write these now, in one transport write."""

    def is_writable(self) -> bool:
        """False while the peer does not take what was written; the dispatcher then passes it over."""

    def on_end_of_topic(self) -> None:
        """The topic is terminated and everything in it is acked: nothing will ever come again."""

    def on_consumer_closed(self, reason: str) -> None:
        """The broker detached the consumer (seek, reset, unload); the client subscribes again."""

    def close_connection(self, reason: str) -> None:
        """The peer cannot take what it would be sent (S1.8): its whole connection ends. No further call follows."""

    def on_active_change(self, is_active: bool) -> None:
        """Failover: from now on this consumer gets everything, or nothing (semantics 3.2)."""

    async def is_alive(self) -> bool:
        """Ask the peer (a ping, 5 s at most): somebody else wants its place."""


DurableCallback = Callable[["BrokerError | None"], None]
