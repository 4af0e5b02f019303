"""Shared: every entry to one of many consumers, in no order (semantics 3.3, 3.5, 3.6, 3.7)."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from typing import Final

from broker.core.dispatchers.base import (
    Assignment,
    DispatchConsumer,
    E,
    ReadKind,
    ReadPlan,
    ReadSizer,
)
from broker.core.position import Position
from broker.core.redelivery import RedeliveryCounts, ReplaySet
from broker.core.subscription import SubscriptionType, check_attach

_MAX_PICK_ENTRIES: Final = 20  # entries one consumer gets before the next one's turn


class _Level:
    """Consumers of one priority, and whose turn it is."""

    __slots__ = ("consumers", "priority", "turn")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.consumers: list[DispatchConsumer] = []
        self.turn = 0


class SharedDispatcher:
    """An entry is pending at one consumer at most; replay set and pending acks never overlap."""

    def __init__(self, *, max_unacked: int = 0, max_read_entries: int = 100) -> None:
        self.max_unacked = max_unacked
        self._levels: list[_Level] = []
        self._count = 0
        self._unacked = 0
        self._blocked = False
        self._replay = ReplaySet()
        self._counts = RedeliveryCounts()
        self._chunks: dict[str, DispatchConsumer] = {}
        self._plan: ReadPlan | None = None
        self._reading: set[Position] = set()  # by the current REPLAY plan; out of the replay set
        self._sizer = ReadSizer(max_read_entries)
        self._now_ms = 0  # of the assignment under way

    @property
    def consumers(self) -> Sequence[DispatchConsumer]:
        """By priority, then in order of attaching."""
        return [consumer for level in self._levels for consumer in level.consumers]

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

    def attach(self, consumer: DispatchConsumer, wanted: SubscriptionType) -> bool:
        """Safe to repeat: a consumer already attached stays as it is."""
        check_attach(wanted, current=SubscriptionType.SHARED, consumers=self._count)
        first = self._count == 0
        level = next((level for level in self._levels if level.priority == consumer.priority), None)
        if level is None:
            level = _Level(consumer.priority)
            insort(self._levels, level, key=lambda known: known.priority)
        if consumer in level.consumers:
            return False
        level.consumers.append(consumer)
        self._count += 1
        if first:
            self._forget_all()
        return first

    def detach(self, consumer: DispatchConsumer) -> list[Position]:
        level = next((level for level in self._levels if consumer in level.consumers), None)
        if level is None:
            return []
        at = level.consumers.index(consumer)
        del level.consumers[at]
        if at < level.turn:
            level.turn -= 1
        if not level.consumers:
            self._levels.remove(level)
        self._count -= 1
        self._credit(consumer, consumer.unacked_messages)
        held = consumer.pending.pop_all()
        for uuid in [uuid for uuid, owner in self._chunks.items() if owner is consumer]:
            del self._chunks[uuid]
        if not self._count:
            self._forget_all()
            return held
        for position in held:
            self._replay.add(position)
        return held

    def flow(self, consumer: DispatchConsumer, messages: int) -> None:
        consumer.flow(messages)

    def can_send(self) -> bool:
        return any(consumer.available for level in self._levels for consumer in level.consumers)

    def next_read(self) -> ReadPlan | None:
        self._give_up_plan()
        permits = sum(c.permits.balance for level in self._levels for c in level.consumers if c.available)
        if not permits:
            return None
        limit = self._sizer.entries_for(permits)
        if self._replay:
            positions = tuple(self._replay.pop_first(limit))
            self._reading = set(positions)
            self._plan = ReadPlan(kind=ReadKind.REPLAY, max_entries=len(positions), positions=positions)
        elif not self._blocked:
            if self.max_unacked:
                limit = min(limit, self._sizer.entries_for(self.max_unacked - self._unacked))
            self._plan = ReadPlan(kind=ReadKind.NORMAL, max_entries=limit)
        return self._plan

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
            # Whoever acked one of them while it was read took it out of _reading.
            entries = [entry for entry in entries if entry.position in self._reading]
        taken: dict[int, Assignment[E]] = {}
        left: list[E] = []
        done = spent = 0
        while done < len(entries):
            if entries[done].chunk_uuid is not None:
                done, charged = self._assign_chunk(entries, done, taken, left)
            else:
                consumer = self._pick()
                if consumer is None:
                    left.append(entries[done])
                    done += 1
                    continue
                done, charged = self._assign_pick(consumer, entries, done, taken)
            spent += charged
        self._sizer.observe(len(entries) - len(left), spent)
        for entry in left:
            self._replay.add(entry.position)
        self._give_up_plan()
        return list(taken.values()), left

    def redeliver(self, consumer: DispatchConsumer, positions: Iterable[Position] | None) -> bool:
        """What of `positions` this consumer holds goes to the replay set with its count raised."""
        before = consumer.pending.messages
        taken = consumer.pending.pop_all() if positions is None else consumer.pending.pop(positions)
        self._credit(consumer, before - consumer.pending.messages)
        if consumer.blocked and consumer.unacked_messages < consumer.max_unacked:
            consumer.unblock()
        for position in taken:
            self._replay.add(position)
            self._counts.increment(position)
        return False

    def holds(self, consumer: DispatchConsumer, position: Position) -> bool:
        return position in consumer.pending

    def is_pending(self, position: Position) -> bool:
        return any(position in consumer.pending for consumer in self.consumers)

    def acked(
        self, position: Position, messages: int, completed: bool, consumer: DispatchConsumer | None = None
    ) -> None:
        owner = consumer
        held = consumer.pending.credit(position, messages, completed) if consumer is not None else None
        if held is None:
            for other in self.consumers:
                held = other.pending.credit(position, messages, completed)
                if held is not None:
                    owner = other
                    break
        if held is not None and owner is not None:
            self._credit(owner, held)
        if completed:
            self.discard(position)

    def acked_through(self, mark_delete: Position, messages: int) -> None:
        """For a broker's own cumulative moves: everything at or below is acked."""
        self.moved(mark_delete)

    def discard(self, position: Position) -> None:
        self._counts.discard(position)
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
                self._replay.add(position)

    def upcoming_replays(self, limit: int) -> list[Position]:
        permits = sum(c.permits.balance for level in self._levels for c in level.consumers if c.available)
        return self._replay.peek(min(limit, int(permits // self._sizer.average_messages)))

    def redelivery_count(self, position: Position) -> int:
        return self._counts.get(position)

    def moved(self, mark_delete: Position) -> None:
        self._give_up_plan()
        for consumer in self.consumers:
            self._credit(consumer, consumer.pending.pop_through(mark_delete))
        self._replay.discard_through(mark_delete)
        self._counts.discard_through(mark_delete)

    def _pick(self) -> DispatchConsumer | None:
        """The next available consumer of the best priority that has one, in turn."""
        for level in self._levels:
            consumers = level.consumers
            size = len(consumers)
            for step in range(size):
                at = level.turn + step
                consumer = consumers[at if at < size else at - size]
                if consumer.permits.balance > 0 and consumer.writable and not consumer.blocked:
                    level.turn = (at + 1) % size
                    return consumer
        return None

    def _assign_pick(
        self, consumer: DispatchConsumer, entries: Sequence[E], done: int, taken: dict[int, Assignment[E]]
    ) -> tuple[int, int]:
        """Up to 20 entries, while permits and the unacked limit last; returns where it ended and the
        messages.

        Semantics 3.3 estimates the number from an average batch; here each entry is charged before the next
        one is taken, so permits overshoot by one batch at most.
        """
        room = consumer.permits.balance
        if consumer.max_unacked:
            room = min(room, consumer.max_unacked - consumer.unacked_messages)
        add = consumer.pending.add
        charged = 0
        end = min(len(entries), done + _MAX_PICK_ENTRIES)
        at = done
        while at < end and charged < room:
            entry = entries[at]
            if entry.chunk_uuid is not None:
                break
            messages = entry.messages_remaining
            add(entry.position, messages, self._now_ms)
            charged += messages
            at += 1
        self._charge(consumer, entries[done:at], charged, taken)
        return at, charged

    def _assign_chunk(
        self, entries: Sequence[E], done: int, taken: dict[int, Assignment[E]], left: list[E]
    ) -> tuple[int, int]:
        """One chunk of a large message, to whoever got the first one."""
        entry = entries[done]
        uuid = entry.chunk_uuid or ""
        consumer = self._chunks.get(uuid) or self._pick()
        if consumer is None or not consumer.available:
            left.append(entry)
            return done + 1, 0
        if entry.last_chunk:
            self._chunks.pop(uuid, None)
        else:
            self._chunks[uuid] = consumer
        consumer.pending.add(entry.position, entry.messages_remaining, self._now_ms)
        self._charge(consumer, [entry], entry.messages_remaining, taken)
        return done + 1, entry.messages_remaining

    def _charge(
        self, consumer: DispatchConsumer, entries: Sequence[E], messages: int, taken: dict[int, Assignment[E]]
    ) -> None:
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
            for position in self._reading:
                self._replay.add(position)
            self._reading = set()

    def _forget_all(self) -> None:
        """The last consumer left, or the first one comes: everything unacked is read again from
        mark-delete on.
        """
        self._plan = None
        self._reading = set()
        self._replay.clear()
        self._counts.clear()
        self._chunks.clear()
        self._unacked = 0
        self._blocked = False
