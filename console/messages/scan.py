"""Search logs message by message, within limits."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final, Literal

from django.db import OperationalError
from psycopg.errors import QueryCanceled

from console.messages.asked import Asked, Mark, Spot
from console.messages.entries import OpenedEntry, StoredEntry, Trouble, open_entry, unacked_members
from console.messages.filters import matches, slots_of_key
from console.messages.lanes import Lane
from console.messages.reader import MOST_ENTRY_BYTES, LaneReader
from vela.wire.entry import Message

__all__ = ["EXPORT_BOUNDS", "PAGE_BOUNDS", "Bounds", "Hit", "Looked", "Scan", "StoppedBy"]

StoppedBy = Literal["end", "limit", "entries", "bytes", "time", "database", "cursor"]
_Key = tuple[int, int, int]  # Append time, ledger and entry, all negated in a backward search


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The limits of one search."""

    entries: int  # Number of opened entries
    bytes: int
    seconds: float


PAGE_BOUNDS: Final = Bounds(entries=20_000, bytes=64 * 1024 * 1024, seconds=0.8)
EXPORT_BOUNDS: Final = Bounds(entries=1_000_000, bytes=1024 * 1024 * 1024, seconds=60.0)
PAUSE_S: Final = 1.0


class _TimeUp(Exception):
    """The search took too long to find the next entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One matching message, or a matching entry whose messages cannot be read."""

    lane: Lane
    opened: OpenedEntry
    message: Message | None  # None if the entry's messages cannot be read

    @property
    def spot(self) -> Spot:
        """Return the position of the message, or of the entry."""
        return Spot(*self.opened.stored.place, -1 if self.message is None else self.message.batch_index)


@dataclass(slots=True, kw_only=True)
class Looked:
    """The progress of a search, and why it stopped."""

    entries: int = 0  # Includes entries that the search skipped because of their key hash
    opened: int = 0
    messages: int = 0
    bytes: int = 0
    matched: int = 0
    unjudged: Counter[Trouble] = field(default_factory=Counter)
    # Entries that the broker trimmed, or moved to another table or to a file, during the search
    gone: int = 0
    oldest_ms: int = 0  # 0 if no entry was opened
    newest_ms: int = 0
    stopped_by: StoppedBy = "end"
    mark: Mark | None = None


