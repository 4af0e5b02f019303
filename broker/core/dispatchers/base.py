"""The interface of all dispatchers, and the parts that they share.

The dispatch loop (broker/subscription/machine/sending.py) calls `next_read()`, looks for the plan's entries in memory,
and passes those that may be sent to `assign(…, plan)`. If entries must be read first, it asks for a new plan after the
read. A plan that is no longer current (`is_current` is False) assigns nothing, and its entries are not lost.
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
    """An entry as dispatchers see it. Assignments contain the same objects that the dispatch loop passed in."""

    @property
    def position(self) -> Position: ...
    @property
    def messages_remaining(self) -> int:
        """The number of unacked messages. The delivery costs this many permits."""

    @property
    def chunk_uuid(self) -> str | None:
        """The uuid of the large message of which this entry is a chunk; None = it is not a chunk."""

    @property
    def last_chunk(self) -> bool: ...

    @property
    def slot(self) -> int:
        """The entry's hash slot; 0 = its position decides."""


class ReadEntry(NamedTuple):
    """The simplest Deliverable."""

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
    """The entries to read next. Compared by identity: two plans are never equal."""

    kind: ReadKind
    max_entries: int
    positions: tuple[Position, ...] = ()  # REPLAY: the entries to read, ascending


@dataclass(slots=True, kw_only=True, eq=False)
class DispatchConsumer:
    """A connected consumer. Compared by identity."""

    key: int  # > 0 and unique
    name: str
    priority: int = 0  # on Shared and Failover, the lowest is served first
    max_unacked: int = 0  # messages, 0 = unlimited; Shared and Key_Shared only
    key_shared: KeySharedPolicy = AUTO_SPLIT  # for Key_Shared; Exclusive uses its sticky ranges too
    writable: bool = True  # whether its connection can take more
    permits: Permits = field(default_factory=Permits)
    pending: PendingAcks = field(default_factory=PendingAcks)
    unacked_messages: int = 0
    # Too many messages are unacked: nothing is sent, and grants are set aside, until few enough are left.
    blocked: bool = False

    @property
    def available(self) -> bool:
        """Whether entries may be sent to the consumer. A consumer that is not writable counts as having no permits."""
        return self.permits.balance > 0 and self.writable and not self.blocked

    def flow(self, messages: int) -> None:
        """Grant permits, or set them aside while blocked. Raises InvalidFlow if `messages` is below 1."""
        if self.blocked:
            self.permits.set_aside(messages)
        else:
            self.permits.grant(messages)

    def charge(self, messages: int) -> None:
        """Count `messages` that are being sent."""
        self.permits.spend(messages)
        self.unacked_messages += messages
        if self.max_unacked and self.unacked_messages >= self.max_unacked:
            self.blocked = True

    def credit(self, messages: int) -> None:
        """Stop counting `messages` as unacked, and unblock the consumer if few enough are left."""
        self.unacked_messages -= messages
        if self.blocked and self.unacked_messages <= self.max_unacked // 2:
            self.unblock()

    def limit_unacked(self, messages: int) -> None:
        """Change the limit on unacked messages; 0 = no limit."""
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
    """The entries for one consumer in one write, in order. Their permits are spent.

    On Shared and Key_Shared they are recorded as pending.
    """

    consumer: DispatchConsumer
    entries: list[E]


