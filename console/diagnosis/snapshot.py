"""The snapshot that the rules read: one subscription at one moment, with its topic, its clients and Vela's processes.

Times are Unix milliseconds. None means unknown, and a time of 0 means never, unless a comment says otherwise.
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

STILL_PER_S: Final = 0.05  # a rate of fewer messages per second counts as zero


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """The topic of the subscription."""

    name: str  # full name
    last_append_ms: int | None
    message_rate_in: float | None  # per second, over the last seconds
    producers: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """The act that paused the subscription. All fields are empty or 0 if the act is no longer stored."""

    who: str
    at_ms: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """The consumer that left last."""

    name: str
    address: str
    client_version: str
    at_ms: int
    cause: str  # closed, lost, broker or incompatible
    detail: str  # the reason in words, if the broker closed the consumer or ended; else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBlock:
    """The hash slot of Key_Shared for which the most entries wait."""

    slot: int
    consumer_key: int  # the consumer that these entries wait for; 0 = unknown
    consumer_name: str
    waiting_entries: int
    is_draining: bool  # that consumer does not own the slot any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The subscription's own state."""

    name: str
    type: str  # "" = no consumer has ever attached
    created_ms: int
    state: str  # as the broker judged it; "unknown" = it has not reported yet
    state_since_ms: int
    drain_s: int | None  # estimated seconds until nothing waits; None = no estimate
    pause: Pause | None  # None = it is not paused
    backlog_messages: int  # exact
    backlog_bytes: int
    consumers: int | None
    in_flight_messages: int | None
    replay_entries: int | None
    message_rate_out: float | None  # per second, over the last seconds
    message_rate_acked: float | None
    is_blocked: bool | None  # its consumers together have too many unacked messages
    is_rate_limited: bool | None  # a dispatch rate was used up at the broker's last report
    gap: str | None  # the entries that are missing from the log, in words; "" = none
    read_fault: str | None  # why the latest read of the log failed; "" = it did not
    # Failover: key of the active consumer or, while a switch is due, of the next one. 0 = none, or not Failover.
    active_consumer: int | None
    key_block: KeyBlock | None  # None = unknown, or no entry waits for a key
    departure: Departure | None  # None = no consumer has left


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """One connected consumer and its entries in flight."""

    key: int
    name: str
    address: str
    client_version: str
    connected_ms: int
    permits: int
    unacked_messages: int
    is_blocked: bool  # it has too many unacked messages
    is_writable: bool
    last_flow_ms: int
    last_delivery_ms: int
    last_ack_ms: int
    # When its oldest entry in flight was delivered. On Exclusive and Failover: when its latest message was delivered.
    # 0 = it has none in flight.
    oldest_delivered_ms: int
    oldest_position: str  # ledger:entry of the oldest entry in flight; "" = none, or unknown
    most_redeliveries: int  # the largest redelivery count among its deliveries that were read

    @property
    def last_sign_ms(self) -> int:
        """The last time at which the client connected, asked for messages, got one or acked one."""
        return max(self.connected_ms, self.last_flow_ms, self.last_delivery_ms, self.last_ack_ms)

    @property
    def is_available(self) -> bool:
        """Whether it can receive messages now."""
        return self.permits > 0 and self.is_writable and not self.is_blocked


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstUnacked:
    """The oldest entry that is not completely acked: mark-delete cannot pass it."""

    position: str  # ledger:entry
    messages: int  # 1, or the number of messages in a batch
    appended_ms: int
    redelivery_count: int  # 0 on Exclusive and Failover, which do not count redeliveries
    consumer_key: int  # the consumer that has it in flight; 0 = none has
    consumer_name: str
    # 0 = it is not in flight. On Exclusive and Failover: when the consumer's latest message was delivered.
    delivered_ms: int
    broker_keeps_time: bool  # the broker redelivers it after an ack timeout


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The cursor, counted in entries of the log at this moment."""

    unacked_entries: int | None  # None = the cursor has more acked ranges than were read
    unread_entries: int | None  # unacked, at or after the read position
    in_flight_entries: int  # in the deliveries that were read
    # Unacked entries between mark-delete and the first acked entry; 0 = nothing beyond mark-delete is acked.
    first_hole_entries: int
    acked_behind_entries: int  # acked, but after an unacked entry; only in the ranges that were read
    first: FirstUnacked | None  # None = nothing is unacked, or the entry cannot be read


@dataclass(frozen=True, slots=True, kw_only=True)
class Delayed:
    """Entries that are not acked and not due yet."""

    entries: int  # unless `is_whole`, there may be more
    next_due_ms: int  # 0 = unknown
    is_whole: bool  # whether all of the topic's delayed entries were read


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchRate:
    """A limit on the rate of delivery, and where it is set."""

    policy: str  # its name says whether the rate is in messages or bytes
    per_second: int
    set_on: str  # topic or namespace; the broker has no setting that limits delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits in force. 0 = no limit; for the two quotas, a negative number = no limit."""

    unacked_per_consumer: int
    unacked_per_subscription: int
    dispatch_rates: tuple[DispatchRate, ...]
    quota_bytes: int
    quota_ms: int
    quota_policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """The dead-letter topic with the usual name, with totals over its partitions."""

    topic: str  # full name
    messages: int  # published to it so far
    subscriptions: int  # counted on each partition
    consumers: int
    backlog_messages: int  # the sum of each partition's largest backlog


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowestCursor:
    """The topic's subscription with the largest backlog in bytes."""

    name: str
    backlog_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OldestSegment:
    """The oldest segment that is not long-lived, if the subscription's first unacked entry is in it."""

    id: int
    closed_ms: int  # 0 = it is still open
    ledgers: int  # in this segment, of all topics


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """The last signs of life of the broker, Celery beat and its tick worker, and the period of the ticks."""

    broker_host: str  # "" = no broker ever ran on this database
    broker_seen_ms: int
    beat_seen_ms: int
    worker_seen_ms: int
    tick_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """PostgreSQL's report about its connections."""

    waiting_statements: int  # statements of Vela that wait for a lock
    longest_wait_s: float
    waiting_query: str  # the beginning of the one that waits longest, without its literals
    blocking_pid: int  # the connection that has the lock; 0 = unknown
    blocking_program: str
    longest_transaction_s: float  # of any connection to this database
    transaction_pid: int
    transaction_program: str
    transaction_state: str  # for example active, or idle in transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The disk with the folder of the embedded PostgreSQL."""

    folder: str
    free_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that a rule may read."""

    now_ms: int
    topic: Topic
    subscription: Subscription
    cursor: Cursor
    consumers: tuple[Consumer, ...]  # the first ones by name
    delayed: Delayed | None  # None = no entry is delayed, or delivery times do not count on the subscription
    limits: Limits
    dead_letters: DeadLetters | None  # None = there is no such topic
    slowest: SlowestCursor | None
    oldest_segment: OldestSegment | None  # None = the first unacked entry is in another segment, or unknown
    processes: Processes
    database: Database | None  # None = the console's database role may not see it
    disk: Disk | None  # None = the database is not the embedded one, or its folder cannot be read

    def seconds_since(self, then_ms: int) -> float:
        """Return how long ago a time was, at least 0."""
        return max(0, self.now_ms - then_ms) / 1000

    def which(self, consumer: Consumer) -> Mapping[str, str | int]:
        """Return the parameters of an act on this consumer: its name, or its number if others have the same name."""
        is_alone = sum(each.name == consumer.name for each in self.consumers) == 1
        return {"consumer": consumer.name} if is_alone else {"consumer_key": consumer.key}

    @property
    def is_draining_at_all(self) -> bool:
        """Whether consumers ack. If they ack seldom, only the state shows it, not the rate."""
        return self.has_working_state or (self.subscription.message_rate_acked or 0) >= STILL_PER_S

    @property
    def has_working_state(self) -> bool:
        """Whether the state says that consumers work. Their acks may be minutes apart."""
        return self.subscription.state in ("draining", "keeping up", "falling behind")

    @property
    def ready_entries(self) -> int | None:
        """Entries that the broker could send now: unread or to replay, and due. None = unknown."""
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
