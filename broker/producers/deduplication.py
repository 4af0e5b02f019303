"""Recognize repeated sends to one topic."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.core.entry import FLAG_BATCH, FLAG_CHUNK, FLAG_LAST_CHUNK
from broker.core.position import Position
from broker.core.producers.deduplication import DuplicateFilter, Mark, Progress, Verdict
from broker.storage.log.deduplication import ProducerRow
from vela.wire.entry import last_sequence_id, parse_header
from vela.wire.errors import EntryCorrupt

if TYPE_CHECKING:
    from broker.core.entry import StoredEntry
    from broker.log.sends import SendRequest
    from broker.log.topic_log import AppendBatch
    from broker.producers.producer import Producer, Repeat
    from vela.wire.entry import EntryHeader

__all__ = ["DeduplicationFlush", "TopicDeduplication", "mark_of_entry"]

_MOST_BYTES = 2**31 - 1  # No limit is needed here, because a batch's size is checked on arrival


@dataclass(frozen=True, slots=True, kw_only=True)
class DeduplicationFlush:
    """The changes since the last flush."""

    through: Position
    rows: list[ProducerRow]
    gone: list[str]  # Names of producers to delete


class TopicDeduplication:
    """The deduplication state of one topic. Call the methods only from the event loop.

    If a send in flight is repeated, the repeat waits until the first send is stored.
    """

    def __init__(self, through: Position) -> None:
        self.is_enabled = True
        self.through = through  # The last entry that the state in memory covers
        self.stored_through = through  # The last entry that the state in the database covers
        self.duplicates = 0
        self._filter = DuplicateFilter()
        self._seen_ms: dict[str, int] = {}
        self._changed: set[str] = set()
        self._gone: set[str] = set()
        self._is_dirty = True  # Store `through` even if no producer ever connects
        self._waiting: deque[tuple[Producer, Repeat, Mark]] = deque()
        self._marks: dict[int, tuple[SendRequest, Mark]] = {}
        self._settled = asyncio.Event()
        self._is_closed = False

    def admit(self, producer: Producer, request: SendRequest) -> bool:
        """Return True if a send must be stored. If the send is a repeat, tell its producer and return False."""
        if not self.is_enabled or not producer.is_deduplicated:
            return True
        mark = self._mark(producer, request)
        verdict = self._filter.admit(producer.name, mark)
        if verdict is Verdict.NEW:
            return True
        self._marks.pop(id(request), None)
        self.duplicates += 1
        repeat = producer.repeat(request, is_stored=verdict is Verdict.STORED)
        if verdict is Verdict.IN_FLIGHT:
            self._waiting.append((producer, repeat, mark))
        return False

    def pushed(self, sends: Iterable[tuple[Producer, SendRequest]]) -> None:
        """Record the sends that were in flight when deduplication was switched on."""
        for producer, request in sends:
            if producer.is_deduplicated:
                self._filter.admit(producer.name, self._mark(producer, request))

    def take_waiting(self, earlier: TopicDeduplication) -> None:
        """Take over the waiting repeats from the topic's earlier state."""
        self._waiting, earlier._waiting = earlier._waiting, deque()

    def stored(self, batch: AppendBatch, now_ms: int) -> list[Producer]:
        """Record that a batch is durable. Return the producers whose repeats may now get receipts.

        The caller must send the receipts of the batch before the receipts of the repeats.
        """
        for producer, request in batch.sends:
            if producer.is_deduplicated:
                self._store(producer.name, self._mark(producer, request), now_ms)
                self._marks.pop(id(request), None)
        last = batch.entries[-1]
        self.through = Position(last.ledger_id, last.entry_id)
        self._is_dirty = True
        self._settled.set()
        answered: dict[Producer, None] = {}
        waiting, self._waiting = self._waiting, deque()
        for producer, repeat, mark in waiting:
            if self._filter.is_stored(producer.name, mark):
                repeat.is_stored = True
                answered[producer] = None
            else:
                self._waiting.append((producer, repeat, mark))
        return list(answered)

    def give_up(self) -> list[tuple[Producer, SendRequest]]:
        """Forget the sends in flight, and return the repeats that waited for them."""
        waiting, self._waiting = self._waiting, deque()
        self._marks.clear()
        self._filter.forget_pushed()
        self._settled.set()
        return [(producer, repeat.request) for producer, repeat, _ in waiting]

    def switch_off(self) -> None:
        """Let every send be stored from now on."""
        self.is_enabled = False
        self._settled.set()

    def close(self) -> None:
        """Let the waiting calls of `last_sequence_id` return."""
        self._is_closed = True
        self._settled.set()

    @property
    def has_waiting_repeats(self) -> bool:
        """Whether a repeat waits for its answer."""
        return bool(self._waiting)

    async def last_sequence_id(self, name: str) -> int:
        """Return the last stored sequence id of a producer name, or -1.

        With deduplication on, this waits until no send under the name is in flight.
        """
        while self.is_enabled and not self._filter.is_settled(name) and not self._is_closed:
            self._settled.clear()
            await self._settled.wait()
        return self._filter.last_stored(name)

    def restore(self, rows: Sequence[ProducerRow]) -> None:
        """Restore the state that an earlier owner stored."""
        for row in rows:
            self._filter.restore(
                row.producer_name, Progress(row.sequence_id, row.chunk_sequence_id, row.chunk_id)
            )
            self._seen_ms[row.producer_name] = row.seen_ms

    def replay(self, entries: Sequence[StoredEntry]) -> None:
        """Add log entries that the restored state lacks. The entries must be in log order."""
        for entry in entries:
            found = mark_of_entry(entry.data, entry.flags)
            if found is not None:
                self._store(found[0], found[1], entry.append_ms)
            self.through = Position(entry.ledger_id, entry.entry_id)
            self._is_dirty = True

    def take_dirty(self) -> DeduplicationFlush | None:
        """Return the changes to store, or None if nothing changed."""
        if not self._is_dirty:
            return None
        self._is_dirty = False
        changed, self._changed = self._changed, set()
        gone, self._gone = self._gone, set()
        return DeduplicationFlush(
            through=self.through,
            rows=[row for name in sorted(changed) if (row := self._row(name)) is not None],
            gone=sorted(gone),
        )

    def put_back(self, flush: DeduplicationFlush) -> None:
        """Include unstored changes in the next flush."""
        self._is_dirty = True
        self._changed |= {row.producer_name for row in flush.rows}
        self._gone |= {name for name in flush.gone if self._filter.progress(name) is None}

    def expire(self, connected: Iterable[str], *, now_ms: int, expiry_ms: int) -> None:
        """Forget producers that were last seen more than `expiry_ms` ago. Connected producers count as seen now."""
        for name in connected:
            self._seen_ms[name] = now_ms
        for name in [name for name, seen_ms in self._seen_ms.items() if seen_ms + expiry_ms < now_ms]:
            del self._seen_ms[name]
            self._filter.forget(name)
            self._changed.discard(name)
            self._gone.add(name)
            self._is_dirty = True

    def _store(self, name: str, mark: Mark, now_ms: int) -> None:
        self._filter.stored(name, mark)
        self._seen_ms[name] = now_ms
        self._changed.add(name)
        self._gone.discard(name)

    def _mark(self, producer: Producer, request: SendRequest) -> Mark:
        flags = request.flags
        if not flags & FLAG_BATCH and not (flags & FLAG_CHUNK and not flags & FLAG_LAST_CHUNK):
            return Mark(request.sequence_id, max(request.sequence_id, request.highest_sequence_id))
        known = self._marks.get(id(request))
        if known is not None and known[0] is request:
            return known[1]
        mark = Mark(request.sequence_id, max(request.sequence_id, request.highest_sequence_id))
        # The SEND command may lack a batch's last sequence id or a chunk's id.
        found = mark_of_entry(request.data, flags)
        # A client may send a copy of another producer's entry, whose header has that producer's name and sequence ids.
        if found is not None and found[0] == producer.name:
            mark = found[1]
        self._marks[id(request)] = (request, mark)
        return mark

    def _row(self, name: str) -> ProducerRow | None:
        progress = self._filter.progress(name)
        if progress is None:
            return None
        return ProducerRow(
            name, progress.highest, progress.chunk_sequence, progress.chunk_id, self._seen_ms.get(name, 0)
        )


def mark_of_entry(data: bytes, flags: int) -> tuple[str, Mark] | None:
    """Return the producer name and the sequence ids of a log entry, or None if the header is corrupt."""
    try:
        header = parse_header(data)
    except EntryCorrupt:
        return None
    return header.producer_name, _mark_of_header(header, data, flags)


def _mark_of_header(header: EntryHeader, data: bytes, flags: int) -> Mark:
    sequence_id = header.sequence_id
    if flags & FLAG_CHUNK and not flags & FLAG_LAST_CHUNK:
        return Mark(sequence_id, sequence_id, header.chunk_id)
    if header.highest_sequence_id is not None:
        return Mark(sequence_id, max(sequence_id, header.highest_sequence_id))
    if header.is_batch and not header.encrypted:
        # The C++, Python and Go clients write the last sequence id into the last message, not into the header.
        try:
            last = last_sequence_id(data, max_message_bytes=_MOST_BYTES)
        except EntryCorrupt:
            return Mark(sequence_id, sequence_id)
        return Mark(sequence_id, max(sequence_id, last))
    return Mark(sequence_id, sequence_id)
