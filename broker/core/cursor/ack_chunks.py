"""Acks beyond the mark-delete position, in chunks of 32,768 entries.

Bitmaps have the same layout in memory and in PostgreSQL. The slot of an entry is the entry's index within the chunk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from broker.core.cursor.position_set import BLOCK_ENTRIES
from broker.core.cursor.state import AckChunk, CursorFlush
from broker.core.ledgers.message_index import (
    CHUNK_ENTRIES,
    CHUNK_MASK,
    CHUNK_SHIFT,
    LEDGER_SHIFT,
    Range,
    chunk_key,
    chunk_of,
)
from broker.core.position import EARLIEST, LATEST, Position

_BYTES: Final = CHUNK_ENTRIES // 8
_ONES = re.compile("1+")


class AckChunks:
    """Wholly acked entries as bits, and partly acked entries as ack sets.

    Bits at or before mark-delete have no meaning.
    """

    __slots__ = ("bits", "dirty_bits", "dirty_sets", "dropped", "sets")

    def __init__(self, chunks: Iterable[AckChunk] = ()) -> None:
        self.bits: dict[int, bytearray] = {}
        self.sets: dict[int, dict[int, int]] = {}
        self.dirty_bits: set[int] = set()
        self.dirty_sets: set[int] = set()
        self.dropped: set[int] = set()
        for chunk in chunks:
            key = chunk_key(chunk.ledger_id, chunk.chunk << CHUNK_SHIFT)
            if chunk.bits:
                self.bits[key] = bytearray(chunk.bits.ljust(_BYTES, b"\0"))
            if chunk.ack_sets:
                self.sets[key] = dict(chunk.ack_sets)

    def __bool__(self) -> bool:
        return bool(self.bits or self.sets)

    def keys(self) -> list[int]:
        """Return the keys of all chunks, in order."""
        return sorted(self.bits.keys() | self.sets.keys())

    def ledger_ids(self) -> set[int]:
        """Return the ids of the ledgers that have chunks."""
        return {chunk_of(key)[0] for key in self.keys()}

    def has(self, ledger_id: int, entry_id: int) -> bool:
        bits = self.bits.get(ledger_id << LEDGER_SHIFT | entry_id >> CHUNK_SHIFT)
        return bits is not None and bool(bits[(entry_id & CHUNK_MASK) >> 3] >> (entry_id & 7) & 1)

    def highest(self) -> Position:
        """Return the last wholly acked entry, or EARLIEST if there is none."""
        for key in sorted(self.bits, reverse=True):
            if top := int.from_bytes(self.bits[key], "little").bit_length():
                ledger_id, chunk = chunk_of(key)
                return Position(ledger_id, (chunk << CHUNK_SHIFT) + top - 1)
        return EARLIEST

    def block(self, ledger_id: int, entry_id: int) -> int:
        """Return the bits of this entry's block. A block is BLOCK_ENTRIES consecutive entries of a chunk."""
        bits = self.bits.get(chunk_key(ledger_id, entry_id))
        if bits is None:
            return 0
        start = (entry_id & CHUNK_MASK & ~(BLOCK_ENTRIES - 1)) >> 3
        return int.from_bytes(bits[start : start + (BLOCK_ENTRIES >> 3)], "little")

    def remaining(self, ledger_id: int, entry_id: int) -> int | None:
        """Return the unacked messages of a partly acked entry as bits. Return None for any other entry."""
        sets = self.sets.get(chunk_key(ledger_id, entry_id))
        return sets.get(entry_id) if sets is not None else None

    def add(self, ledger_id: int, entry_id: int) -> None:
        """Ack one whole entry."""
        key = ledger_id << LEDGER_SHIFT | entry_id >> CHUNK_SHIFT
        bits = self.bits.get(key)
        if bits is None:
            bits = self.bits[key] = bytearray(_BYTES)
            self._revive(key)
        bits[(entry_id & CHUNK_MASK) >> 3] |= 1 << (entry_id & 7)
        self.dirty_bits.add(key)
        if self.sets:
            self.forget_set(key, entry_id)

    def set_remaining(self, ledger_id: int, entry_id: int, remaining: int) -> None:
        key = chunk_key(ledger_id, entry_id)
        sets = self.sets.get(key)
        if sets is None:
            sets = self.sets[key] = {}
            self._revive(key)
        sets[entry_id] = remaining
        self.dirty_sets.add(key)

    def forget_set(self, key: int, entry_id: int) -> None:
        sets = self.sets.get(key)
        if sets is not None and sets.pop(entry_id, None) is not None:
            self.dirty_sets.add(key)
            if not sets:
                del self.sets[key]

    def add_range(self, ledger_id: int, first: int, last: int) -> None:
        """Ack all entries from `first` to `last`."""
        for chunk in range(first >> CHUNK_SHIFT, (last >> CHUNK_SHIFT) + 1):
            base = chunk << CHUNK_SHIFT
            low, high = max(first, base) - base, min(last, base + CHUNK_MASK) - base
            key = chunk_key(ledger_id, base)
            old = int.from_bytes(self.bits.get(key, b""), "little")
            new = old | (1 << (high + 1)) - (1 << low)
            self.bits[key] = bytearray(new.to_bytes(_BYTES, "little"))
            self.dirty_bits.add(key)
            self._revive(key)
            for entry_id in [e for e in self.sets.get(key, ()) if base + low <= e <= base + high]:
                self.forget_set(key, entry_id)

    def union(self, other: AckChunks, after: Position, *, without: AckChunks | None = None) -> None:
        """Ack the entries beyond `after` that are wholly acked in `other`, but not in `without`."""
        for key, bits in other.bits.items():
            ledger_id, chunk = chunk_of(key)
            low, _ = _clip(ledger_id, chunk << CHUNK_SHIFT, after, LATEST)
            if low > CHUNK_MASK or ledger_id < after.ledger_id:
                continue
            new = int.from_bytes(bits, "little") >> low << low
            if without is not None:
                new &= ~int.from_bytes(without.bits.get(key, b""), "little")
            if not new:
                continue
            self.bits[key] = bytearray(
                (int.from_bytes(self.bits.get(key, b""), "little") | new).to_bytes(_BYTES, "little")
            )
            self.dirty_bits.add(key)
            self._revive(key)
            for entry_id in [e for e in self.sets.get(key, ()) if self.has(ledger_id, e)]:
                self.forget_set(key, entry_id)

    def within(self, key: int, after: Position, through: Position) -> int:
        """Return the bits of a chunk, with 0 for each entry outside the range (after, through]."""
        bits = self.bits.get(key)
        if bits is None:
            return 0
        ledger_id, chunk = chunk_of(key)
        low, high = _clip(ledger_id, chunk << CHUNK_SHIFT, after, through)
        if low > high:
            return 0
        number = int.from_bytes(bits, "little")
        if high < CHUNK_MASK:
            number &= (1 << (high + 1)) - 1
        return number >> low << low

    def run_end(self, ledger_id: int, entry_id: int) -> int:
        """Return the last of the consecutive acked entries that begin at `entry_id`.

        Returns `entry_id` - 1 if `entry_id` is not acked.
        """
        while True:
            bits = self.bits.get(ledger_id << LEDGER_SHIFT | entry_id >> CHUNK_SHIFT)
            if bits is None or not bits[(entry_id & CHUNK_MASK) >> 3] >> (entry_id & 7) & 1:
                return entry_id - 1
            base = entry_id & ~CHUNK_MASK
            clear = _next_clear(bits, entry_id & CHUNK_MASK)
            if clear < CHUNK_ENTRIES:
                return base + clear - 1
            entry_id = base + CHUNK_ENTRIES

    def drop_through(self, old: Position, new: Position, limit: int) -> None:
        """Forget acks that are no longer needed, because mark-delete has moved from `old` to `new`.

        `limit` is the last stored entry of the ledger that contains the position `new`.
        """
        ledger_id, entry_id = new
        if entry_id < 0:
            return
        new_key = ledger_id << LEDGER_SHIFT | entry_id >> CHUNK_SHIFT
        if old[0] != ledger_id or old[1] >> CHUNK_SHIFT != entry_id >> CHUNK_SHIFT:
            for key in [key for key in self.bits.keys() | self.sets.keys() if key < new_key]:
                self._drop(key)
            if old[1] >= 0:
                # The database may still have a row for the old chunk.
                self._drop_row(old[0] << LEDGER_SHIFT | old[1] >> CHUNK_SHIFT)
        if not (self.bits or self.sets):
            return
        if entry_id & CHUNK_MASK == CHUNK_MASK or entry_id >= limit:
            self._drop(new_key)
        elif self.sets:
            self._drop_sets(new_key, self.sets.get(new_key, {}), old, new)

    def clear(self) -> None:
        for key in self.keys():
            self._drop(key)

    def drop_ledgers_before(self, ledger_id: int) -> None:
        """Forget the acks in ledgers before `ledger_id`."""
        for key in [key for key in self.keys() if key < chunk_key(ledger_id, 0)]:
            self._drop(key)

    def forget_set_of(self, ledger_id: int, entry_id: int) -> None:
        """Forget the ack set of one entry."""
        self.forget_set(chunk_key(ledger_id, entry_id), entry_id)

    def subtract(self, other: AckChunks) -> None:
        """Forget the acks of each entry for which `other` has a bit or an ack set."""
        for key in other.bits.keys() | other.sets.keys():
            mask = int.from_bytes(other.bits.get(key, b""), "little")
            for entry_id in other.sets.get(key, ()):
                mask |= 1 << (entry_id & CHUNK_MASK)
            if key in self.bits:
                kept = int.from_bytes(self.bits[key], "little") & ~mask
                self.bits[key] = bytearray(kept.to_bytes(_BYTES, "little"))
                self.dirty_bits.add(key)
            for entry_id in [e for e in self.sets.get(key, ()) if mask >> (e & CHUNK_MASK) & 1]:
                self.forget_set(key, entry_id)

    def touches(self, key: int, after: Position, through: Position) -> bool:
        """Return whether any entry of the chunk lies in the range (after, through]."""
        ledger_id, chunk = chunk_of(key)
        low, high = _clip(ledger_id, chunk << CHUNK_SHIFT, after, through)
        return low <= high

    def put_back(self, flush: CursorFlush) -> None:
        """Mark the chunks of a failed flush as dirty again."""
        for pairs in (flush.bitmaps, flush.ack_sets, flush.dropped):
            for ledger_id, chunk in pairs:
                key = chunk_key(ledger_id, chunk << CHUNK_SHIFT)
                if key in self.bits or key in self.sets:
                    self.dirty_bits.add(key)
                    self.dirty_sets.add(key)
                else:
                    self.dropped.add(key)

    def mark_all_dirty(self) -> None:
        self.dirty_bits.update(self.bits)
        self.dirty_sets.update(self.sets)

    def freeze(self) -> tuple[AckChunk, ...]:
        chunks = []
        for key in self.keys():
            ledger_id, chunk = chunk_of(key)
            bits = bytes(self.bits.get(key, b"")).rstrip(b"\0")
            chunks.append(
                AckChunk(ledger_id=ledger_id, chunk=chunk, bits=bits, ack_sets=dict(self.sets.get(key, {})))
            )
        return tuple(chunks)

    def count(self, after: Position) -> int:
        """Return the number of wholly acked entries beyond a given position."""
        total = 0
        for key, bits in self.bits.items():
            ledger_id, chunk = chunk_of(key)
            low, high = _clip(ledger_id, chunk << CHUNK_SHIFT, after, LATEST)
            if low <= high:
                total += (int.from_bytes(bits, "little") >> low).bit_count()
        return total

    def count_in(self, ledger_id: int, first: int, last: int) -> int:
        """Return the number of wholly acked entries in a ledger, from `first` to `last`."""
        after, through = Position(ledger_id, first - 1), Position(ledger_id, last)
        bases = range(first & ~CHUNK_MASK, last + 1, CHUNK_ENTRIES)
        return sum(self.within(chunk_key(ledger_id, base), after, through).bit_count() for base in bases)

    def runs(self, after: Position, through: Position) -> Iterator[Range]:
        """In ascending order, yield each series of consecutive acked entries in the range (after, through]."""
        open_run: Range | None = None
        for key in sorted(self.bits):
            ledger_id, chunk = chunk_of(key)
            base = chunk << CHUNK_SHIFT
            low, high = _clip(ledger_id, base, after, through)
            if low > high:
                continue
            for first, last in _chunk_runs(self.bits[key], low, high):
                if open_run is not None:
                    if open_run[0] == ledger_id and open_run[2] == base + first - 1:
                        open_run = (ledger_id, open_run[1], base + last)
                        continue
                    yield open_run
                open_run = (ledger_id, base + first, base + last)
        if open_run is not None:
            yield open_run

    def partials(self, after: Position, through: Position) -> Iterator[tuple[int, int, int]]:
        """Yield ledger id, entry id and unacked messages of each partly acked entry in the range (after, through]."""
        for key in sorted(self.sets):
            ledger_id, chunk = chunk_of(key)
            base = chunk << CHUNK_SHIFT
            low, high = _clip(ledger_id, base, after, through)
            if low > high:
                continue
            for entry_id, remaining in sorted(self.sets[key].items()):
                if base + low <= entry_id <= base + high:
                    yield ledger_id, entry_id, remaining

    def _revive(self, key: int) -> None:
        # The database may still have the old row of a dropped chunk, so the next flush must store bits and ack sets.
        if key in self.dropped:
            self.dropped.remove(key)
            self.dirty_bits.add(key)
            self.dirty_sets.add(key)

    def _drop(self, key: int) -> None:
        is_kept = key in self.bits or key in self.sets
        if is_kept or key in self.dirty_bits or key in self.dirty_sets:
            self._drop_row(key)
        self.bits.pop(key, None)
        self.sets.pop(key, None)

    def _drop_row(self, key: int) -> None:
        self.dropped.add(key)
        self.dirty_bits.discard(key)
        self.dirty_sets.discard(key)

    def _drop_sets(self, key: int, sets: dict[int, int], old: Position, new: Position) -> None:
        if old.ledger_id == new.ledger_id and new.entry_id - old.entry_id < len(sets):
            doomed: Iterable[int] = range(old.entry_id + 1, new.entry_id + 1)
        else:
            doomed = [entry_id for entry_id in sets if entry_id <= new.entry_id]
        for entry_id in doomed:
            self.forget_set(key, entry_id)


