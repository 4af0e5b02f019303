"""The state of one subscription at one moment, for the diagnosis rules.

Times are Unix milliseconds, and rates are per second. Unless a comment says otherwise, None means absent or unknown,
and a time of 0 means never.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = [
    "STILL_PER_S",
    "Consumer",
    "Cursor",
    "Database",
    "DeadLetters",
    "Delayed",
    "Departure",
    "Disk",
    "DispatchRate",
    "FirstUnacked",
    "KeyBlock",
    "Limits",
    "OldestSegment",
    "Pause",
    "Processes",
    "SlowestCursor",
    "Snapshot",
    "Subscription",
    "Topic",
]

STILL_PER_S: Final = 0.05  # A lower rate counts as zero


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """The topic of the subscription."""

    name: str
    last_append_ms: int | None
    message_rate_in: float | None
    producers: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Who paused the subscription, when and why. An empty text or a time of 0 means unknown."""

    who: str
    at_ms: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """The latest departure of a consumer."""

    name: str
    address: str
    client_version: str
    at_ms: int
    cause: str  # "closed", "lost", "broker" or "incompatible"
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBlock:
    """The Key_Shared hash slot with the most waiting entries."""

    slot: int
    consumer_key: int  # The consumer that the entries wait for, or 0 if unknown
    consumer_name: str
    waiting_entries: int
    is_draining: bool  # True if the consumer no longer owns the slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The subscription itself."""

    name: str
    type: str  # Empty if no consumer has ever connected
    created_ms: int
    state: str  # "unknown" before the broker's first report
    state_since_ms: int
    drain_s: int | None  # The broker's estimate of the time until the backlog is empty
    pause: Pause | None
    backlog_messages: int
    backlog_bytes: int
    consumers: int | None
    in_flight_messages: int | None
    replay_entries: int | None
    message_rate_out: float | None
    message_rate_acked: float | None
    is_blocked: bool | None  # True if all consumers together have too many unacked messages
    is_rate_limited: bool | None
    gap: str | None  # Says which entries are missing from the log; empty if none are missing
    read_fault: str | None  # Says why the latest read of the log failed; empty if it succeeded
    # The key of the active Failover consumer, or 0. During a switch, the key of the next active consumer.
    active_consumer: int | None
    key_block: KeyBlock | None
    departure: Departure | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A connected consumer and its entries in flight."""

    key: int  # A unique number, because names may repeat
    name: str
    address: str
    client_version: str
    connected_ms: int
    permits: int
    unacked_messages: int
    is_blocked: bool
    is_writable: bool
    last_flow_ms: int
    last_delivery_ms: int
    last_ack_ms: int
    # Time of the oldest unacked delivery. Exclusive and Failover have only the time of the latest delivery.
    oldest_delivered_ms: int
    oldest_position: str  # Position of the oldest entry in flight as ledger:entry, or empty

    @property
    def last_sign_ms(self) -> int:
        """The last time that the consumer connected, asked for messages, got a message or acked a message."""
        return max(self.connected_ms, self.last_flow_ms, self.last_delivery_ms, self.last_ack_ms)

    @property
    def is_available(self) -> bool:
        """Whether the consumer can receive messages now."""
        return self.permits > 0 and self.is_writable and not self.is_blocked


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstUnacked:
    """The oldest entry that is not fully acked."""

    position: str  # Written as ledger:entry
    messages: int
    appended_ms: int
    redelivery_count: int  # Always 0 on an Exclusive or Failover subscription
    consumer_key: int  # The consumer that has the entry in flight, or 0
    consumer_name: str
    # Time of the entry's delivery. Exclusive and Failover have only the time of the consumer's latest delivery.
    delivered_ms: int
    broker_keeps_time: bool  # True if the broker redelivers the entry after an ack timeout


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The subscription's cursor."""

    unacked_entries: int | None  # None if the cursor has too many acked ranges
    unread_entries: int | None  # Unacked entries at or after the read position
    in_flight_entries: int  # A lower bound
    # Unacked entries from mark-delete to the next acked entry, or 0 if no entry after mark-delete is acked.
    first_hole_entries: int
    acked_behind_entries: int  # Acked entries after mark-delete; a lower bound
    first: FirstUnacked | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delayed:
    """Unacked delayed entries that are not due yet."""

    entries: int  # A lower bound if `is_whole` is false
    next_due_ms: int  # 0 if unknown
    is_whole: bool  # Whether all delayed entries of the topic were read


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchRate:
    """A limit on the rate of delivery."""

    policy: str  # Name of the policy, which says whether the rate counts messages or bytes
    per_second: int
    set_on: str  # "topic" or "namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits in force. For the quotas, a negative number means no limit. For other limits, 0 means no limit."""

    unacked_per_consumer: int
    unacked_per_subscription: int
    dispatch_rates: tuple[DispatchRate, ...]
    quota_bytes: int
    quota_ms: int
    quota_policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """The dead-letter topic TOPIC-SUBSCRIPTION-DLQ."""

    topic: str
    messages: int  # Messages published so far
    subscriptions: int
    consumers: int
    # Largest backlog of a durable subscription. For a partitioned topic, the sum of each partition's largest backlog.
    backlog_messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowestCursor:
    """The subscription with the topic's largest backlog in bytes."""

    name: str
    backlog_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OldestSegment:
    """The oldest segment (a pair of tables in PostgreSQL), if it contains the first unacked entry."""

    id: int
    closed_ms: int  # 0 if the segment is still open
    ledgers: int  # Number of ledgers in this segment, from all topics


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """The last signs of life of Vela's processes."""

    broker_host: str  # Empty if no broker has ever run on this database
    broker_seen_ms: int
    beat_seen_ms: int
    worker_seen_ms: int
    tick_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """PostgreSQL's report about its connections."""

    waiting_statements: int
    longest_wait_s: float
    waiting_query: str
    blocking_pid: int  # 0 if unknown
    blocking_program: str
    longest_transaction_s: float  # Includes transactions of other programs
    transaction_pid: int
    transaction_program: str
    transaction_state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The disk with the data folder of the embedded PostgreSQL."""

    folder: str
    free_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything that a rule may read."""

    now_ms: int
    topic: Topic
    subscription: Subscription
    cursor: Cursor
    consumers: tuple[Consumer, ...]  # If there are many consumers, only some of them
    delayed: Delayed | None
    limits: Limits
    dead_letters: DeadLetters | None
    slowest: SlowestCursor | None
    oldest_segment: OldestSegment | None
    processes: Processes
    database: Database | None
    disk: Disk | None

    def seconds_since(self, then_ms: int) -> float:
        """Return the seconds since `then_ms`, or 0 if `then_ms` is in the future."""
        return max(0, self.now_ms - then_ms) / 1000

    def which(self, consumer: Consumer) -> Mapping[str, str | int]:
        """Return the parameters that identify a consumer: its name, or its key if the name is not unique."""
        is_alone = sum(each.name == consumer.name for each in self.consumers) == 1
        return {"consumer": consumer.name} if is_alone else {"consumer_key": consumer.key}

    @property
    def consumers_ack(self) -> bool:
        """Whether the subscription's state or its ack rate says that consumers ack."""
        return self.has_working_state or (self.subscription.message_rate_acked or 0) >= STILL_PER_S

    @property
    def has_working_state(self) -> bool:
        """Whether the subscription's state says that consumers work."""
        return self.subscription.state in ("draining", "keeping up", "falling behind")

    @property
    def ready_entries(self) -> int | None:
        """The number of entries that the broker could send now, or None if unknown."""
        subscription, cursor = self.subscription, self.cursor
        if subscription.replay_entries is None or cursor.unread_entries is None:
            return None
        unsent = cursor.unread_entries + subscription.replay_entries
        if unsent > 0 and self.delayed is not None and not self.delayed.is_whole:
            return None
        delayed = self.delayed.entries if self.delayed else 0
        if cursor.unacked_entries is not None:
            unsent = min(unsent, cursor.unacked_entries - delayed)
        return max(0, unsent)
