"""The ledgers of a topic. Only the last ledger may be open for appends."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from broker.core.position import EARLIEST, Position


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerInfo:
    """A snapshot of one ledger.

    Fields that end in `_before` count everything before the ledger, including trimmed entries. Times are Unix time.
    """

    ledger_id: int
    entries: int = 0
    entries_before: int = 0
    messages_before: int = 0
    bytes_before: int = 0
    messages: int = 0
    size_bytes: int = 0
    sealed: bool = False
    opened_ms: int = 0
    first_append_ms: int = 0  # 0 while the ledger is empty
    last_append_ms: int = 0  # 0 if nothing was ever stored in the ledger


class Ledger:
    """One ledger in memory, with the fields of LedgerInfo."""

    __slots__ = (
        "bytes_before",
        "entries",
        "entries_before",
        "first_append_ms",
        "last_append_ms",
        "ledger_id",
        "messages",
        "messages_before",
        "opened_ms",
        "sealed",
        "size_bytes",
    )

    def __init__(self, info: LedgerInfo) -> None:
        self.ledger_id = info.ledger_id
        self.entries = info.entries
        self.entries_before = info.entries_before
        self.messages_before = info.messages_before
        self.bytes_before = info.bytes_before
        self.messages = info.messages
        self.size_bytes = info.size_bytes
        self.sealed = info.sealed
        self.opened_ms = info.opened_ms
        self.first_append_ms = info.first_append_ms
        self.last_append_ms = info.last_append_ms

    def empty(self) -> None:
        """Remove the entries of the ledger, and count them as entries before the ledger."""
        self.entries_before += self.entries
        self.messages_before += self.messages
        self.bytes_before += self.size_bytes
        self.entries = self.messages = self.size_bytes = self.first_append_ms = 0

    def info(self) -> LedgerInfo:
        return LedgerInfo(
            ledger_id=self.ledger_id,
            entries=self.entries,
            entries_before=self.entries_before,
            messages_before=self.messages_before,
            bytes_before=self.bytes_before,
            messages=self.messages,
            size_bytes=self.size_bytes,
            sealed=self.sealed,
            opened_ms=self.opened_ms,
            first_append_ms=self.first_append_ms,
            last_append_ms=self.last_append_ms,
        )


class LedgerMap:
    """The ledgers of one topic, in order of id."""

    def __init__(self, infos: Iterable[LedgerInfo] = ()) -> None:
        self._ids: list[int] = []
        self._ledgers: list[Ledger] = []
        self._by_id: dict[int, Ledger] = {}
        for info in infos:
            self.add(info)

    def __len__(self) -> int:
        return len(self._ledgers)

    def __iter__(self) -> Iterator[Ledger]:
        return iter(self._ledgers)

    def get(self, ledger_id: int) -> Ledger | None:
        return self._by_id.get(ledger_id)

    def infos(self) -> list[LedgerInfo]:
        return [ledger.info() for ledger in self._ledgers]

    def open_ledger(self) -> LedgerInfo | None:
        """Return the ledger that is open for appends, or None."""
        if self._ledgers and not self._ledgers[-1].sealed:
            return self._ledgers[-1].info()
        return None

    def add(self, info: LedgerInfo) -> None:
        """Add a new ledger.

        Raises ValueError if the id is not above the last ledger's id, or if the last ledger is open.
        """
        if self._ledgers:
            last = self._ledgers[-1]
            if info.ledger_id <= last.ledger_id:
                raise ValueError(f"ledger {info.ledger_id} is not above the last, {last.ledger_id}")
            if not last.sealed:
                raise ValueError(f"ledger {last.ledger_id} is open; seal it before adding {info.ledger_id}")
        ledger = Ledger(info)
        self._ids.append(info.ledger_id)
        self._ledgers.append(ledger)
        self._by_id[info.ledger_id] = ledger

    def append(self, ledger_id: int, entries: int, messages: int, size_bytes: int, append_ms: int) -> None:
        """Count entries that were appended to the open ledger. Raises ValueError if the ledger is not open."""
        ledger = self._by_id.get(ledger_id)
        if ledger is None or ledger.sealed:
            raise ValueError(f"ledger {ledger_id} is not open for appending")
        if not ledger.entries:
            ledger.first_append_ms = append_ms
        ledger.last_append_ms = append_ms
        ledger.entries += entries
        ledger.messages += messages
        ledger.size_bytes += size_bytes

    def seal(self, ledger_id: int) -> LedgerInfo:
        """Close a ledger permanently, and return its snapshot.

        Safe to repeat. Raises ValueError if the ledger is not known.
        """
        ledger = self._by_id.get(ledger_id)
        if ledger is None:
            raise ValueError(f"ledger {ledger_id} is not known")
        ledger.sealed = True
        return ledger.info()

    def drop_first(self, count: int = 1) -> list[LedgerInfo]:
        """Forget the oldest ledgers after a trim, and return their snapshots.

        The topic's last ledger is only emptied, because it keeps the topic's counts.
        Raises ValueError if a ledger to forget is open, or if there are too few ledgers.
        """
        if not 0 <= count <= len(self._ledgers) or any(not each.sealed for each in self._ledgers[:count]):
            raise ValueError(
                f"cannot drop {count} of {len(self._ledgers)} ledgers: too few, or one of them is open"
            )
        dropped = [ledger.info() for ledger in self._ledgers[:count]]
        if count == len(self._ledgers) and count:
            self._ledgers[-1].empty()
            count -= 1
        for ledger_id in self._ids[:count]:
            del self._by_id[ledger_id]
        del self._ids[:count]
        del self._ledgers[:count]
        return dropped

    @property
    def total_messages(self) -> int:
        """Messages ever stored, including trimmed messages."""
        if not self._ledgers:
            return 0
        last = self._ledgers[-1]
        return last.messages_before + last.messages

    @property
    def total_bytes(self) -> int:
        """Bytes ever stored, including trimmed bytes."""
        if not self._ledgers:
            return 0
        last = self._ledgers[-1]
        return last.bytes_before + last.size_bytes

    @property
    def total_entries(self) -> int:
        """Entries ever stored, including trimmed entries."""
        if not self._ledgers:
            return 0
        last = self._ledgers[-1]
        return last.entries_before + last.entries

    def contains(self, position: Position) -> bool:
        ledger = self._by_id.get(position.ledger_id)
        return ledger is not None and 0 <= position.entry_id < ledger.entries

    def first_position(self) -> Position:
        """Return the position of the first stored entry, or the result of `end` if nothing is stored."""
        return self.next_after(EARLIEST)

    def last_position(self) -> Position:
        """Return the position of the last stored entry.

        If nothing is stored, returns entry id -1 of the first ledger, or EARLIEST if there are no ledgers.
        """
        for ledger in reversed(self._ledgers):
            if ledger.entries:
                return Position(ledger.ledger_id, ledger.entries - 1)
        return self._before_first()

    def end(self) -> Position:
        """Return the position after the last ledger's entries, or (0, 0) if there are no ledgers."""
        if not self._ledgers:
            return Position(0, 0)
        last = self._ledgers[-1]
        return Position(last.ledger_id, last.entries)

    def next_after(self, position: Position) -> Position:
        """Return the position of the next stored entry above `position`, or the result of `end` if there is none."""
        ledger_id, entry_id = position
        ledger = self._by_id.get(ledger_id)
        if ledger is not None and entry_id + 1 < ledger.entries:
            return Position(ledger_id, entry_id + 1 if entry_id >= 0 else 0)
        for following in self._ledgers[bisect_right(self._ids, ledger_id) :]:
            if following.entries:
                return Position(following.ledger_id, 0)
        return self.end()

    def next_valid(self, position: Position) -> Position:
        """Return `position` if an entry is stored there, else the result of `next_after`."""
        return position if self.contains(position) else self.next_after(position)

    def previous_of(self, position: Position) -> Position:
        """Return the position of the last stored entry below `position`.

        If there is no such entry, returns entry id -1 of the first ledger, or EARLIEST if there are no ledgers.
        """
        ledger_id, entry_id = position
        ledger = self._by_id.get(ledger_id)
        if ledger is not None and entry_id > 0 and ledger.entries:
            return Position(ledger_id, min(entry_id, ledger.entries) - 1)
        for earlier in reversed(self._ledgers[: bisect_left(self._ids, ledger_id)]):
            if earlier.entries:
                return Position(earlier.ledger_id, earlier.entries - 1)
        return self._before_first()

    def floor(self, position: Position) -> Position:
        """Return `position` if an entry is stored there, else the result of `previous_of`."""
        return position if self.contains(position) else self.previous_of(position)

    def following(self, ledger_id: int) -> Ledger | None:
        """Return the first ledger with an id above `ledger_id`, or None."""
        at = bisect_right(self._ids, ledger_id)
        return self._ledgers[at] if at < len(self._ledgers) else None

    def entries_through(self, position: Position) -> int:
        """Return the number of entries up to and including `position`, counting trimmed entries too."""
        ledger = self._by_id.get(position.ledger_id)
        if ledger is not None:
            return ledger.entries_before + max(0, min(position.entry_id + 1, ledger.entries))
        following = self.following(position.ledger_id)
        return following.entries_before if following is not None else self.total_entries

    def entries_between(self, after: Position, through: Position) -> int:
        """Return the number of stored entries after one position, up to and including another."""
        return max(0, self.entries_through(through) - self.entries_through(after))

    def spans(self, after: Position, through: Position) -> Iterator[tuple[int, int, int]]:
        """Yield the stored entries after one position, up to and including another.

        Each item is (ledger_id, first entry_id, last entry_id).
        """
        for ledger in self._ledgers[bisect_left(self._ids, after.ledger_id) :]:
            if ledger.ledger_id > through.ledger_id:
                return
            first = max(0, after.entry_id + 1) if ledger.ledger_id == after.ledger_id else 0
            last = ledger.entries - 1
            if ledger.ledger_id == through.ledger_id:
                last = min(last, through.entry_id)
            if first <= last:
                yield ledger.ledger_id, first, last

    def _before_first(self) -> Position:
        return Position(self._ids[0], -1) if self._ids else EARLIEST
