"""Shared: each entry goes to one of many consumers, in no particular order."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from typing import ClassVar, Final

from broker.core.dispatchers.base import Assignment, DispatchConsumer, E, ReadPlan
from broker.core.dispatchers.multiple_active import (
    LOOK_AHEAD_PER_CONSUMER,
    LOOK_AHEAD_PER_SUBSCRIPTION,
    MultipleActiveDispatcher,
)
from broker.core.dispatchers.replay_queues import ANYBODY
from broker.core.position import Position
from broker.core.subscription.redelivery import RedeliveryCounts
from broker.core.subscription.types import SubscriptionType

__all__ = ["SharedDispatcher"]

_MAX_PICK_ENTRIES: Final = 20  # A consumer gets at most this many entries before the next consumer's turn


class _Level:
    """The consumers of one priority. `turn` is the index of the next consumer to serve."""

    __slots__ = ("consumers", "priority", "turn")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.consumers: list[DispatchConsumer] = []
        self.turn = 0


class SharedDispatcher(MultipleActiveDispatcher):
    """The Shared dispatcher. The available consumers of the best priority take turns.

    All chunks of a message go to the same consumer.
    """

    kind: ClassVar = SubscriptionType.SHARED

    def __init__(
        self,
        *,
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
        self._levels: list[_Level] = []
        self._consumers: list[DispatchConsumer] = []

    @property
    def consumers(self) -> Sequence[DispatchConsumer]:
        """The connected consumers, by priority, then by the order of attachment."""
        return self._consumers

    def _join(self, consumer: DispatchConsumer) -> None:
        level = next((level for level in self._levels if level.priority == consumer.priority), None)
        if level is None:
            level = _Level(consumer.priority)
            insort(self._levels, level, key=lambda known: known.priority)
        level.consumers.append(consumer)
        self._list_consumers()

    def _leave(self, consumer: DispatchConsumer) -> None:
        level = next(level for level in self._levels if consumer in level.consumers)
        at = level.consumers.index(consumer)
        del level.consumers[at]
        if at < level.turn:
            level.turn -= 1
        if not level.consumers:
            self._levels.remove(level)
        self._list_consumers()
        self._replay.move(consumer.key, ANYBODY)  # Chunks may have waited for this consumer

    def _list_consumers(self) -> None:
        self._consumers = [consumer for level in self._levels for consumer in level.consumers]

    def _rooms(self, ready: Sequence[DispatchConsumer], limit: int) -> list[tuple[int, int]]:
        return [(ANYBODY, limit), *((c.key, limit) for c in ready if self._replay.has(c.key))]

    def _replay_again(self, position: Position) -> None:
        self._replay.add(position)

    def _distribute(
        self, entries: Sequence[E], plan: ReadPlan, taken: dict[int, Assignment[E]], left: list[E]
    ) -> int:
        done = spent = 0
        while done < len(entries):
            entry = entries[done]
            if entry.chunk_uuid is not None:
                done, charged = done + 1, self._assign_chunk(entry, entry.chunk_uuid, taken, left)
            elif (consumer := self._pick()) is None:
                self._leave_over(entry, ANYBODY, left)
                done, charged = done + 1, 0
            else:
                done, charged = self._assign_pick(consumer, entries, done, taken)
            spent += charged
        return spent

    def _pick(self) -> DispatchConsumer | None:
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
        """Assign entries, and stop at a chunk. Return the next index and the number of messages assigned.

        The last batch may exceed the permits and the unacked limit.
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
        self._give(consumer, entries[done:at], charged, taken)
        return at, charged

    def _assign_chunk(self, entry: E, uuid: str, taken: dict[int, Assignment[E]], left: list[E]) -> int:
        """Assign a chunk of a large message, or let the chunk wait. Return the number of messages assigned."""
        owner = self._chunks.get(uuid)
        consumer = owner or self._pick()
        if consumer is None or not consumer.available:
            self._leave_over(entry, ANYBODY if consumer is None else consumer.key, left)
            return 0
        if entry.last_chunk:
            self._chunks.pop(uuid, None)
        else:
            self._chunks[uuid] = consumer
        consumer.pending.add(entry.position, entry.messages_remaining, self._now_ms)
        self._give(consumer, [entry], entry.messages_remaining, taken)
        return entry.messages_remaining

    def _leave_over(self, entry: E, queue: int, left: list[E]) -> None:
        left.append(entry)
        if self._reading:
            self._reading.discard(entry.position)
        self._replay.add(entry.position, queue)
