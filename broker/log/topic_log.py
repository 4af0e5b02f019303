"""One topic's log in the memory of the process that owns the topic."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from broker.core.entry import FLAG_DELAYED, StoredEntry
from broker.core.errors import BrokerError, TopicFenced
from broker.core.ledgers.ledger import LedgerInfo, LedgerMap
from broker.core.ledgers.message_index import MessageIndex
from broker.core.ledgers.rollover import RolloverPolicy, must_roll
from broker.core.position import Position
from broker.log.cache import EntryCache, TopicEntries
from broker.log.sends import Receipt

if TYPE_CHECKING:
    from broker.core.topic_name import TopicName
    from broker.log.sends import SendRequest

__all__ = ["AppendBatch", "LogListener", "Send", "TopicLog"]

logger = logging.getLogger(__name__)

# A named tuple's own constructor takes 0.2 µs longer.
_new: Final = tuple.__new__

Send = tuple[Any, "SendRequest"]


@dataclass(slots=True)
class AppendBatch:
    """The entries that one append stores for one topic."""

    sends: list[Send] = field(default_factory=list)
    entries: list[StoredEntry] = field(default_factory=list)
    delayed: list[StoredEntry] = field(default_factory=list)
    outbox_ids: list[int] = field(default_factory=list)
    size_bytes: int = 0
    since_s: float = 0.0  # Monotonic time
    can_be_followed: bool = False  # Whether the broker may COPY the next batch before this batch commits
    # A batch that follows another batch waits for this future. The result tells whether the batch may commit.
    turn: asyncio.Future[bool] | None = None

    def receipts(self) -> dict[Any, tuple[list[Receipt], list[int]]]:
        """For each producer, return the receipts in send order and the totals as [messages, bytes]."""
        found: dict[Any, tuple[list[Receipt], list[int]]] = {}
        for (producer, request), entry in zip(self.sends, self.entries, strict=True):
            share = found.get(producer)
            if share is None:
                share = found[producer] = ([], [0, 0])
            receipts, totals = share
            sequence_id, highest = request.sequence_id, request.highest_sequence_id
            size_bytes = len(request.data)
            receipts.append(
                _new(Receipt, (sequence_id, highest, entry.ledger_id, entry.entry_id, size_bytes))
            )
            totals[0] += request.messages
            totals[1] += size_bytes
        return found


class LogListener(Protocol):
    """The methods that a log calls on its topic."""

    def stored(self, batch: AppendBatch) -> None:
        """Answer the sends of this durable batch in order, and deliver its entries."""

    def refused(self, sends: Sequence[Send], error: BrokerError) -> None:
        """Refuse these sends, which are not stored."""

    def given_up(self, error: BrokerError | None) -> None:
        """Close all producers and consumers of the closed log. `error` is set only if the log was fenced."""


class TopicLog:
    """The log of one topic. Not thread-safe. Only `Epochs` changes `owner_epoch`."""

    listener: LogListener

    def __init__(
        self,
        *,
        name: TopicName,
        topic_id: int,
        owner_epoch: int,
        ledgers: LedgerMap,
        segments: dict[int, int],
        files: dict[int, str],
        cache: EntryCache,
        policy: RolloverPolicy,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.owner_epoch = owner_epoch
        self.is_open = True
        self.is_fenced = False
        self.is_queued = False
        self.is_taken = False  # Whether the writer is preparing an append
        self.ledgers = ledgers
        self.segments = segments  # Segment ids by ledger id, for ledgers in PostgreSQL
        self.files = files  # File names by ledger id, for offloaded ledgers
        self.index = MessageIndex(ledgers)
        self.cached: TopicEntries = {}
        self.queue: deque[Send] = deque()
        self.queued_bytes = 0
        self.queued_since_s = 0.0  # Valid only while the queue is not empty
        self.in_flight: AppendBatch | None = None
        # The broker sends this batch with COPY while it stores the batch in flight.
        self.following: AppendBatch | None = None
        self.is_paused = False
        self.trimmed_through = 0  # Highest id of a trimmed ledger whose rows are still stored, or 0
        self._cache = cache
        self.policy = policy
        self._last_append_ms = max((info.last_append_ms for info in ledgers.infos()), default=0)

    def __repr__(self) -> str:
        return f"the log of {self.name}"

    def fence(self, reason: str) -> None:
        """Close the log after a fault. Safe to repeat.

        Call this if another broker may own the topic, or if the log in memory may differ from the stored log.
        """
        if self.is_open:
            logger.warning("%s is closed: %s", self.name, reason, extra={"topic": str(self.name)})
            self.is_fenced = True
            self._give_up(TopicFenced(f"{self.name}: {reason}; connect again"))

    def close(self) -> None:
        """Close the log. Unanswered sends get no receipt. Safe to repeat."""
        if self.is_open:
            self._give_up(None)

    def _give_up(self, error: BrokerError | None) -> None:
        self.is_open = False
        self._call_off()
        self._empty_queue()
        self.listener.given_up(error)

    def refuse(self, error: BrokerError) -> None:
        """Refuse the sends that have no answer yet. Call this only if none of these sends is stored."""
        sends = self.unanswered()
        self._call_off()
        self.in_flight = None
        self._empty_queue()
        self.listener.refused(sends, error)

    def unanswered(self) -> list[Send]:
        """Return the sends that have no answer yet, oldest first."""
        batches = [batch.sends for batch in (self.in_flight, self.following) if batch is not None]
        return [send for sends in (*batches, self.queue) for send in sends]

    def enqueue(self, producer: Any, request: SendRequest) -> None:
        """Queue a send for the writer."""
        if not self.queue:
            self.queued_since_s = time.monotonic()
        self.queue.append((producer, request))
        self.queued_bytes += len(request.data)

    def has_sends(self) -> bool:
        """Return whether there are sends to store now."""
        return bool(self.queue) and not self.is_paused

    @property
    def open_segment_id(self) -> int | None:
        """The id of the open ledger's segment, or None if no ledger is open."""
        ledger = self.ledgers.open_ledger()
        return None if ledger is None else self.segments[ledger.ledger_id]

    def needs_ledger(self, now_ms: int, segment_id: int) -> bool:
        """Return whether an append to this segment needs a new ledger."""
        ledger = self.ledgers.open_ledger()
        if ledger is None:
            return True
        return self.segments[ledger.ledger_id] != segment_id or must_roll(ledger, self.policy, now_ms)

    def take_batch(self, *, max_entries: int, max_bytes: int, now_ms: int) -> AppendBatch:
        """Take the next sends from the queue, and return them as a batch with positions.

        If another batch is in flight, the new batch follows it. The last entry may make the batch larger than
        `max_bytes`. Raises ValueError if no ledger is open, or if a following batch already exists.
        """
        ledger = self.ledgers.open_ledger()
        if ledger is None or self.following is not None:
            raise ValueError("take_batch needs an open ledger, and no batch that follows")
        append_ms = max(self._last_append_ms, now_ms)
        entry_id = ledger.entries
        messages, size_bytes = self.ledgers.total_messages, self.ledgers.total_bytes
        batch = AppendBatch(since_s=self.queued_since_s)
        # Assign the batch before the first send leaves the queue, so that an exception loses no send.
        if self.in_flight is None:
            self.in_flight = batch
        else:
            last = self.in_flight.entries[-1]
            entry_id, append_ms = last.entry_id + 1, max(append_ms, last.append_ms)
            messages, size_bytes = last.cumulative_messages, last.cumulative_bytes
            batch.turn = asyncio.get_running_loop().create_future()
            self.following = batch
        queue, sends, entries, ledger_id = self.queue, batch.sends, batch.entries, ledger.ledger_id
        while queue and len(entries) < max_entries and batch.size_bytes < max_bytes:
            send = queue[0]
            sends.append(send)
            queue.popleft()
            _, _, count, flags, deliver_at_ms, key_hash, data, outbox_id = send[1]
            messages += count
            size_bytes += len(data)
            batch.size_bytes += len(data)
            # Compare with `now_ms`, because `append_ms` may be ahead of the clock.
            is_delayed = deliver_at_ms > now_ms
            if is_delayed:
                flags |= FLAG_DELAYED
            entry = _new(
                StoredEntry,
                (
                    ledger_id,
                    entry_id,
                    count,
                    flags,
                    key_hash,
                    deliver_at_ms,
                    append_ms,
                    messages,
                    size_bytes,
                    data,
                ),
            )
            entries.append(entry)
            if is_delayed:
                batch.delayed.append(entry)
            if outbox_id:
                batch.outbox_ids.append(outbox_id)
            entry_id += 1
        self.queued_bytes -= batch.size_bytes
        self.queued_since_s = time.monotonic()
        return batch

    def committed(self, batch: AppendBatch) -> None:
        """Add a durable batch to the log, and let the following batch commit."""
        self.in_flight = None
        following, self.following = self.following, None
        if following is not None and following.turn is not None:
            if following.turn.done():  # The following batch waited too long, and is being rolled back
                self._requeue(following)
            else:
                self.in_flight = following
                following.turn.set_result(True)
        entries = batch.entries
        first, last = entries[0], entries[-1]
        self._last_append_ms = last.append_ms
        self.ledgers.append(
            first.ledger_id,
            len(entries),
            last.cumulative_messages - self.ledgers.total_messages,
            batch.size_bytes,
            last.append_ms,
        )
        self.index.record(
            first.ledger_id,
            first.entry_id,
            [entry.cumulative_messages for entry in entries],
            [entry.cumulative_bytes for entry in entries],
        )
        self._cache.add(self.cached, entries)

    def give_back(self, batch: AppendBatch) -> None:
        """Put the sends of an unstored batch and of its following batch back into the queue."""
        following = self._call_off()
        if following is not None:
            self._requeue(following)
        if batch is not following:
            self.in_flight = None
            self._requeue(batch)

    def take_back_following(self) -> None:
        """Put the sends of the following batch back into the queue."""
        if self.following is not None:
            self.give_back(self.following)

    def _requeue(self, batch: AppendBatch) -> None:
        self.queue.extendleft(reversed(batch.sends))
        self.queued_bytes += batch.size_bytes
        self.queued_since_s = batch.since_s

    def _call_off(self) -> AppendBatch | None:
        batch, self.following = self.following, None
        if batch is not None and batch.turn is not None and not batch.turn.done():
            batch.turn.set_result(False)
        return batch

    def _empty_queue(self) -> None:
        self.queue.clear()
        self.queued_bytes = 0

    def remember(self, entries: list[StoredEntry]) -> None:
        """Add entries from storage to the cache and the index."""
        if not entries:
            return
        self._cache.add(self.cached, entries)
        start = 0
        for at in range(1, len(entries) + 1):
            if at == len(entries) or entries[at].entry_id != entries[at - 1].entry_id + 1:
                self._record(entries[start:at])
                start = at

    def _record(self, run: list[StoredEntry]) -> None:
        first = run[0]
        messages = [entry.cumulative_messages for entry in run]
        size_bytes = [entry.cumulative_bytes for entry in run]
        if first.entry_id:
            messages.insert(0, first.cumulative_messages - first.messages)
            size_bytes.insert(0, first.cumulative_bytes - len(first.data))
        self.index.record(first.ledger_id, max(0, first.entry_id - 1), messages, size_bytes)

    def cached_entry(self, position: Position) -> StoredEntry | None:
        """Return an entry, or None if the entry is not in memory."""
        ledger = self.cached.get(position.ledger_id)
        return None if ledger is None else ledger.get(position.entry_id)

    def forget(self, count: int) -> list[LedgerInfo]:
        """Remove and return the oldest ledgers, which were trimmed. `count` is their number."""
        dropped = self.ledgers.drop_first(count)
        for info in dropped:
            self.segments.pop(info.ledger_id, None)
            self.files.pop(info.ledger_id, None)
            self.cached.pop(info.ledger_id, None)
        self.index.forget_before(dropped[-1].ledger_id + 1)
        self.trimmed_through = dropped[-1].ledger_id
        return dropped

    def oldest_cached(self) -> Position | None:
        """Return a position near the oldest cached entry, or None if no entry is cached."""
        ledger_id = min((each for each, entries in self.cached.items() if entries), default=None)
        return None if ledger_id is None else Position(ledger_id, next(iter(self.cached[ledger_id])))

    def offloaded(self, ledger_id: int, name: str) -> None:
        """Record that a sealed ledger is now in a file. Do nothing if the ledger was trimmed."""
        if self.segments.pop(ledger_id, None) is not None:
            self.files[ledger_id] = name

    @property
    def offloaded_bytes(self) -> int:
        """The total size of the offloaded ledgers."""
        ledgers = [self.ledgers.get(each) for each in self.files]
        return sum(each.size_bytes for each in ledgers if each is not None)

    def add_ledger(self, info: LedgerInfo, segment_id: int) -> None:
        """Add a new open ledger. Its id must be the highest so far, and the previous ledger must be sealed."""
        self.ledgers.add(info)
        self.segments[info.ledger_id] = segment_id
