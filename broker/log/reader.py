"""Read one topic's log. A ledger is in a segment (a pair of tables in PostgreSQL) or, after an offload, in a file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from broker.core.errors import PersistenceFailed
from broker.core.position import Position
from broker.log.entry_check import verified
from broker.log.places.file import FilePlace, OffloadedUnreadable
from broker.log.places.place import PlaceGone
from broker.log.places.segment import SegmentPlace

if TYPE_CHECKING:
    from broker.core.entry import StoredEntry
    from broker.core.ledgers.ledger import LedgerInfo
    from broker.log.places.file import FileReads
    from broker.log.places.place import LedgerPlace
    from broker.log.topic_log import TopicLog
    from broker.storage.pool import ConnectionPool

__all__ = ["READ_ENTRIES", "GapInLog", "TopicReader"]

T = TypeVar("T")

READ_BYTES = 4 * 1024 * 1024
READ_ENTRIES = 1000
_INDEX_LOAD_ENTRIES = 32_768


class GapInLog(PersistenceFailed):
    """An entry is missing from its ledger."""


class TopicReader:
    """Reads one topic's log.

    Every method raises OffloadedUnreadable if a ledger's file cannot be read, PlaceGone if a file or segment is lost,
    and psycopg.Error if the server refuses a read. All methods are safe to cancel.
    """

    def __init__(self, pool: ConnectionPool, files: FileReads, topic_log: TopicLog) -> None:
        self._pool = pool
        self._files = files
        self._log = topic_log
        self.failed_file_reads = 0

    async def read_ahead(self, position: Position) -> list[StoredEntry]:
        """Read entries of one ledger, starting at `position`, and cache them.

        Raises the errors of `read_once`.
        """
        whole = await self.read_once(position, most=READ_ENTRIES, more_bytes=READ_BYTES)
        self._log.remember(whole)
        return whole

    async def read_once(self, position: Position, *, most: int, more_bytes: int) -> list[StoredEntry]:
        """Read entries of one ledger, starting at `position`, without caching them.

        `most` limits the number of entries, and `more_bytes` limits the data after the first entry. Returns an empty
        list if the entry at `position` is not stored yet or was trimmed. Raises GapInLog if that entry was lost.
        """
        ledger = self._log.ledgers.get(position.ledger_id)
        if ledger is None or position.entry_id >= ledger.entries:
            return []
        last = min(ledger.entries, position.entry_id + most) - 1
        entries = await self._ask(
            position.ledger_id,
            lambda place: place.read(position.entry_id, last, more_bytes=more_bytes),
            is_whole=bool,
        )
        if entries is None:
            return []
        entries = verified(entries)
        whole = [entry for at, entry in enumerate(entries) if entry.entry_id == position.entry_id + at]
        if not whole:
            raise self._gap(position)
        return whole

    async def read_chosen(self, positions: Sequence[Position]) -> list[StoredEntry]:
        """Read and cache these entries, up to the limits of one read. Return them in the order of the log.

        Leaves out trimmed entries. Raises GapInLog if any other entry is missing.
        """
        found: list[StoredEntry] = []
        for ledger_id, group in groupby(sorted(self._within_one_read(positions)), key=lambda p: p.ledger_id):
            wanted = list(group)
            entries = await self._ask(
                ledger_id, partial(_read_some, wanted), is_whole=partial(_has_all, wanted)
            )
            if entries is None:
                continue
            entries = verified(entries)
            self._log.remember(entries)
            found += entries
            stored = {entry.entry_id for entry in entries}
            for position in wanted:
                if position.entry_id not in stored and self._log.ledgers.contains(position):
                    raise self._gap(position)
        return found

    def _within_one_read(self, positions: Iterable[Position]) -> list[Position]:
        wanted: list[Position] = []
        size_bytes = 0
        for position in positions:
            if wanted and (size_bytes >= READ_BYTES or len(wanted) == READ_ENTRIES):
                break
            ledger = self._log.ledgers.get(position.ledger_id)
            if ledger is None:
                continue
            counts = self._log.index.counts(ledger, position.entry_id)
            size_bytes += ledger.size_bytes // max(1, ledger.entries) if counts is None else counts[1]
            wanted.append(position)
        return wanted

    async def load_index(self, ranges: Iterable[tuple[int, int, int]]) -> None:
        """Load the message counts of ranges of entries into memory. Safe to repeat.

        A range is a ledger id, a first entry id and a last entry id. Long ranges are loaded in pieces. Raises GapInLog
        if the last entry of a piece is missing. Other missing entries cause no error.
        """
        self._log.index.loads += 1
        try:
            for ledger_id, first, last in ranges:
                await self._load_counts(ledger_id, first, last)
        finally:
            self._log.index.loads -= 1

    async def _load_counts(self, ledger_id: int, first: int, last: int) -> None:
        for start in range(first, last + 1, _INDEX_LOAD_ENTRIES):
            end = min(last, start + _INDEX_LOAD_ENTRIES - 1)
            begin = max(0, start - 1)
            rows = await self._ask(
                ledger_id,
                partial(_read_counts, first=begin, last=end),
                is_whole=lambda rows, size=end + 1 - begin: len(rows) == size,  # type: ignore[misc]
            )
            if rows is None:
                break
            if not rows or rows[-1][0] != end:
                raise self._gap(Position(ledger_id, end))
            for run in _consecutive(rows):
                self._log.index.record(ledger_id, run[0][0], [row[1] for row in run], [row[2] for row in run])

    async def append_ms(self, position: Position) -> int | None:
        """Return an entry's append time in Unix milliseconds, or None if the entry is not stored."""
        return await self._ask(
            position.ledger_id,
            lambda place: place.append_ms(position.entry_id),
            is_whole=lambda found: found is not None,
        )

    async def messages_through(self, position: Position) -> int | None:
        """Return the topic's message count up to and including an entry, or None if the entry is not stored."""
        return await self._ask(
            position.ledger_id,
            lambda place: place.messages_through(position.entry_id),
            is_whole=lambda found: found is not None,
        )

    async def position_at_time(self, time_ms: int) -> Position:
        """Return the position of the first entry appended at or after `time_ms`.

        If there is no such entry, returns the end of the log. Raises GapInLog if the search meets a missing entry.
        """
        for ledger in self._log.ledgers.infos():
            if not ledger.entries or ledger.last_append_ms < time_ms:
                continue
            found = await self._entry_at_time(ledger, time_ms)
            if found is not None:
                return Position(ledger.ledger_id, found)
        return self._log.ledgers.end()

    async def _entry_at_time(self, ledger: LedgerInfo, time_ms: int) -> int | None:
        # A binary search works because append times never decrease.
        low, high = 0, ledger.entries - 1
        while low < high:
            middle = Position(ledger.ledger_id, (low + high) // 2)
            found_ms = await self.append_ms(middle)
            if found_ms is None:
                if self._log.ledgers.contains(middle):
                    raise self._gap(middle)
                return None
            if found_ms < time_ms:
                low = middle.entry_id + 1
            else:
                high = middle.entry_id
        return low

    async def _ask(
        self,
        ledger_id: int,
        call: Callable[[LedgerPlace], Awaitable[T]],
        *,
        is_whole: Callable[[T], bool],
    ) -> T | None:
        """Run `call`. Return None if the ledger was trimmed.

        If moving the ledger made `call` fail or return an incomplete answer, run `call` again.
        """
        while (place := self._place(ledger_id)) is not None:
            try:
                answer = await call(place)
            except PlaceGone:
                if self._place(ledger_id) == place:
                    self.failed_file_reads += isinstance(place, FilePlace)
                    raise
                continue
            except OffloadedUnreadable:
                self.failed_file_reads += 1
                raise
            if is_whole(answer) or self._place(ledger_id) == place:
                return answer
        return None

    def _place(self, ledger_id: int) -> LedgerPlace | None:
        if (name := self._log.files.get(ledger_id)) is not None:
            return FilePlace(files=self._files, name=name, ledger_id=ledger_id)
        if (segment_id := self._log.segments.get(ledger_id)) is not None:
            return SegmentPlace(pool=self._pool, segment_id=segment_id, ledger_id=ledger_id)
        return None

    def _gap(self, position: Position) -> GapInLog:
        return GapInLog(
            f"entry {position} is missing from {self._place(position.ledger_id)} although the ledger has it; delivery"
            " stops here: check the database for lost rows, then move the cursor past them or restart the broker"
        )


async def _read_some(wanted: Sequence[Position], place: LedgerPlace) -> list[StoredEntry]:
    return await place.read_some([each.entry_id for each in wanted])


def _has_all(wanted: Sequence[Position], entries: Sequence[StoredEntry]) -> bool:
    return len(entries) == len({position.entry_id for position in wanted})


def _consecutive(rows: Sequence[tuple[int, int, int]]) -> list[Sequence[tuple[int, int, int]]]:
    if rows[-1][0] - rows[0][0] + 1 == len(rows):
        return [rows]
    starts = [at for at, row in enumerate(rows) if not at or row[0] != rows[at - 1][0] + 1]
    return [rows[start:end] for start, end in zip(starts, [*starts[1:], len(rows)], strict=True)]


async def _read_counts(place: LedgerPlace, *, first: int, last: int) -> list[tuple[int, int, int]]:
    return await place.read_counts(first, last)
