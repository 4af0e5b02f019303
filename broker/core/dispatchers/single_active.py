"""The dispatcher of Exclusive, and the base of the Failover dispatcher."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker.core.dispatchers.base import (
    Assignment,
    Deliverable,
    DispatchConsumer,
    E,
    ReadKind,
    ReadPlan,
    ReadSizer,
)
from broker.core.dispatchers.sticky_ranges import StickyRanges
from broker.core.hash_slots import slot_of_position
from broker.core.position import EARLIEST, Position
from broker.core.subscription.delivery_times import DeliveryTimes
from broker.core.subscription.types import SubscriptionType, check_attach


class SingleActiveDispatcher:
    """Sends entries to one consumer, and keeps no pending acks and no redelivery counts.

    A redelivery is a rewind: every unacked entry after the mark-delete position is sent again, in order.
    """

    def __init__(self, *, max_read_entries: int = 100) -> None:
        self._active: DispatchConsumer | None = None
        self._ranges: StickyRanges | None = None  # Hash ranges that the consumer asked for, if any
        self._plan: ReadPlan | None = None
        self._sizer = ReadSizer(max_read_entries)
        # Highest position sent since the last rewind. Acks of higher positions belong to deliveries before the rewind.
        self._sent_through = EARLIEST
        self._times = DeliveryTimes()

    @property
    def consumers(self) -> Sequence[DispatchConsumer]:
        return [self._active] if self._active is not None else []

    @property
    def active(self) -> DispatchConsumer | None:
        return self._active

    @property
    def due_ms(self) -> int | None:
        return None

    @property
    def unacked_messages(self) -> int:
        return self._active.unacked_messages if self._active is not None else 0

    @property
    def blocked(self) -> bool:
        """Always False, because the limits on unacked messages apply to Shared and Key_Shared only."""
        return False

    @property
    def replay_entries(self) -> int:
        return 0

    @property
    def replays_unassigned(self) -> bool:
        return False

    def attach(self, consumer: DispatchConsumer, wanted: SubscriptionType, now_ms: int = 0) -> bool:
        check_attach(wanted, current=SubscriptionType.EXCLUSIVE, consumers=len(self.consumers))
        self._ranges = _ranges_of(consumer)
        self._active = consumer
        self._rewind()
        return True

    def detach(self, consumer: DispatchConsumer, now_ms: int = 0) -> list[Position]:
        if consumer is self._active:
            self._rewind()
            self._active = None
        return []

    def run_due(self, now_ms: int) -> bool:
        return False

    def flow(self, consumer: DispatchConsumer, messages: int) -> None:
        consumer.flow(messages)

    def limit_unacked(self, *, per_subscription: int, per_consumer: int) -> None:
        """Do nothing: the limits apply to Shared and Key_Shared only."""

    def can_send(self) -> bool:
        return self._active is not None and self._active.permits.balance > 0 and self._active.writable

    def next_read(self) -> ReadPlan | None:
        self._plan = None
        if self._active is not None and self.can_send():
            entries = self._sizer.entries_for(self._active.permits.balance)
            self._plan = ReadPlan(kind=ReadKind.NORMAL, max_entries=entries)
        return self._plan

    def is_current(self, plan: ReadPlan) -> bool:
        return plan is self._plan

    def assign(
        self, entries: Sequence[E], plan: ReadPlan, now_ms: int = 0
    ) -> tuple[list[Assignment[E]], list[E]]:
        consumer = self._active
        if plan is not self._plan or consumer is None:
            return [], []
        self._plan = None
        taken: list[E] = []
        balance = consumer.permits.balance if consumer.writable else 0
        spent = 0
        looked_at = 0
        for entry in entries:
            if spent >= balance:
                break
            looked_at += 1
            if self._wants(entry):
                spent += entry.messages_remaining
                taken.append(entry)
        left = list(entries[looked_at:])
        if not taken:
            return [], left
        consumer.permits.spend(spent)
        consumer.unacked_messages += spent
        if taken[-1].position > self._sent_through:
            self._sent_through = taken[-1].position
            self._times.add(self._sent_through, spent, now_ms)
        self._sizer.observe(len(taken), spent)
        return [Assignment(consumer=consumer, entries=taken)], left

    def _wants(self, entry: Deliverable) -> bool:
        """Return whether the consumer asked for the entry's hash slot. Unwanted entries stay unacked."""
        if self._ranges is None:
            return True
        return self._ranges.select(entry.slot or slot_of_position(entry.position)) is not None

    def redeliver(self, consumer: DispatchConsumer, positions: Iterable[Position] | None) -> bool:
        if consumer is not self._active:
            return False
        self._rewind()
        return True

    def has_pending(self, consumer: DispatchConsumer, position: Position) -> bool:
        return consumer is self._active and position <= self._sent_through

    def is_pending(self, position: Position) -> bool:
        return self._active is not None and position <= self._sent_through

    def acked(
        self, position: Position, messages: int, completed: bool, consumer: DispatchConsumer | None = None
    ) -> int:
        if self._active is None or position > self._sent_through:
            return 0
        self._active.unacked_messages = max(0, self._active.unacked_messages - messages)
        return self._times.acked(position, messages)

    def acked_through(self, position: Position, messages: int) -> Sequence[tuple[int, int]]:
        if self._active is None:
            return ()
        if position <= self._sent_through:
            self._active.unacked_messages = max(0, self._active.unacked_messages - messages)
        return self._times.acked_through(position, messages)

    def discard(self, position: Position) -> None:
        """Do nothing: this dispatcher does not record single entries."""

    def postpone(self, position: Position) -> None:
        """Do nothing: dispatch stops at an entry that must wait, and reads it again later."""

    def replay(self, positions: Iterable[Position]) -> None:
        """Do nothing: this dispatcher has no replay set."""

    def upcoming_replays(self, limit: int) -> list[Position]:
        return []

    def redelivery_count(self, position: Position) -> int:
        return 0

    def moved(self, mark_delete: Position) -> None:
        """Drop the read plan.

        If the mark-delete position has reached the last entry sent, set the unacked count to 0.
        """
        self._plan = None
        self._times.forget_through(mark_delete)
        if self._active is not None and mark_delete >= self._sent_through:
            self._active.unacked_messages = 0

    def _rewind(self) -> None:
        self._plan = None
        self._sent_through = EARLIEST
        self._times.clear()
        if self._active is not None:
            self._active.unacked_messages = 0


def _ranges_of(consumer: DispatchConsumer) -> StickyRanges | None:
    policy = consumer.key_shared
    if not policy.sticky or not policy.ranges:
        return None
    ranges = StickyRanges()
    ranges.add(consumer)
    return ranges
