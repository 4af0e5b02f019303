"""A cache of the cumulative message and byte counts of a topic's entries.

A chunk holds the counts of up to 32,768 consecutive entries of one ledger. The count -1 means "unknown".
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Final

from broker.core.ledgers.ledger import Ledger, LedgerMap
from broker.core.position import Position

CHUNK_SHIFT: Final = 15
CHUNK_ENTRIES: Final = 1 << CHUNK_SHIFT
CHUNK_MASK: Final = CHUNK_ENTRIES - 1
LOAD_ENTRIES: Final = 1024
LEDGER_SHIFT: Final = 32
# If the set bits form more runs than this, `itertools.compress` is faster than a loop.
_FEW_RUNS: Final = 200
_AS_SELECTORS: Final = bytes.maketrans(b"01", b"\0\1")


def chunk_key(ledger_id: int, entry_id: int) -> int:
    """Return the key of an entry's chunk. Keys sort by ledger and then by chunk."""
    return ledger_id << LEDGER_SHIFT | entry_id >> CHUNK_SHIFT


def chunk_of(key: int) -> tuple[int, int]:
    """Return the ledger id and the chunk number of a key."""
    return key >> LEDGER_SHIFT, key & ((1 << LEDGER_SHIFT) - 1)


Range = tuple[int, int, int]  # ledger_id, first entry_id, last entry_id


class IndexMissing(Exception):
    """A call needs counts that are not in memory. Record the counts of `ranges`, then repeat the call.

    The failed call changed nothing.
    """

    def __init__(self, ranges: Iterable[Range]) -> None:
        self.ranges: tuple[Range, ...] = tuple(sorted(set(ranges)))
        if not self.ranges:
            raise ValueError("IndexMissing needs the counts to load; an entry that is not stored has none")
        super().__init__(f"message index lacks {len(self.ranges)} ranges, from {self.ranges[0]}")


