"""The interface of all dispatchers, and the parts that they share.

The dispatch loop asks `next_read` for a plan, finds the entries of the plan, and passes the entries to `assign`.
`assign` ignores a plan that is no longer current. The replay set has entries that lie before the read position but
still have to be sent.
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
    """The part of an entry that dispatchers use."""

    @property
    def position(self) -> Position: ...
    @property
    def messages_remaining(self) -> int:
        """The number of unacked messages. Each of these messages costs one permit."""

    @property
    def chunk_uuid(self) -> str | None:
        """The uuid of the chunked message, or None if the entry is not a chunk."""

    @property
    def last_chunk(self) -> bool: ...

    @property
    def slot(self) -> int:
        """The hash slot of the entry. If 0, dispatchers compute the slot from the position."""


class ReadEntry(NamedTuple):
    """The simplest `Deliverable`."""

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
    """The entries to read next."""

    kind: ReadKind
    max_entries: int
    positions: tuple[Position, ...] = ()  # In ascending order; always empty in a NORMAL plan


@dataclass(slots=True, kw_only=True, eq=False)
class DispatchConsumer:
    """A connected consumer."""

    key: int  # Positive and unique
    name: str
    priority: int = 0  # Shared and Failover serve the lowest number first
    max_unacked: int = 0  # 0 means no limit
    key_shared: KeySharedPolicy = AUTO_SPLIT
    writable: bool = True
    permits: Permits = field(default_factory=Permits)
    pending: PendingAcks = field(default_factory=PendingAcks)
    unacked_messages: int = 0
    blocked: bool = False  # Whether too many messages are unacked

    @property
    def available(self) -> bool:
        """Whether entries may be sent to the consumer."""
        return self.permits.balance > 0 and self.writable and not self.blocked

    def flow(self, messages: int) -> None:
        """Grant permits, or set them aside for a blocked consumer. Raises InvalidFlow if `messages` is below 1."""
        if self.blocked:
            self.permits.set_aside(messages)
        else:
            self.permits.grant(messages)

    def charge(self, messages: int) -> None:
        """Spend permits, and count the messages as unacked."""
        self.permits.spend(messages)
        self.unacked_messages += messages
        if self.max_unacked and self.unacked_messages >= self.max_unacked:
            self.blocked = True

    def credit(self, messages: int) -> None:
        """Count messages as acked. Unblock the consumer when its unacked messages fall to half the limit."""
        self.unacked_messages -= messages
        if self.blocked and self.unacked_messages <= self.max_unacked // 2:
            self.unblock()

    def limit_unacked(self, messages: int) -> None:
        """Change the limit on unacked messages."""
        self.max_unacked = messages
        if self.blocked and (not messages or self.unacked_messages <= messages // 2):
            self.unblock()
        elif messages and self.unacked_messages >= messages:
            self.blocked = True

    def unblock(self) -> None:
        self.blocked = False
        self.permits.grant_aside()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment(Generic[E]):
    """The entries that one write sends to one consumer, in order."""

    consumer: DispatchConsumer
    entries: list[E]


class Dispatcher(Protocol):
    """The consumers of one subscription and their pending entries.

    If `attach`, `run_due` or `redeliver` returns True, the caller must set the read position to the entry after
    mark-delete.
    """

    @property
    def consumers(self) -> Sequence[DispatchConsumer]: ...

    @property
    def active(self) -> DispatchConsumer | None:
        """The active consumer of Exclusive or Failover. This consumer gets no entries before `due_ms`."""

    @property
    def due_ms(self) -> int | None:
        """When to call `run_due`, in Unix ms, or None if no call is needed."""

    @property
    def unacked_messages(self) -> int:
        """The number of unacked messages of all consumers."""

    @property
    def blocked(self) -> bool:
        """Whether normal reads are stopped because too many messages are unacked."""

    @property
    def replay_entries(self) -> int:
        """The number of entries in the replay set and in the current REPLAY plan."""

    @property
    def replays_unassigned(self) -> bool:
        """Whether `assign` puts leftover entries into the replay set.

        If False, the caller must set the read position to the first leftover entry.
        """

    def attach(self, consumer: DispatchConsumer, wanted: SubscriptionType, now_ms: int = 0) -> bool:
        """Add a consumer. Return whether it is the first consumer.

        `wanted` is the subscription type that the consumer asks for. Raises ConsumerAssignFailed if the consumer cannot
        have its hash ranges. After an error, nothing has changed.
        """

    def detach(self, consumer: DispatchConsumer, now_ms: int = 0) -> list[Position]:
        """Remove a consumer and return its pending positions in ascending order. Safe to repeat."""

    def run_due(self, now_ms: int) -> bool:
        """Carry out a Failover switch that is due. Return whether a consumer became active. Safe to repeat."""

    def flow(self, consumer: DispatchConsumer, messages: int) -> None:
        """Grant permits, or set them aside for a blocked consumer. Raises InvalidFlow if `messages` is below 1."""

    def limit_unacked(self, *, per_subscription: int, per_consumer: int) -> None:
        """Change the limits on unacked messages. 0 means no limit."""

    def can_send(self) -> bool:
        """Return whether entries may be sent to at least one consumer."""

    def next_read(self) -> ReadPlan | None:
        """Return a new plan, or None if nothing can be sent. Any earlier plan is dropped."""

    def is_current(self, plan: ReadPlan) -> bool:
        """Return whether the plan can still be assigned."""

    def assign(
        self, entries: Sequence[E], plan: ReadPlan, now_ms: int = 0
    ) -> tuple[list[Assignment[E]], list[E]]:
        """Assign the entries of `plan`, in order. Return the assignments and the leftover entries.

        Positions of a REPLAY plan that are missing from `entries` go back to the replay set, unless `acked`, `discard`
        or `postpone` has removed them.
        """

    def redeliver(self, consumer: DispatchConsumer, positions: Iterable[Position] | None) -> bool:
        """Take entries back from a consumer that asks for redelivery. If `positions` is None, take back everything.

        Exclusive and Failover always take back everything, but ignore a consumer that is not active.
        """

    def has_pending(self, consumer: DispatchConsumer, position: Position) -> bool:
        """Return whether the entry is pending at `consumer`.

        On Exclusive and Failover, every entry up to the last sent entry counts as pending, even an acked entry.
        """

    def is_pending(self, position: Position) -> bool:
        """Return whether the entry is pending at any consumer."""

    def acked(
        self, position: Position, messages: int, completed: bool, consumer: DispatchConsumer | None = None
    ) -> int:
        """Record an ack that the cursor accepted. Return the time of delivery in Unix milliseconds, or 0 if unknown.

        `completed` means that the whole entry is acked. The ack lowers the unacked count of the consumer at which the
        entry is pending, even if another consumer acked.
        """

    def acked_through(self, position: Position, messages: int) -> Sequence[tuple[int, int]]:
        """Record a cumulative ack that the cursor accepted.

        Returns delivery times in Unix milliseconds, each with its number of messages. Leaves out messages whose
        delivery time is unknown. Raises NotAllowed on Shared and Key_Shared.
        """

    def discard(self, position: Position) -> None:
        """Forget an entry that was trimmed or skipped. The unacked counts stay the same."""

    def postpone(self, position: Position) -> None:
        """Remove an entry from the plan and the replay set, because the entry must not be sent yet.

        Keeps the redelivery count. Once the entry may be sent, the caller passes it to `replay`.
        """

    def replay(self, positions: Iterable[Position]) -> None:
        """Put entries into the replay set, except pending entries and entries of the current plan."""

    def upcoming_replays(self, limit: int) -> list[Position]:
        """Return positions that later REPLAY plans may contain, in ascending order."""

    def redelivery_count(self, position: Position) -> int: ...

    def moved(self, mark_delete: Position) -> None:
        """Forget all entries at or below `mark_delete`, and drop the plan.

        Call this method when something other than an ack has moved the cursor.
        """


class ReadSizer:
    """Estimates how many entries to read for a number of messages."""

    __slots__ = ("average_messages", "max_read_entries")

    def __init__(self, max_read_entries: int) -> None:
        self.max_read_entries = max_read_entries
        self.average_messages = 1.0  # Messages per entry

    def entries_for(self, messages: int) -> int:
        """Return how many entries to read, at least 1."""
        return max(1, min(self.max_read_entries, int(-(-messages // self.average_messages))))

    def observe(self, entries: int, messages: int) -> None:
        if entries:
            self.average_messages = max(1.0, 0.9 * self.average_messages + 0.1 * messages / entries)
