"""The parts that Shared and Key_Shared have in common: pending acks, replay, redelivery counts, limits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from broker.core.dispatchers.base import (
    Assignment,
    DispatchConsumer,
    E,
    ReadKind,
    ReadPlan,
    ReadSizer,
)
from broker.core.dispatchers.replay_queues import ReplayQueues
from broker.core.errors import NotAllowed
from broker.core.position import Position
from broker.core.subscription.redelivery import RedeliveryCounts
from broker.core.subscription.types import SubscriptionType, check_attach

__all__ = ["LOOK_AHEAD_PER_CONSUMER", "LOOK_AHEAD_PER_SUBSCRIPTION", "MultipleActiveDispatcher"]

LOOK_AHEAD_PER_CONSUMER: Final = 2000
LOOK_AHEAD_PER_SUBSCRIPTION: Final = 20_000


class MultipleActiveDispatcher(ABC):
    """The base class of the Shared and Key_Shared dispatchers.

    A pending entry has exactly one consumer and is not in the replay set.

    If the consumer for an entry is not ready, the entry waits in the replay set. When too many entries wait, the
    dispatcher reads no new entries. The limit is `look_ahead` times the number of consumers, but at most
    `max_look_ahead`.
    """

    kind: ClassVar[SubscriptionType]

    def __init__(
        self,
        *,
        max_unacked: int = 0,
        max_read_entries: int = 100,
        look_ahead: int = LOOK_AHEAD_PER_CONSUMER,
        max_look_ahead: int = LOOK_AHEAD_PER_SUBSCRIPTION,
        counts: RedeliveryCounts | None = None,
    ) -> None:
        """`counts` comes from the subscription's previous dispatcher, if any."""
        self.max_unacked = max_unacked
        self._look_ahead = look_ahead
        self._max_look_ahead = max_look_ahead
        self._unacked = 0
        self._blocked = False
        self._replay = ReplayQueues()
        self._counts = counts if counts is not None else RedeliveryCounts()
        # The consumer of each partly sent message, by message uuid
        self._chunks: dict[str, DispatchConsumer] = {}
        self._plan: ReadPlan | None = None
        # Entries that the current REPLAY plan took out of the replay set
        self._reading: set[Position] = set()
        self._sizer = ReadSizer(max_read_entries)
        self._now_ms = 0

    # -- methods that subclasses implement -----------------------------------------------------------------------

    @property
    @abstractmethod
    def consumers(self) -> Sequence[DispatchConsumer]:
        """The connected consumers, in a fixed order."""

    @abstractmethod
    def _join(self, consumer: DispatchConsumer) -> None:
        """Add a consumer. An error leaves the dispatcher unchanged."""

    @abstractmethod
    def _leave(self, consumer: DispatchConsumer) -> None:
        """Remove a consumer. The caller has already removed the consumer's pending entries."""

    @abstractmethod
    def _rooms(self, ready: Sequence[DispatchConsumer], limit: int) -> list[tuple[int, int]]:
        """Return the replay queues to read, each with the maximum number of entries to take."""

    @abstractmethod
    def _replay_again(self, position: Position) -> None:
        """Put an entry into its replay queue."""

    @abstractmethod
    def _distribute(
        self, entries: Sequence[E], plan: ReadPlan, taken: dict[int, Assignment[E]], left: list[E]
    ) -> int:
        """Assign entries with `_give`, and return the number of messages assigned.

        Unassigned entries go into `left` and into the replay set.
        """

    def _released(self, position: Position) -> None:  # noqa: B027 - only Key_Shared counts pending entries by slot
        """Called when an entry is no longer pending."""

    # -- the interface `Dispatcher` ------------------------------------------------------------------------------

    @property
    def active(self) -> DispatchConsumer | None:
        return None

    @property
    def due_ms(self) -> int | None:
        return None

    def run_due(self, now_ms: int) -> bool:
        return False

    @property
    def unacked_messages(self) -> int:
        return self._unacked

    @property
    def blocked(self) -> bool:
        return self._blocked

    @property
    def replay_entries(self) -> int:
        return len(self._replay) + len(self._reading)

    @property
    def replays_unassigned(self) -> bool:
        return True

    def attach(self, consumer: DispatchConsumer, wanted: SubscriptionType, now_ms: int = 0) -> bool:
        """Add a consumer. Safe to repeat."""
        consumers = self.consumers
        check_attach(wanted, current=self.kind, consumers=len(consumers))
        if consumer in consumers:
            return False
        is_first = not consumers
        self._join(consumer)
        if is_first:
            self._forget_all()
        return is_first

    def detach(self, consumer: DispatchConsumer, now_ms: int = 0) -> list[Position]:
        if consumer not in self.consumers:
            return []
        self._credit(consumer, consumer.unacked_messages)
        pending = consumer.pending.pop_all()
        for uuid in [uuid for uuid, owner in self._chunks.items() if owner is consumer]:
            del self._chunks[uuid]
        for position in pending:
            self._released(position)
        self._counts.returned(pending)
        self._leave(consumer)
        if not self.consumers:
            self._forget_all()
            return pending
        for position in pending:
            self._replay_again(position)
        return pending

    def flow(self, consumer: DispatchConsumer, messages: int) -> None:
        consumer.flow(messages)

    def can_send(self) -> bool:
        return any(consumer.available for consumer in self.consumers)

    def next_read(self) -> ReadPlan | None:
        self._give_up_plan()
        ready = [consumer for consumer in self.consumers if consumer.available]
        if not ready:
            return None
        limit = self._sizer.entries_for(sum(consumer.permits.balance for consumer in ready))
        if self._replay:
            positions = self._replay.pop_first(self._rooms(ready, limit), limit)
            if positions:
                self._reading = set(positions)
                self._plan = ReadPlan(
                    kind=ReadKind.REPLAY, max_entries=len(positions), positions=tuple(positions)
                )
                return self._plan
            limit = min(limit, self._look_ahead_left())
        if self._blocked or limit <= 0:
            return None
        if self.max_unacked:
            limit = min(limit, self._sizer.entries_for(self.max_unacked - self._unacked))
        self._plan = ReadPlan(kind=ReadKind.NORMAL, max_entries=limit)
        return self._plan

    def _look_ahead_left(self) -> int:
        limit = min(self._look_ahead * len(self.consumers), self._max_look_ahead)
        return limit - self._replay.bound_entries

    def is_current(self, plan: ReadPlan) -> bool:
        return plan is self._plan

    def assign(
        self, entries: Sequence[E], plan: ReadPlan, now_ms: int = 0
    ) -> tuple[list[Assignment[E]], list[E]]:
        if plan is not self._plan:
            return [], []
        self._plan = None
        self._now_ms = now_ms
        if plan.kind is ReadKind.REPLAY:
            # Entries that were acked during the read are no longer in `_reading`.
            entries = [entry for entry in entries if entry.position in self._reading]
        taken: dict[int, Assignment[E]] = {}
        left: list[E] = []
        spent = self._distribute(entries, plan, taken, left)
        self._sizer.observe(len(entries) - len(left), spent)
        self._give_up_plan()
        return list(taken.values()), left

    def redeliver(self, consumer: DispatchConsumer, positions: Iterable[Position] | None) -> bool:
        """Take entries back, and count each redelivery. Ignores positions that are not pending at the consumer."""
        before = consumer.pending.messages
        taken = consumer.pending.pop_all() if positions is None else consumer.pending.pop(positions)
        self._credit(consumer, before - consumer.pending.messages)
        if consumer.blocked and consumer.unacked_messages < consumer.max_unacked:
            consumer.unblock()
        for position in taken:
            self._released(position)
            self._replay_again(position)
            self._counts.increment(position)
        return False

    def has_pending(self, consumer: DispatchConsumer, position: Position) -> bool:
        return position in consumer.pending

    def is_pending(self, position: Position) -> bool:
        return any(position in consumer.pending for consumer in self.consumers)

    def acked(
        self, position: Position, messages: int, completed: bool, consumer: DispatchConsumer | None = None
    ) -> int:
        owner = consumer
        taken = consumer.pending.credit(position, messages, completed) if consumer is not None else None
        if taken is None:
            for other in self.consumers:
                taken = other.pending.credit(position, messages, completed)
                if taken is not None:
                    owner = other
                    break
        delivered_ms = 0
        if taken is not None and owner is not None:
            credited, delivered_ms = taken
            self._credit(owner, credited)
            if completed or position not in owner.pending:
                self._released(position)
        if completed:
            self.discard(position)
        return delivered_ms

    def acked_through(self, position: Position, messages: int) -> Sequence[tuple[int, int]]:
        """Raise NotAllowed, because Shared and Key_Shared accept only individual acks."""
        raise NotAllowed(f"a {self.kind.name} subscription has no cumulative acks")

    def discard(self, position: Position) -> None:
        self._counts.discard(position)
        if self._replay:
            self._replay.discard(position)
        if self._reading:
            self._reading.discard(position)

    def postpone(self, position: Position) -> None:
        self._replay.discard(position)
        if self._reading:
            self._reading.discard(position)

    def replay(self, positions: Iterable[Position]) -> None:
        for position in positions:
            if position not in self._reading and not self.is_pending(position):
                self._replay_again(position)

    def upcoming_replays(self, limit: int) -> list[Position]:
        permits = sum(consumer.permits.balance for consumer in self.consumers if consumer.available)
        return self._replay.peek(min(limit, int(permits // self._sizer.average_messages)))

    def redelivery_count(self, position: Position) -> int:
        return self._counts.get(position)

    def moved(self, mark_delete: Position) -> None:
        self._give_up_plan()
        for consumer in self.consumers:
            self._credit(consumer, consumer.pending.pop_through(mark_delete))
        self._replay.discard_through(mark_delete)
        self._counts.discard_through(mark_delete)

    def limit_unacked(self, *, per_subscription: int, per_consumer: int) -> None:
        self.max_unacked = per_subscription
        if self._blocked and (not per_subscription or self._unacked < max(1, per_subscription // 2)):
            self._blocked = False
        elif per_subscription and self._unacked >= per_subscription:
            self._blocked = True
        for consumer in self.consumers:
            consumer.limit_unacked(per_consumer)

    # -- helpers -------------------------------------------------------------------------------------------------

    def _give(
        self, consumer: DispatchConsumer, entries: Sequence[E], messages: int, taken: dict[int, Assignment[E]]
    ) -> None:
        """Assign entries that the caller has recorded as pending, and spend the consumer's permits."""
        known = taken.get(consumer.key)
        if known is None:
            taken[consumer.key] = Assignment(consumer=consumer, entries=list(entries))
        else:
            known.entries.extend(entries)
        if self._reading:
            self._reading.difference_update([entry.position for entry in entries])
        consumer.charge(messages)
        self._unacked += messages
        if self.max_unacked and self._unacked >= self.max_unacked:
            self._blocked = True

    def _credit(self, consumer: DispatchConsumer, messages: int) -> None:
        consumer.credit(messages)
        self._unacked -= messages
        if self._blocked and self._unacked < max(1, self.max_unacked // 2):
            self._blocked = False

    def _give_up_plan(self) -> None:
        self._plan = None
        if self._reading:
            reading, self._reading = self._reading, set()
            for position in reading:
                self._replay_again(position)

    def _forget_all(self) -> None:
        self._plan = None
        self._reading = set()
        self._replay.clear()
        self._counts.nobody_left()
        self._chunks.clear()
        self._unacked = 0
        self._blocked = False