def _clip(ledger_id: int, base: int, after: Position, through: Position) -> tuple[int, int]:
    """Return a chunk's first and last slot in the range (after, through].

    If the chunk has no slot in the range, the first number is greater than the last.
    """
    if ledger_id < after.ledger_id or ledger_id > through.ledger_id:
        return 0, -1
    low, high = 0, CHUNK_MASK
    if ledger_id == after.ledger_id:
        low = max(low, after.entry_id + 1 - base)
    if ledger_id == through.ledger_id:
        high = min(high, through.entry_id - base)
    return low, high


def _chunk_runs(bits: bytearray, low: int, high: int) -> Iterator[tuple[int, int]]:
    # Searching the bits as text is fast.
    first_byte = low >> 3
    window = bits[first_byte : (high >> 3) + 1]
    number = int.from_bytes(window, "little")
    if not number:
        return
    base = first_byte * 8
    text = format(number, "b")[::-1]
    for match in _ONES.finditer(text, low - base, high - base + 1):
        yield base + match.start(), base + match.end() - 1


def _next_clear(bits: bytearray, start: int) -> int:
    """Return the first unacked slot at or after `start`, or CHUNK_ENTRIES if there is none."""
    at = start >> 3
    rest = bits[at] >> (start & 7)
    ones = (~rest & (rest + 1)).bit_length() - 1
    if ones < 8 - (start & 7):
        return start + ones
    tail = bits[at + 1 :]
    at += 1 + len(tail) - len(tail.lstrip(b"\xff"))
    if at >= _BYTES:
        return CHUNK_ENTRIES
    value = bits[at]
    return at * 8 + (~value & (value + 1)).bit_length() - 1