class MessageIndex:
    """The cumulative counts of one topic."""

    def __init__(self, ledgers: LedgerMap) -> None:
        self._ledgers = ledgers
        self._messages: dict[int, array[int]] = {}
        self._bytes: dict[int, array[int]] = {}
        self._newest = -1
        self.loads = 0  # Number of loads under way

    def __len__(self) -> int:
        """Return the number of chunks in memory."""
        return len(self._messages)

    def record(
        self,
        ledger_id: int,
        first_entry_id: int,
        cumulative_messages: Sequence[int],
        cumulative_bytes: Sequence[int],
    ) -> None:
        """Store the cumulative counts of consecutive entries.

        Safe to repeat. Raises ValueError if the two sequences differ in length.
        """
        if len(cumulative_messages) != len(cumulative_bytes):
            raise ValueError("cumulative_messages and cumulative_bytes must have one value for each entry")
        done = 0
        while done < len(cumulative_messages):
            entry_id = first_entry_id + done
            key = chunk_key(ledger_id, entry_id)
            at = entry_id & CHUNK_MASK
            size = min(CHUNK_ENTRIES - at, len(cumulative_messages) - done)
            if key != self._newest:
                self._refresh(key)
            _store(self._messages[key], at, cumulative_messages[done : done + size])
            _store(self._bytes[key], at, cumulative_bytes[done : done + size])
            done += size

    def counts(self, ledger: Ledger, entry_id: int) -> tuple[int, int] | None:
        """Return a stored entry's message count and size, or None if they are unknown."""
        key = ledger.ledger_id << LEDGER_SHIFT | entry_id >> CHUNK_SHIFT
        at = entry_id & CHUNK_MASK
        try:
            messages = self._messages[key]
            size_bytes = self._bytes[key]
            through = messages[at]
            if at:
                before = messages[at - 1]
                bytes_before = size_bytes[at - 1]
            elif entry_id:
                before = self._messages[key - 1][CHUNK_MASK]
                bytes_before = self._bytes[key - 1][CHUNK_MASK]
            else:
                before = ledger.messages_before
                bytes_before = ledger.bytes_before
        except (KeyError, IndexError):
            return None
        if through < 0 or before < 0:
            return None
        return through - before, size_bytes[at] - bytes_before

    def sum_of(self, ledger: Ledger, chunk: int, bits: int) -> tuple[int, int] | None:
        """Return the total message and byte counts of the entries whose bits are set, or None if a count is unknown.

        Bit 0 stands for the chunk's first entry.
        """
        key = ledger.ledger_id << LEDGER_SHIFT | chunk
        counts, sizes = self._messages.get(key), self._bytes.get(key)
        high = bits.bit_length() - 1
        if counts is None or sizes is None or len(counts) <= high:
            return (0, 0) if not bits else None
        before = self._before_chunk(ledger, chunk) if bits & 1 else (0, 0)
        if before is None:
            return None
        starts, ends = bits & ~(bits << 1), bits & ~(bits >> 1)
        if starts.bit_count() <= _FEW_RUNS:
            return _sum_runs(counts, sizes, before, starts, ends)
        first = (bits & -bits).bit_length() - 1
        if _unknown(counts, max(0, first - 1), high) is not None:
            return None
        at_ends, at_befores = _selectors(ends, high), _selectors(starts >> 1, high)
        size_bytes = sum(compress(sizes, at_ends)) - sum(compress(sizes, at_befores)) - before[1]
        base = counts[first - 1] if first else before[0]
        if counts[high] - base == high + 1 - first:
            return bits.bit_count(), size_bytes
        return sum(compress(counts, at_ends)) - sum(compress(counts, at_befores)) - before[0], size_bytes

    def _before_chunk(self, ledger: Ledger, chunk: int) -> tuple[int, int] | None:
        if not chunk:
            return ledger.messages_before, ledger.bytes_before
        key = (ledger.ledger_id << LEDGER_SHIFT | chunk) - 1
        counts = self._messages.get(key)
        if counts is None or len(counts) < CHUNK_ENTRIES or counts[CHUNK_MASK] < 0:
            return None
        return counts[CHUNK_MASK], self._bytes[key][CHUNK_MASK]

    def messages_in(self, position: Position) -> int | None:
        """Return an entry's message count, or None if the count is unknown or the entry is not stored."""
        if not self._ledgers.contains(position):
            return None
        ledger = self._ledgers.get(position.ledger_id)
        counts = self.counts(ledger, position.entry_id) if ledger is not None else None
        return counts[0] if counts is not None else None

    def require_messages_in(self, position: Position) -> int:
        """Return an entry's message count, or 0 if the entry is not stored.

        Raises IndexMissing if the count is unknown.
        """
        messages = self.messages_in(position)
        if messages is None:
            if not self._ledgers.contains(position):
                return 0
            raise IndexMissing(self.unknown(position))
        return messages

    def messages_through(self, position: Position) -> int | None:
        """Return the topic's message count up to and including `position`, or None if unknown."""
        through = self.through(position)
        return through[0] if through is not None else None

    def bytes_through(self, position: Position) -> int | None:
        """Return the topic's byte count up to and including `position`, or None if unknown."""
        through = self.through(position)
        return through[1] if through is not None else None

    def through(self, position: Position) -> tuple[int, int] | None:
        """Return the topic's message and byte counts up to and including `position`, or None if unknown."""
        ledger_id, entry_id = position
        ledger = self._ledgers.get(ledger_id)
        if ledger is None:
            following = self._ledgers.following(ledger_id)
            if following is not None:
                return following.messages_before, following.bytes_before
            return self._ledgers.total_messages, self._ledgers.total_bytes
        if entry_id < 0:
            return ledger.messages_before, ledger.bytes_before
        if entry_id >= ledger.entries - 1:
            return ledger.messages_before + ledger.messages, ledger.bytes_before + ledger.size_bytes
        key = chunk_key(ledger_id, entry_id)
        at = entry_id & CHUNK_MASK
        messages = self._messages.get(key)
        if messages is None or at >= len(messages) or messages[at] < 0:
            return None
        return messages[at], self._bytes[key][at]

    def unknown(self, position: Position) -> list[Range]:
        """Return the ranges of unknown counts to load for a stored entry and its neighbours."""
        ledger = self._ledgers.get(position.ledger_id)
        if ledger is None:
            return []
        first = max(0, (position.entry_id - 1) // LOAD_ENTRIES * LOAD_ENTRIES)
        last = min(ledger.entries, max(first + LOAD_ENTRIES, position.entry_id + 1)) - 1
        return [(ledger.ledger_id, low, high) for low, high in self.missing(ledger.ledger_id, first, last)]

    def missing(self, ledger_id: int, low: int, high: int) -> list[tuple[int, int]]:
        """Return ranges (first, last) that cover every unknown count from `low` to `high`.

        The ranges can contain known counts too.
        """
        ranges: list[tuple[int, int]] = []
        for chunk in range(low >> CHUNK_SHIFT, (high >> CHUNK_SHIFT) + 1):
            base = chunk << CHUNK_SHIFT
            first, last = max(low, base) - base, min(high, base + CHUNK_MASK) - base
            found = _unknown(self._messages.get(chunk_key(ledger_id, base)), first, last)
            if found is None:
                continue
            if ranges and ranges[-1][1] == base + found[0] - 1:
                ranges[-1] = (ranges[-1][0], base + found[1])
            else:
                ranges.append((base + found[0], base + found[1]))
        return ranges

    def entry_at(self, ledger: Ledger, messages: int) -> int:
        """Return the id of the first entry whose cumulative message count exceeds `messages`.

        Returns `ledger.entries` if there is no such entry. Raises IndexMissing if a count in the ledger is unknown.
        """
        ranges = self.missing(ledger.ledger_id, 0, ledger.entries - 1)
        if ranges:
            raise IndexMissing((ledger.ledger_id, low, high) for low, high in ranges)
        return self.first_above(ledger.ledger_id, 0, ledger.entries - 1, messages)

    def first_above(self, ledger_id: int, low: int, high: int, messages: int) -> int:
        """Return the id of the first entry from `low` to `high` whose cumulative message count exceeds `messages`.

        Returns `high + 1` if there is no such entry. All counts from `low` to `high` must be known.
        """
        for chunk in range(low >> CHUNK_SHIFT, (high >> CHUNK_SHIFT) + 1):
            base = chunk << CHUNK_SHIFT
            counts = self._messages[chunk_key(ledger_id, base)]
            first, last = max(low, base) - base, min(high, base + CHUNK_MASK) - base
            if counts[last] > messages:
                return base + bisect_right(counts, messages, first, last + 1)
        return high + 1

    def evict(self, keep_from: Position, max_chunks: int) -> int:
        """Evict the chunks that end before `keep_from`. Return the number of evicted chunks.

        If more than `max_chunks` remain, evict the least recently recorded chunks too. The most recently recorded chunk
        always stays. During a load, every chunk stays, because a cursor move may need all of them.
        """
        if self.loads:
            return 0
        floor = chunk_key(keep_from.ledger_id, max(0, keep_from.entry_id)) if keep_from.ledger_id >= 0 else -1
        doomed = [key for key in self._messages if key < floor and key != self._newest]
        surplus = len(self._messages) - len(doomed) - max(1, max_chunks)
        if surplus > 0:
            keep = [key for key in self._messages if key >= floor and key != self._newest]
            doomed += keep[:surplus]
        for key in doomed:
            del self._messages[key], self._bytes[key]
        return len(doomed)

    def forget_before(self, ledger_id: int) -> None:
        """Evict every chunk of the ledgers whose ids are below `ledger_id`."""
        floor = chunk_key(ledger_id, 0)
        for key in [key for key in self._messages if key < floor]:
            del self._messages[key], self._bytes[key]
        if self._newest < floor:
            self._newest = -1

    def _refresh(self, key: int) -> None:
        # Move the chunk to the end of the dicts, because eviction begins at the front.
        self._messages[key] = self._messages.pop(key, array("q"))
        self._bytes[key] = self._bytes.pop(key, array("q"))
        self._newest = key


def _store(counts: array[int], at: int, values: Sequence[int]) -> None:
    if at > len(counts):
        counts.extend([-1] * (at - len(counts)))
    counts[at : at + len(values)] = array("q", values)


def _unknown(counts: array[int] | None, first: int, last: int) -> tuple[int, int] | None:
    """Return the first and last index of the unknown counts, or None if all counts are known."""
    if counts is None:
        return first, last
    known = min(last + 1, len(counts))
    try:
        low = counts.index(-1, first, known) if first < known else known
    except ValueError:
        low = known
    low = max(low, first)
    if low > last:
        return None
    if known <= last:
        return low, last
    high = last
    while counts[high] >= 0:
        high -= 1
    return low, high


def _selectors(bits: int, high: int) -> bytes:
    return format(bits, f"0{high + 1}b")[::-1].encode().translate(_AS_SELECTORS)


def _sum_runs(
    counts: array[int], sizes: array[int], before: tuple[int, int], starts: int, ends: int
) -> tuple[int, int] | None:
    """Return the total message and byte counts of runs of consecutive entries, or None if a count is unknown.

    The bits in `starts` mark the first entry of each run. The bits in `ends` mark the last entry of each run.
    """
    messages = size_bytes = 0
    while starts:
        first = (starts & -starts).bit_length() - 1
        last = (ends & -ends).bit_length() - 1
        starts &= starts - 1
        ends &= ends - 1
        base = (counts[first - 1], sizes[first - 1]) if first else before
        if counts[last] < 0 or base[0] < 0:
            return None
        messages += counts[last] - base[0]
        size_bytes += sizes[last] - base[1]
    return messages, size_bytes
