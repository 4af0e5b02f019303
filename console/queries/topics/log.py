"""A topic's log with an index for each entry.

The index of an entry is the number of entries before it, across all ledgers. A segment is a pair of tables with the
entries of many ledgers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from console.queries.database import fetch, fetch_entries
from console.queries.stores import Store, store_of

__all__ = [
    "Ends",
    "EntryAt",
    "LedgerRow",
    "Log",
    "Place",
    "by_place",
    "ends_of",
    "entries_at",
    "log_of",
    "logs_of",
]

Place = tuple[int, int]  # Ledger id and entry id


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """One ledger."""

    ledger_id: int
    state: str
    segment_id: int | None  # None means offloaded or trimmed
    file_name: str | None
    opened_ms: int
    entries_before: int
    messages_before: int
    bytes_before: int
    entries: int
    messages: int
    size_bytes: int
    first_append_ms: int  # 0 means no entry is stored
    last_append_ms: int  # 0 means no entry was ever stored

    @property
    def store(self) -> Store | None:
        """Where the entries are stored. None if the entries were trimmed."""
        return store_of(ledger_id=self.ledger_id, segment_id=self.segment_id, file_name=self.file_name)

    @property
    def is_emptied(self) -> bool:
        """Whether the ledger is sealed and has no entries."""
        return self.state == "sealed" and not self.entries


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryAt:
    """One entry without its data."""

    ledger_id: int
    entry_id: int
    messages: int
    append_ms: int
    cumulative_messages: int

    @property
    def place(self) -> Place:
        """The ledger id and entry id."""
        return (self.ledger_id, self.entry_id)


@dataclass(frozen=True, slots=True)
class Log:
    """All ledgers of a topic in order."""

    ledgers: tuple[LedgerRow, ...]
    _ids: list[int] = field(init=False, repr=False, compare=False)
    _begins: list[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ids", [ledger.ledger_id for ledger in self.ledgers])
        object.__setattr__(self, "_begins", [ledger.entries_before for ledger in self.ledgers])

    @property
    def total_messages(self) -> int:
        """Messages ever appended, including trimmed messages."""
        last = self.ledgers[-1] if self.ledgers else None
        return last.messages_before + last.messages if last else 0

    @property
    def total_bytes(self) -> int:
        """Bytes ever appended."""
        last = self.ledgers[-1] if self.ledgers else None
        return last.bytes_before + last.size_bytes if last else 0

    @property
    def begin(self) -> int:
        """Index of the first stored entry, or `end` if no entry is stored."""
        return self.ledgers[0].entries_before if self.ledgers else 0

    @property
    def end(self) -> int:
        """Index after the last entry."""
        last = self.ledgers[-1] if self.ledgers else None
        return last.entries_before + last.entries if last else 0

    def index_of(self, ledger_id: int, entry_id: int) -> int:
        """Return the index of a position. For a trimmed entry, return the index before the next stored entry."""
        at = bisect_right(self._ids, ledger_id) - 1
        if at < 0:
            return self.begin - 1
        ledger = self.ledgers[at]
        if ledger.ledger_id != ledger_id or (ledger.is_emptied and entry_id >= 0):
            return ledger.entries_before + ledger.entries - 1
        return ledger.entries_before + min(entry_id, ledger.entries)

    def stores_of(self, places: Iterable[Place]) -> set[Store]:
        """Return the segments and files that store these entries."""
        asked = {ledger_id for ledger_id, _ in places}
        return {
            store
            for ledger in self.ledgers
            if ledger.ledger_id in asked and (store := ledger.store) is not None
        }

    def place_at(self, index: int) -> Place | None:
        """Return the place of the entry with this index, if any."""
        ledger = self.ledger_at(index)
        return None if ledger is None else (ledger.ledger_id, index - ledger.entries_before)

    def ledger_at(self, index: int) -> LedgerRow | None:
        """Return the ledger that stores the entry with this index, if any."""
        # Several ledgers can begin at the same index. Only the last of them can have entries.
        at = bisect_right(self._begins, index) - 1
        if at < 0 or index >= self.ledgers[at].entries_before + self.ledgers[at].entries:
            return None
        return self.ledgers[at]

    def has_ledger(self, ledger_id: int) -> bool:
        """Return whether the log has this ledger and the ledger is not emptied."""
        at = bisect_right(self._ids, ledger_id) - 1
        return at >= 0 and self._ids[at] == ledger_id and not self.ledgers[at].is_emptied


@dataclass(frozen=True, slots=True, kw_only=True)
class _LedgerOf(LedgerRow):
    topic_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenEnd:
    ledger_id: int
    entry_id: int
    cumulative_messages: int
    cumulative_bytes: int
    last_append_ms: int
    first_append_ms: int


def log_of(topic_id: int) -> Log:
    """Read a topic's log."""
    return logs_of([topic_id])[topic_id]


