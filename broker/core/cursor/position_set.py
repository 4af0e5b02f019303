"""Sets of positions, stored as bits. A million neighbouring entries take 250 KB here, and 70 MB in a Python set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.core.position import Position

BLOCK_SHIFT: Final = 10
BLOCK_ENTRIES: Final = 1 << BLOCK_SHIFT
_BLOCK_MASK: Final = BLOCK_ENTRIES - 1
_LEDGER_SHIFT: Final = 48 - BLOCK_SHIFT  # An entry id has at most 48 bits
_LEDGER_MASK: Final = (1 << _LEDGER_SHIFT) - 1


def block_key(ledger_id: int, entry_id: int) -> int:
    """Return the key of an entry's block. Keys sort like positions."""
    return ledger_id << _LEDGER_SHIFT | entry_id >> BLOCK_SHIFT


def first_clear(bits: int, start: int) -> int:
    """Return the index of the first 0 bit at or after `start`.

    If the rest of the block is full, return BLOCK_ENTRIES.
    """
    rest = bits >> start
    return start + (~rest & (rest + 1)).bit_length() - 1


class PositionSet:
    """A set of positions. One int stores a block of 1,024 entries, with one bit for each entry."""

    __slots__ = ("_blocks", "_count")

    def __init__(self) -> None:
        self._blocks: dict[int, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, position: Position) -> bool:
        ledger_id, entry_id = position
        bits = self._blocks.get(ledger_id << _LEDGER_SHIFT | entry_id >> BLOCK_SHIFT)
        return bits is not None and bool(bits >> (entry_id & _BLOCK_MASK) & 1)

    def __iter__(self) -> Iterator[Position]:
        for key in sorted(self._blocks):
            yield from positions_of(key, self._blocks[key])

    def add(self, position: Position) -> bool:
        """Add a position. Return whether the position was new."""
        ledger_id, entry_id = position
        key = ledger_id << _LEDGER_SHIFT | entry_id >> BLOCK_SHIFT
        old = self._blocks.get(key)
        new = (old or 0) | 1 << (entry_id & _BLOCK_MASK)
        if new == old:
            return False
        if old is None:
            self._new_block(key)
        self._blocks[key] = new
        self._count += 1
        return True

    def add_run(self, ledger_id: int, first: int, last: int) -> None:
        """Add the entries `first` to `last` of a ledger."""
        for base in range(first & ~_BLOCK_MASK, last + 1, BLOCK_ENTRIES):
            key = block_key(ledger_id, base)
            below, above = max(first - base, 0), min(last - base, _BLOCK_MASK) + 1
            old = self._blocks.get(key)
            new = (old or 0) | (1 << above) - (1 << below)
            if old is None:
                self._new_block(key)
            self._blocks[key] = new
            self._count += new.bit_count() - (old or 0).bit_count()

    def discard(self, position: Position) -> bool:
        """Remove a position. Return whether the position was in the set."""
        ledger_id, entry_id = position
        key = ledger_id << _LEDGER_SHIFT | entry_id >> BLOCK_SHIFT
        old = self._blocks.get(key, 0)
        new = old & ~(1 << (entry_id & _BLOCK_MASK))
        if new == old:
            return False
        self._count -= 1
        if new:
            self._blocks[key] = new
        else:
            del self._blocks[key]
        return True

    def block(self, ledger_id: int, entry_id: int) -> int:
        """Return the bits of the block that contains the entry."""
        return self._blocks.get(block_key(ledger_id, entry_id), 0)

    def discard_before(self, position: Position) -> int:
        """Remove everything below `position` and return the number of removed positions."""
        before = self._count
        limit = block_key(*position)
        for key in [key for key in self._blocks if key < limit]:
            self._count -= self._blocks.pop(key).bit_count()
        self._cut(limit, position.entry_id & _BLOCK_MASK)
        return before - self._count

    def clear(self) -> None:
        self._blocks.clear()
        self._count = 0

    def _take_through(self, key: int, position: Position) -> None:
        self._cut(key, (position.entry_id & _BLOCK_MASK) + 1)

    def _cut(self, key: int, slot: int) -> None:
        bits = self._blocks.get(key, 0)
        kept = bits >> slot << slot
        self._count -= (bits ^ kept).bit_count()
        if kept:
            self._blocks[key] = kept
        else:
            self._blocks.pop(key, None)

    def _new_block(self, key: int) -> None:
        """Hook for subclasses, called before a block gets its first entry."""


def positions_of(key: int, bits: int) -> Iterator[Position]:
    """Yield the positions in a block, ascending."""
    ledger_id, base = key >> _LEDGER_SHIFT, (key & _LEDGER_MASK) << BLOCK_SHIFT
    while bits:
        low = bits & -bits
        yield Position(ledger_id, base + low.bit_length() - 1)
        bits ^= low
