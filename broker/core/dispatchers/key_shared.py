"""Key_Shared: one consumer at a time gets the entries of a key, in order.

Each key has a hash slot, and each slot belongs to at most one consumer. A slot is *draining* while a consumer that no
longer owns the slot still has pending (unacked) entries of the slot. New entries of a draining slot are not sent,
except the remaining chunks of a partly sent message. With `allow_out_of_order`, no slot drains.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from broker.core.counted import counted
from broker.core.dispatchers.base import Assignment, DispatchConsumer, E, ReadKind, ReadPlan
from broker.core.dispatchers.hash_ring import DEFAULT_POINTS, HashRing
from broker.core.dispatchers.key_shared_policy import AUTO_SPLIT, KeySharedPolicy
from broker.core.dispatchers.multiple_active import (
    LOOK_AHEAD_PER_CONSUMER,
    LOOK_AHEAD_PER_SUBSCRIPTION,
    MultipleActiveDispatcher,
)
from broker.core.dispatchers.range_split import RangeSplit
from broker.core.dispatchers.replay_queues import ANYBODY
from broker.core.dispatchers.slot_selector import SlotSelector
from broker.core.dispatchers.sticky_ranges import StickyRanges
from broker.core.errors import SubscriptionBusy
from broker.core.hash_slots import SlotRange, slot_of_position
from broker.core.position import Position, packed
from broker.core.subscription.redelivery import RedeliveryCounts
from broker.core.subscription.types import SubscriptionType

__all__ = ["KeySharedDispatcher", "WaitingSlot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedRanges:
    """The slots of one consumer."""

    consumer: DispatchConsumer
    ranges: tuple[SlotRange, ...]  # Ascending


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainingSlot:
    """A slot with entries pending at a consumer that no longer owns the slot."""

    slot: int
    pending_at: DispatchConsumer
    owner: DispatchConsumer | None
    pending_entries: int
    waiting_entries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingSlot:
    """A slot whose entries wait for one consumer."""

    slot: int
    # The owner of the slot or, while the slot drains, the consumer with the pending entries.
    consumer: DispatchConsumer
    waiting_entries: int
    is_draining: bool


class KeySharedDispatcher(MultipleActiveDispatcher):
    """The dispatcher of one Key_Shared subscription."""

    kind: ClassVar = SubscriptionType.KEY_SHARED

    def __init__(
        self,
        *,
        policy: KeySharedPolicy = AUTO_SPLIT,
        ring_points: int = DEFAULT_POINTS,
        max_unacked: int = 0,
        max_read_entries: int = 100,
        look_ahead: int = LOOK_AHEAD_PER_CONSUMER,
        max_look_ahead: int = LOOK_AHEAD_PER_SUBSCRIPTION,
        counts: RedeliveryCounts | None = None,
    ) -> None:
        super().__init__(
            max_unacked=max_unacked,
            max_read_entries=max_read_entries,
            look_ahead=look_ahead,
            max_look_ahead=max_look_ahead,
            counts=counts,
        )
        self.policy = policy
        self._selector: SlotSelector
        if self.policy.sticky:
            self._selector = StickyRanges()
        else:
            self._selector = HashRing(ring_points) if ring_points else RangeSplit()
        self._consumers: list[DispatchConsumer] = []
        self._slots: dict[int, int] = {}  # Slot by packed position
        self._pending_at: dict[int, DispatchConsumer] = {}
        self._pending_entries: dict[int, int] = {}  # Number of pending entries in each slot
        self._waiting: dict[int, int] = {}  # Number of waiting entries in each slot
        self._chunk_of: dict[Position, str] = {}  # Message uuid of each waiting chunk

    @property
    def consumers(self) -> Sequence[DispatchConsumer]:
        """The connected consumers, in the order of attachment."""
        return self._consumers

    # -- reports ------------------------------------------------------------------------------------------------

    def ranges(self) -> list[OwnedRanges]:
        """Return the slots that each consumer owns."""
        return [
            OwnedRanges(consumer=consumer, ranges=self._selector.ranges(consumer))
            for consumer in self._consumers
        ]

    def draining(self) -> list[DrainingSlot]:
        """Return the draining slots, ascending."""
        found: list[DrainingSlot] = []
        if self.policy.allow_out_of_order:
            return found
        for slot in sorted(self._pending_at):
            consumer, owner = self._pending_at[slot], self._selector.select(slot)
            if consumer is not owner:
                found.append(
                    DrainingSlot(
                        slot=slot,
                        pending_at=consumer,
                        owner=owner,
                        pending_entries=self._pending_entries[slot],
                        waiting_entries=self._waiting.get(slot, 0),
                    )
                )
        return found

    def most_waiting(self) -> WaitingSlot | None:
        """Return the slot with the most waiting entries. Returns None if nothing waits or the slot has no consumer."""
        if not self._waiting:
            return None
        slot = max(self._waiting, key=self._waiting.__getitem__)
        owner = self._selector.select(slot)
        consumer = owner if self.policy.allow_out_of_order else self._pending_at.get(slot, owner)
        if consumer is None:
            return None
        return WaitingSlot(
            slot=slot,
            consumer=consumer,
            waiting_entries=self._waiting[slot],
            is_draining=consumer is not owner,
        )

    # -- joins and leaves ----------------------------------------------------------------------------------------

    def attach(self, consumer: DispatchConsumer, wanted: SubscriptionType, now_ms: int = 0) -> bool:
        """Add a consumer. Raises SubscriptionBusy if the consumer's Key_Shared mode does not match `policy`."""
        if wanted is self.kind and not self.policy.same_mode(consumer.key_shared):
            raise SubscriptionBusy(
                f"{counted(len(self._consumers), 'consumer is', 'consumers are')} connected with another"
                " Key_Shared mode or ordering flag"
            )
        return super().attach(consumer, wanted, now_ms)

    def detach(self, consumer: DispatchConsumer, now_ms: int = 0) -> list[Position]:
        if consumer in self._consumers:
            self._give_up_plan()  # Entries of the read plan must not overtake redelivered entries
        return super().detach(consumer, now_ms)

    def redeliver(self, consumer: DispatchConsumer, positions: Iterable[Position] | None) -> bool:
        self._give_up_plan()  # Entries of the read plan must not overtake redelivered entries
        return super().redeliver(consumer, positions)

    def _join(self, consumer: DispatchConsumer) -> None:
        self._selector.add(consumer)
        self._consumers.append(consumer)
        taken = {slot for slot in self._waiting if self._selector.select(slot) is consumer}
        if taken:
            for position in list(self._replay.bound()):
                if self._slots[packed(position)] in taken:
                    self._replay.add(position, self._queue_of(position))
        self._sort_chunks()

    def _leave(self, consumer: DispatchConsumer) -> None:
        # Many consumers may leave at once, so do not go through all waiting entries.
        self._selector.remove(consumer)
        self._consumers.remove(consumer)
        for position in self._replay.members(consumer.key):
            self._replay.add(position, self._queue_of(position))
        for queue in self._replay.slot_queues():
            if (owner := self._target(-1 - queue)) is not None:
                self._replay.move(queue, owner.key)
        self._sort_chunks()

    def _sort_chunks(self) -> None:
        for position in self._chunk_of:
            if position in self._replay:
                self._replay.add(position, self._queue_of(position))

    def _forget_all(self) -> None:
        super()._forget_all()
        for table in (self._slots, self._pending_at, self._pending_entries, self._waiting, self._chunk_of):
            table.clear()

    # -- replay --------------------------------------------------------------------------------------------------

    def _rooms(self, ready: Sequence[DispatchConsumer], limit: int) -> list[tuple[int, int]]:
        return [
            (ANYBODY, min(limit, self._look_ahead_left())),
            *(
                (c.key, min(limit, self._sizer.entries_for(c.permits.balance)))
                for c in ready
                if self._replay.has(c.key)
            ),
        ]

    def _replay_again(self, position: Position) -> None:
        slot = self._slots.get(packed(position))
        if slot is None:
            self._replay.add(position)
            return
        if position not in self._replay:
            self._waiting[slot] = self._waiting.get(slot, 0) + 1
        self._replay.add(position, self._queue_of(position))

    def _queue_of(self, position: Position) -> int:
        slot = self._slots[packed(position)]
        uuid = self._chunk_of.get(position)
        consumer = self._chunk_owner(uuid, slot) or self._target(slot)
        return -1 - slot if consumer is None else consumer.key

    def _target(self, slot: int) -> DispatchConsumer | None:
        """Return the consumer that may get entries of the slot now, or None."""
        owner = self._selector.select(slot)
        if self.policy.allow_out_of_order:
            return owner
        consumer = self._pending_at.get(slot)
        return owner if consumer is None or consumer is owner else None

    def _chunk_owner(self, uuid: str | None, slot: int) -> DispatchConsumer | None:
        """Return the consumer that must get the remaining chunks of a partly sent message, or None.

        Without these chunks, the consumer would never ack the message, and the slot would never finish draining.
        """
        owner = None if uuid is None else self._chunks.get(uuid)
        if owner is None or (self._pending_at.get(slot) is not owner and not self.policy.allow_out_of_order):
            return None
        return owner

    def discard(self, position: Position) -> None:
        waits = position in self._replay
        super().discard(position)
        slot = self._slots.pop(packed(position), None)
        self._chunk_of.pop(position, None)
        if waits and slot is not None:
            self._stop_waiting(slot)

    def _stop_waiting(self, slot: int) -> None:
        left = self._waiting[slot] - 1
        if left:
            self._waiting[slot] = left
        else:
            del self._waiting[slot]

    def postpone(self, position: Position) -> None:
        waits = position in self._replay
        super().postpone(position)
        if waits and (slot := self._slots.get(packed(position))) is not None:
            self._stop_waiting(slot)

    def moved(self, mark_delete: Position) -> None:
        super().moved(mark_delete)
        slots, self._slots = self._slots, {}
        self._chunk_of = {p: uuid for p, uuid in self._chunk_of.items() if p in self._replay}
        self._pending_at.clear()
        self._pending_entries.clear()
        self._waiting.clear()
        for consumer in self._consumers:
            for position in consumer.pending:
                slot = self._slots[packed(position)] = slots[packed(position)]
                self._add_pending(consumer, slot)
        for position in self._replay.bound():
            slot = self._slots[packed(position)] = slots[packed(position)]
            self._waiting[slot] = self._waiting.get(slot, 0) + 1
        self._replay.sort(self._queue_of)

    # -- pending entries by slot ----------------------------------------------------------------------------------

    def _add_pending(self, consumer: DispatchConsumer, slot: int) -> None:
        # With `allow_out_of_order`, several consumers may have entries of a slot. Record only the last consumer.
        self._pending_at[slot] = consumer
        self._pending_entries[slot] = self._pending_entries.get(slot, 0) + 1

    def _released(self, position: Position) -> None:
        slot = self._slots[packed(position)]
        left = self._pending_entries[slot] - 1
        if left:
            self._pending_entries[slot] = left
            return
        del self._pending_entries[slot]
        holder = self._pending_at.pop(slot)
        waiting = self._waiting.get(slot, 0)
        owner = self._selector.select(slot) if waiting else None
        if owner is not None:
            moved = self._replay.move(-1 - slot, owner.key)
            # The entries that did not move may be chunks in the queue of `holder`, so sort the chunks again.
            if owner is not holder and moved < waiting:
                self._sort_chunks()

    # -- dispatch ------------------------------------------------------------------------------------------------

    def next_read(self) -> ReadPlan | None:
        plan = super().next_read()
        if plan is not None and plan.kind is ReadKind.REPLAY:
            for position in plan.positions:
                if (slot := self._slots.get(packed(position))) is not None:
                    self._stop_waiting(slot)
        return plan

    def _distribute(
        self, entries: Sequence[E], plan: ReadPlan, taken: dict[int, Assignment[E]], left: list[E]
    ) -> int:
        replays = plan.kind is ReadKind.REPLAY
        # For each slot, the first position that was not read or cannot be sent. Later entries of the slot must wait.
        stuck: dict[int, Position] = self._missing(entries) if replays else {}
        # Entries seen for the first time must not overtake waiting entries of their slot.
        waiting = self._waiting if not self.policy.allow_out_of_order else {}
        spent = 0
        for entry in entries:
            position, uuid = entry.position, entry.chunk_uuid
            slot = entry.slot or slot_of_position(position)
            is_known = replays and packed(position) in self._slots
            self._slots[packed(position)] = slot
            consumer = None if uuid is None else self._chunk_owner(uuid, slot)
            if consumer is None:
                behind = (slot in stuck and stuck[slot] < position) or (not is_known and slot in waiting)
                consumer = None if behind else self._target(slot)
            if consumer is None or not consumer.available:
                stuck.setdefault(slot, position)
                self._leave_over(entry, left)
                continue
            messages = entry.messages_remaining
            consumer.pending.add(position, messages, self._now_ms)
            self._add_pending(consumer, slot)
            self._give(consumer, (entry,), messages, taken)
            spent += messages
            if uuid is not None:
                self._sent_chunk(position, uuid, consumer, is_last=entry.last_chunk)
        return spent

    def _missing(self, entries: Sequence[E]) -> dict[int, Position]:
        brought = {entry.position for entry in entries}
        missing: dict[int, Position] = {}
        for position in sorted(self._reading - brought):
            if (slot := self._slots.get(packed(position))) is not None:
                missing.setdefault(slot, position)
        return missing

    def _leave_over(self, entry: E, left: list[E]) -> None:
        left.append(entry)
        position = entry.position
        if self._reading:
            self._reading.discard(position)
        if entry.chunk_uuid is not None and entry.chunk_uuid in self._chunks:
            self._chunk_of[position] = entry.chunk_uuid
        self._replay_again(position)

    def _sent_chunk(
        self, position: Position, uuid: str, consumer: DispatchConsumer, *, is_last: bool
    ) -> None:
        self._chunk_of.pop(position, None)
        if is_last:
            self._chunks.pop(uuid, None)
        else:
            self._chunks[uuid] = consumer
