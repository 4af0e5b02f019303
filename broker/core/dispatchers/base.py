"""What dispatchers of every type have in common, and what the service may ask of them.

The service's loop: `next_read()`, read the entries of the plan, drop what is acked or filtered by then,
`assign(…, plan)` in the same step, write. Everything here is synchronous; only the read lies between plan
and assign. A plan that was overtaken meanwhile (`is_current` is False) assigns nothing and loses nothing:
the read position must then be left as whoever overtook it set it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, NamedTuple, Protocol, TypeVar

from broker.core.dispatchers.key_shared_policy import AUTO_SPLIT, KeySharedPolicy
from broker.core.dispatchers.pending_acks import PendingAcks
from broker.core.dispatchers.permits import Permits
from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType


class Deliverable(Protocol):
    """An entry as dispatchers see it; the service may pass its own objects, which come back in
    assignments.
    """

    @property
    def position(self) -> Position: ...
    @property
    def messages_remaining(self) -> int:
        """Messages not acked yet: what its delivery costs in permits (semantics 3.5)."""

    @property
    def chunk_uuid(self) -> str | None:
        """Of a chunk of a large message: all chunks of one uuid go to one consumer."""

    @property
    def last_chunk(self) -> bool: ...

    @property
    def slot(self) -> int:
        """Key_Shared, and Exclusive with hash ranges: the hash slot of its key; 0 = it has none."""


class ReadEntry(NamedTuple):
    """The plain Deliverable."""

    position: Position
    messages_remaining: int
    chunk_uuid: str | None = None
    last_chunk: bool = False
    slot: int = 0


E = TypeVar("E", bound=Deliverable)


class ReadKind(Enum):
    REPLAY = "replay"
    NORMAL = "normal"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadPlan:
    """What to read next. Compared by identity: two plans are never the same."""

    kind: ReadKind
    max_entries: int
    positions: tuple[Position, ...] = ()  # REPLAY: what to read, ascending


@dataclass(slots=True, kw_only=True, eq=False)
class DispatchConsumer:
    """A connected consumer. Compared by identity. `writable` is the transport's; the rest is changed by
    dispatchers.
    """

    key: int  # > 0, of no other consumer
    name: str
    priority: int = 0  # 0 is best
    max_unacked: int = 0  # messages, 0 = unlimited; Shared and Key_Shared only
    key_shared: KeySharedPolicy = AUTO_SPLIT  # Key_Shared; on Exclusive its sticky ranges count
    writable: bool = True
    permits: Permits = field(default_factory=Permits)
    pending: PendingAcks = field(default_factory=PendingAcks)
    unacked_messages: int = 0
    blocked: bool = False  # on unacked: no sends, flows kept aside, until half of max_unacked (semantics 3.6)

    @property
    def available(self) -> bool:
        """May be sent to: not writable counts as having no permits."""
        return self.permits.balance > 0 and self.writable and not self.blocked

    def flow(self, messages: int) -> None:
        """Grant permits; kept aside while blocked. Raises InvalidFlow for less than 1."""
        if self.blocked:
            self.permits.hold(messages)
        else:
            self.permits.grant(messages)

    def charge(self, messages: int) -> None:
        """`messages` are being sent."""
        self.permits.spend(messages)
        self.unacked_messages += messages
        if self.max_unacked and self.unacked_messages >= self.max_unacked:
            self.blocked = True

    def credit(self, messages: int) -> None:
        """`messages` are not unacked here any more."""
        self.unacked_messages -= messages
        if self.blocked and self.unacked_messages <= self.max_unacked // 2:
            self.unblock()

    def limit_unacked(self, messages: int) -> None:
        """Another limit from now on, 0 = none."""
        self.max_unacked = messages
        if self.blocked and (not messages or self.unacked_messages <= messages // 2):
            self.unblock()
        elif messages and self.unacked_messages >= messages:
            self.blocked = True

    def unblock(self) -> None:
        self.blocked = False
        self.permits.apply_held()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment(Generic[E]):
    """What one consumer is to be sent in one write, in this order. Permits are spent, pending acks
    recorded.
    """

    consumer: DispatchConsumer
    entries: list[E]


class Dispatcher(Protocol):
    """One subscription's consumers and what they hold."""

    @property
    def consumers(self) -> Sequence[DispatchConsumer]: ...

    @property
    def active(self) -> DispatchConsumer | None:
        """Exclusive and Failover: the one that gets everything, once nothing is due; None on other types."""

    @property
    def due_ms(self) -> int | None:
        """When `run_due` has something to do; None = nothing waits for a time."""

    @property
    def unacked_messages(self) -> int:
        """Delivered and not acked, over all consumers."""

    @property
    def blocked(self) -> bool:
        """Whether the subscription's own unacked limit stops normal reads."""

    @property
    def replay_entries(self) -> int:
        """Entries waiting to be delivered again."""

    @property
    def replays_unassigned(self) -> bool:
        """What `assign` returns is in the replay set already; else set the read position to its first
        entry.
        """

    def attach(self, consumer: DispatchConsumer, wanted: SubscriptionType, now_ms: int = 0) -> bool:
        """Add a consumer that asks for type `wanted`. True: it is the first, so set the read position to the
        entry after mark-delete. Raises as `check_attach`: NotAllowed, SubscriptionBusy, ConsumerBusy; and on
        Key_Shared ConsumerAssignFailed. Nothing is changed then.
        """

    def detach(self, consumer: DispatchConsumer, now_ms: int = 0) -> list[Position]:
        """Remove a consumer; returns what it held, ascending. Safe to repeat."""

    def run_due(self, now_ms: int) -> bool:
        """Do what waited for this time: a Failover switch. Safe to repeat.

        True: another consumer is active by now, so set the read position to the entry after mark-delete, tell
        everybody, then send.
        """

    def flow(self, consumer: DispatchConsumer, messages: int) -> None:
        """Permits from a client; kept aside while the consumer is blocked. Raises InvalidFlow for less
        than 1.
        """

    def limit_unacked(self, *, per_subscription: int, per_consumer: int) -> None:
        """Other limits on unacked messages from now on, 0 = none (semantics 3.6); single-active types have none."""

    def can_send(self) -> bool:
        """Whether any consumer may be sent to."""

    def next_read(self) -> ReadPlan | None:
        """What to read now; None when nothing could be sent. A plan not yet assigned is given up for the
        new one.
        """

    def is_current(self, plan: ReadPlan) -> bool:
        """False once the plan was assigned, or overtaken by another, a rewind, or the last consumer's
        leaving.
        """

    def assign(
        self, entries: Sequence[E], plan: ReadPlan, now_ms: int = 0
    ) -> tuple[list[Assignment[E]], list[E]]:
        """Give entries, read by `plan` and in order, to consumers; the rest is returned.

        On Shared and Key_Shared the rest is in the replay set already; on Exclusive and Failover set the read
        position to its first entry. A plan that is not current gives ([], []). Ends the plan: of a REPLAY plan,
        positions without an entry here go back to the replay set unless `acked` or `discard` took them. `now_ms` is
        kept with each pending ack, for those who ask how long it has been held.
        """

    def redeliver(self, consumer: DispatchConsumer, positions: Iterable[Position] | None) -> bool:
        """A consumer asks for `positions`, or for all that it holds (None), again (semantics 3.7).

        True: set the read position to the entry after mark-delete. False: what it held is in the replay set.
        """

    def holds(self, consumer: DispatchConsumer, position: Position) -> bool:
        """Whether `consumer` was sent the entry and has not acked it."""

    def is_pending(self, position: Position) -> bool:
        """Whether any consumer holds the entry."""

    def acked(
        self, position: Position, messages: int, completed: bool, consumer: DispatchConsumer | None = None
    ) -> None:
        """The cursor took an ack: `messages` newly acked, `completed` when the entry is wholly acked.

        The one who holds it is credited, whoever acked; `consumer`, who acked, is looked at first.
        """

    def acked_through(self, mark_delete: Position, messages: int) -> None:
        """The cursor took a cumulative ack: `messages` newly acked. Clients may not on Shared (S4.5)."""

    def discard(self, position: Position) -> None:
        """The broker itself acked an entry that nobody shall get (S1.2, S1.3): forget it, credit nobody."""

    def postpone(self, position: Position) -> None:
        """What was read is not to be sent now (S1.4, S1.7): it waits outside, its count kept, until `replay`."""

    def replay(self, positions: Iterable[Position]) -> None:
        """Send these before normal reads; what is pending or being read stays as it is. Not where order is kept."""

    def upcoming_replays(self, limit: int) -> list[Position]:
        """What the next replay plans will ask for, as far as permits go, ascending: worth reading together."""

    def redelivery_count(self, position: Position) -> int: ...

    def moved(self, mark_delete: Position) -> None:
        """An act or a seek moved mark-delete: drop what is pending or to be replayed at or below (design 9).

        Linear in what is pending; acks need no such call.
        """


class ReadSizer:
    """Entries to read for a number of messages: a moving average, 0.9 old and 0.1 new (semantics 3.5)."""

    __slots__ = ("average_messages", "max_read_entries")

    def __init__(self, max_read_entries: int) -> None:
        self.max_read_entries = max_read_entries
        self.average_messages = 1.0  # messages an entry

    def entries_for(self, messages: int) -> int:
        """At least 1, at most `max_read_entries`."""
        return max(1, min(self.max_read_entries, int(-(-messages // self.average_messages))))

    def observe(self, entries: int, messages: int) -> None:
        if entries:
            self.average_messages = max(1.0, 0.9 * self.average_messages + 0.1 * messages / entries)