class Dispatcher(Protocol):
    """One subscription's consumers and their pending entries."""

    @property
    def consumers(self) -> Sequence[DispatchConsumer]: ...

    @property
    def active(self) -> DispatchConsumer | None:
        """On Exclusive and Failover, the consumer to serve once `due_ms` is None, if any. None on other types."""

    @property
    def due_ms(self) -> int | None:
        """The time at which to call `run_due`, in Unix milliseconds; None = no call is needed."""

    @property
    def unacked_messages(self) -> int:
        """Messages delivered and not acked, over all consumers."""

    @property
    def blocked(self) -> bool:
        """Whether the subscription's own limit on unacked messages stops normal reads."""

    @property
    def replay_entries(self) -> int:
        """Number of entries in the replay set, or being read from it."""

    @property
    def replays_unassigned(self) -> bool:
        """Whether `assign` puts the entries that it does not assign into the replay set.

        If not, the caller sets the read position to the first of them.
        """

    def attach(self, consumer: DispatchConsumer, wanted: SubscriptionType, now_ms: int = 0) -> bool:
        """Add a consumer that asks for type `wanted`.

        Returns True for the first consumer; the caller then sets the read position to the entry after mark-delete.
        Raises SubscriptionBusy or ConsumerBusy as `check_attach` does, and ConsumerAssignFailed if the consumer cannot
        have its hash ranges. An error leaves everything unchanged.
        """

    def detach(self, consumer: DispatchConsumer, now_ms: int = 0) -> list[Position]:
        """Remove a consumer and return the positions that were pending at it, ascending. Safe to repeat.

        Exclusive and Failover do not record pending entries, so they return none.
        """

    def run_due(self, now_ms: int) -> bool:
        """Carry out the Failover switch that is due, if any. Safe to repeat.

        Returns True if a consumer has become active. The caller then sets the read position to the entry after
        mark-delete, tells all consumers which one is active, and starts to send.
        """

    def flow(self, consumer: DispatchConsumer, messages: int) -> None:
        """Grant permits from a client, or set them aside while the consumer is blocked.

        Raises InvalidFlow if `messages` is below 1.
        """

    def limit_unacked(self, *, per_subscription: int, per_consumer: int) -> None:
        """Change the limits on unacked messages; 0 = no limit. Exclusive and Failover have none."""

    def can_send(self) -> bool:
        """Return whether entries may be sent to at least one consumer."""

    def next_read(self) -> ReadPlan | None:
        """Return the next read, or None if nothing could be sent. Replaces a plan that is not assigned yet."""

    def is_current(self, plan: ReadPlan) -> bool:
        """Return whether the plan can still be assigned.

        False after it was assigned or replaced, after a rewind or a move of the cursor, and after the last consumer
        left. On Key_Shared, also after any consumer left or asked for redelivery.
        """

    def assign(
        self, entries: Sequence[E], plan: ReadPlan, now_ms: int = 0
    ) -> tuple[list[Assignment[E]], list[E]]:
        """Assign the entries that `plan` read, in order. Return the assignments and the entries left over.

        On Shared and Key_Shared the entries left over are in the replay set already. On Exclusive and Failover the
        caller sets the read position to the first of them. A plan that is not current gives ([], []). The call ends the
        plan: positions of a REPLAY plan that are not among `entries` go back to the replay set, unless `acked`,
        `discard` or `postpone` removed them. `now_ms` is the time of delivery, which `acked` returns.
        """

    def redeliver(self, consumer: DispatchConsumer, positions: Iterable[Position] | None) -> bool:
        """Take `positions` back from a consumer that asks for redelivery; None = everything pending at it.

        Exclusive and Failover ignore `positions`: they take everything back from the active consumer.
        Returns True if the caller must set the read position to the entry after mark-delete. Returns False if the
        entries are in the replay set, or if the consumer is not active on Exclusive or Failover.
        """

    def has_pending(self, consumer: DispatchConsumer, position: Position) -> bool:
        """Return whether the entry is pending at `consumer`.

        On Exclusive and Failover, every entry up to the last one sent counts, even an acked one.
        """

    def is_pending(self, position: Position) -> bool:
        """Return whether the entry is pending at any consumer, in the sense of `has_pending`."""

    def acked(
        self, position: Position, messages: int, completed: bool, consumer: DispatchConsumer | None = None
    ) -> int:
        """Record an ack that the cursor accepted, with `messages` newly acked. `completed`: the whole entry is acked.

        Credits the consumer at which the entry is pending, whichever consumer acked; `consumer` is checked first.
        Returns the time of delivery, in Unix milliseconds; 0 = not known.
        """

    def acked_through(self, position: Position, messages: int) -> Sequence[tuple[int, int]]:
        """Record a cumulative ack that the cursor accepted up to `position`, with `messages` newly acked.

        Returns pairs of a time of delivery, in Unix milliseconds, and the number of messages delivered then. Leaves out
        messages whose time is not known. Raises NotAllowed on Shared and Key_Shared.
        """

    def discard(self, position: Position) -> None:
        """Forget an entry that no consumer gets any more, such as a trimmed one, or one that an act skipped.

        Credits no consumer.
        """

    def postpone(self, position: Position) -> None:
        """Leave out an entry that was read but must not be sent yet. Its redelivery count does not change.

        The caller passes the entry to `replay` when it can be sent.
        """

    def replay(self, positions: Iterable[Position]) -> None:
        """Put these entries into the replay set, except those that are pending or being read.

        Has no effect on Exclusive and Failover, which keep the order.
        """

    def upcoming_replays(self, limit: int) -> list[Position]:
        """Return positions that later REPLAY plans may ask for, ascending, so that they can be read together."""

    def redelivery_count(self, position: Position) -> int: ...

    def moved(self, mark_delete: Position) -> None:
        """Forget the entries at or below `mark_delete` that are pending or in the replay set, and drop the plan.

        Call it after a move of the cursor; acks need no such call. Linear in the pending and waiting entries.
        """


class ReadSizer:
    """Estimates how many entries to read for a number of messages. Uses a moving average: 0.9 old and 0.1 new."""

    __slots__ = ("average_messages", "max_read_entries")

    def __init__(self, max_read_entries: int) -> None:
        self.max_read_entries = max_read_entries
        self.average_messages = 1.0  # messages per entry

    def entries_for(self, messages: int) -> int:
        """Return how many entries to read for `messages` messages: at least 1, at most `max_read_entries`."""
        return max(1, min(self.max_read_entries, int(-(-messages // self.average_messages))))

    def observe(self, entries: int, messages: int) -> None:
        if entries:
            self.average_messages = max(1.0, 0.9 * self.average_messages + 0.1 * messages / entries)