def logs_of(topic_ids: Sequence[int]) -> dict[int, Log]:
    """Read the logs of several topics."""
    rows: dict[int, list[LedgerRow]] = {topic_id: [] for topic_id in topic_ids}
    for row in fetch(_LedgerOf, "log", "ledgers", {"topics": list(topic_ids)}):
        rows[row.topic_id].append(row)
    open_ledgers = {
        ledgers[-1].ledger_id: ledgers[-1].segment_id
        for ledgers in rows.values()
        if ledgers and ledgers[-1].state == "open" and ledgers[-1].segment_id is not None
    }
    ends = _ends_of_open(open_ledgers)
    return {
        topic_id: Log((*ledgers[:-1], _with_its_end(ledgers[-1], ends))) if ledgers else Log(())
        for topic_id, ledgers in rows.items()
    }


def _ends_of_open(open_ledgers: Mapping[int, int | None]) -> dict[int, _OpenEnd]:
    segments = {segment for segment in open_ledgers.values() if segment is not None}
    found = fetch_entries(_OpenEnd, "ends_of_open", segments, {"ledgers": list(open_ledgers)})
    return {end.ledger_id: end for end in found}


def _with_its_end(ledger: LedgerRow, ends: Mapping[int, _OpenEnd]) -> LedgerRow:
    end = ends.get(ledger.ledger_id)
    if end is None:
        return ledger
    return replace(
        ledger,
        entries=end.entry_id + 1,
        messages=end.cumulative_messages - ledger.messages_before,
        size_bytes=end.cumulative_bytes - ledger.bytes_before,
        first_append_ms=end.first_append_ms,
        last_append_ms=end.last_append_ms,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Numbers of messages and bytes ever appended to each topic."""

    topics: list[int]
    messages: list[int]
    bytes: list[int]

    @classmethod
    def of(cls, topic_id: int, log: Log) -> Ends:
        """Return the numbers for one topic."""
        return cls(topics=[topic_id], messages=[log.total_messages], bytes=[log.total_bytes])


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastLedger:
    topic_id: int
    ledger_id: int | None
    is_open: bool | None
    segment_id: int | None
    messages: int  # Messages ever appended, except to an open ledger
    size_bytes: int


def ends_of(topic_id: int) -> Ends:
    """Read the numbers for a topic and its partitions."""
    last = fetch(_LastLedger, "log", "last_ledgers", {"topic_id": topic_id})
    ends = _ends_of_open(
        {row.ledger_id: row.segment_id for row in last if row.ledger_id is not None and row.is_open}
    )
    return Ends(
        topics=[row.topic_id for row in last],
        messages=[
            end.cumulative_messages if (end := ends.get(row.ledger_id or 0)) else row.messages for row in last
        ],
        bytes=[
            end.cumulative_bytes if (end := ends.get(row.ledger_id or 0)) else row.size_bytes for row in last
        ],
    )


def entries_at(log: Log, places: Iterable[Place]) -> dict[Place, EntryAt]:
    """Return the stored entries at these places.

    Raises OffloadUnavailable if a ledger's file cannot be read.
    """
    asked = list(places)
    rows = fetch_entries(EntryAt, "at", log.stores_of(asked), by_place(asked))
    return {row.place: row for row in rows}


def by_place(places: Iterable[Place]) -> dict[str, list[int]]:
    """Return the places as parameters of a query."""
    asked = list(places)
    return {"ledgers": [place[0] for place in asked], "entries": [place[1] for place in asked]}