class Scan:
    """A search in one or more logs."""

    def __init__(self, lanes: Sequence[Lane], asked: Asked, bounds: Bounds) -> None:
        self.looked = Looked(mark=asked.after)
        self._asked = asked
        self._bounds = bounds
        self._until_s = 0.0
        self.is_narrowed = bool(asked.filters.key)
        slots = slots_of_key(asked.filters.key) if self.is_narrowed else None
        self._readers = [
            LaneReader(lane, is_backward=asked.is_backward, slots=slots, shares=len(lanes)) for lane in lanes
        ]
        self._buffers: list[deque[tuple[StoredEntry, int]]] = [deque() for _ in lanes]

    def hits(self) -> Iterator[Hit]:
        """Yield the hits in order."""
        return (hit for hit in self.steps() if hit is not None)

    def steps(self) -> Iterator[Hit | None]:
        """Yield the hits. Yield None about once a second, so that the caller can stop the search."""
        begun_s = time.monotonic()
        self._until_s, pause_s = begun_s + self._bounds.seconds, begun_s + PAUSE_S
        try:
            for reader, entry in self._merged():
                if time.monotonic() >= pause_s:
                    yield None
                    pause_s = time.monotonic() + PAUSE_S
                for hit in self._of_entry(reader, entry):
                    yield hit
                    if self.looked.matched >= self._asked.limit:
                        self.looked.stopped_by = "limit"
                        return
                self.looked.mark = Mark(entry.append_ms, Spot(*entry.place))
                if (reason := self._exhausted()) is not None:
                    self.looked.stopped_by = reason
                    return
        except _TimeUp:
            self.looked.stopped_by = "time"
            return
        except OperationalError as error:
            if not isinstance(error.__cause__, QueryCanceled):
                raise
            self.looked.stopped_by = "database"
            return
        if any(reader.lane.is_cut for reader in self._readers):
            self.looked.stopped_by = "cursor"

    def _exhausted(self) -> StoppedBy | None:
        if self.looked.opened >= self._bounds.entries:
            return "entries"
        if self.looked.bytes >= self._bounds.bytes:
            return "bytes"
        return "time" if time.monotonic() >= self._until_s else None

    def _merged(self) -> Iterator[tuple[LaneReader, StoredEntry]]:
        heads = [
            (self._key(entry), at)
            for at in range(len(self._readers))
            if (entry := self._next(at)) is not None
        ]
        heapify(heads)
        while heads:
            _, at = heappop(heads)
            entry, step = self._buffers[at].popleft()
            self.looked.entries += step
            yield self._readers[at], entry
            following = self._next(at)
            if following is not None:
                heappush(heads, (self._key(following), at))

    def _next(self, at: int) -> StoredEntry | None:
        """Return the next entry and leave it in the buffer. Raises _TimeUp if the search takes too long."""
        buffer, looked = self._buffers[at], self.looked
        while not buffer:
            piece = self._readers[at].next_piece()
            if piece is None:
                return None
            looked.gone += piece.gone
            found = zip(piece.entries, piece.steps, strict=True)
            buffer.extend((entry, step) for entry, step in found if not self._was_seen(entry))
            if not buffer and time.monotonic() >= self._until_s:
                raise _TimeUp
        return buffer[0][0]

    def _key(self, entry: StoredEntry) -> _Key:
        sign = -1 if self._asked.is_backward else 1
        return sign * entry.append_ms, sign * entry.ledger_id, sign * entry.entry_id

    def _was_seen(self, entry: StoredEntry) -> bool:
        after = self._asked.after
        if after is None or (entry.place == after.spot[:2] and after.spot.batch_index >= 0):
            return False
        sign = -1 if self._asked.is_backward else 1
        ledger_id, entry_id, _ = after.spot
        return self._key(entry) <= (sign * after.append_ms, sign * ledger_id, sign * entry_id)

    def _of_entry(self, reader: LaneReader, entry: StoredEntry) -> Iterator[Hit]:
        """Yield the hits of one entry.

        Sets `looked.mark` before it yields a hit, because the caller may stop at any hit.
        """
        looked, filters = self.looked, self._asked.filters
        self._count(entry)
        opened = open_entry(entry, most_bytes=MOST_ENTRY_BYTES, most_unpacked_bytes=MOST_ENTRY_BYTES)
        if opened.trouble is not None:
            passes = self._judge_unread(opened)
            if passes is None:
                looked.unjudged[opened.trouble] += 1
            elif passes:
                looked.matched += 1
                looked.mark = Mark(entry.append_ms, Spot(*entry.place))
                yield Hit(lane=reader.lane, opened=opened, message=None)
            return
        for message in self._wanted(reader.lane, opened):
            if matches(filters, message):
                looked.matched += 1
                looked.mark = Mark(entry.append_ms, Spot(*entry.place, message.batch_index))
                yield Hit(lane=reader.lane, opened=opened, message=message)

    def _judge_unread(self, opened: OpenedEntry) -> bool | None:
        filters = self._asked.filters
        if not filters.is_set:
            return True
        return None if opened.outer is None else matches(filters, opened.outer, has_payload=False)

    def _wanted(self, lane: Lane, opened: OpenedEntry) -> Sequence[Message]:
        asked, place = self._asked, opened.stored.place
        unacked = None if lane.unacked is None else lane.unacked.get(lane.log.index_of(*place))
        messages = list(unacked_members(opened, unacked))
        if asked.start == "id" and asked.spot is not None:
            messages = self._from(messages, place, asked.spot, is_inclusive=True)
        if asked.after is not None:
            messages = self._from(messages, place, asked.after.spot, is_inclusive=False)
        return messages[::-1] if asked.is_backward else messages

    def _from(
        self, messages: list[Message], place: tuple[int, int], spot: Spot, *, is_inclusive: bool
    ) -> list[Message]:
        if place != spot[:2] or spot.batch_index < 0:
            return messages
        sign = -1 if self._asked.is_backward else 1
        return [
            message
            for message in messages
            if (ahead := sign * (message.batch_index - spot.batch_index)) > 0 or (is_inclusive and ahead == 0)
        ]

    def _count(self, entry: StoredEntry) -> None:
        looked = self.looked
        looked.opened += 1
        looked.messages += entry.messages
        looked.bytes += len(entry.data)
        looked.oldest_ms = min(looked.oldest_ms or entry.append_ms, entry.append_ms)
        looked.newest_ms = max(looked.newest_ms, entry.append_ms)
