"""Count what a cursor has acked, and find where a skip would end.

A function raises IndexMissing if it needs a message count that is not in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from broker.core.cursor.ack_chunks import AckChunks
from broker.core.cursor.state import SkipTarget, Totals
from broker.core.ledgers.ledger import LedgerMap
from broker.core.ledgers.message_index import (
    CHUNK_MASK,
    CHUNK_SHIFT,
    IndexMissing,
    MessageIndex,
    Range,
    chunk_key,
    chunk_of,
)
from broker.core.position import LATEST, Position
from vela.wire.ack_set import full


def settle(ledgers: LedgerMap, acked: AckChunks, mark_delete: Position) -> Position:
    """Return the last entry of the acked run after `mark_delete`, or `mark_delete` if the next entry is unacked."""
    if not acked.bits:
        return mark_delete
    while True:
        ledger_id, entry_id = mark_delete
        ledger = ledgers.get(ledger_id)
        if ledger is None or entry_id + 1 >= ledger.entries:
            ledger_id, entry_id = ledgers.next_after(mark_delete)
            ledger = ledgers.get(ledger_id)
        else:
            entry_id += 1
        last = acked.run_end(ledger_id, entry_id)
        if last < entry_id:
            return mark_delete
        mark_delete = Position(ledger_id, last)
        if ledger is not None and last + 1 < ledger.entries:
            return mark_delete


class AckedSet(NamedTuple):
    """Everything that one cursor has acked."""

    mark_delete: Position
    chunks: AckChunks
    totals: Totals


def count_acked(
    ledgers: LedgerMap, index: MessageIndex, acked: AckChunks, after: Position, through: Position
) -> Totals:
    """Count everything acked beyond one position, up to and including another position."""
    tally = _Tally(ledgers, index)
    for key in sorted(acked.bits):
        tally.add_bits(key, acked.within(key, after, through))
    for ledger_id, entry_id, remaining in acked.partials(after, through):
        tally.add_members(Position(ledger_id, entry_id), ~remaining)
    return tally.totals()


def acked_only_in(ledgers: LedgerMap, index: MessageIndex, one: AckedSet, other: AckedSet) -> Totals:
    """Count everything that is acked in `one` but not in `other`."""
    floor = max(one.mark_delete, other.mark_delete)
    tally = _Tally(ledgers, index)
    for key in sorted(one.chunks.bits):
        tally.add_bits(key, one.chunks.within(key, floor, LATEST) & ~other.chunks.within(key, floor, LATEST))
    for ledger_id, entry_id, left in one.chunks.partials(floor, LATEST):
        if not other.chunks.has(ledger_id, entry_id):
            theirs = other.chunks.remaining(ledger_id, entry_id)
            tally.add_members(Position(ledger_id, entry_id), ~left & (-1 if theirs is None else theirs))
    for ledger_id, entry_id, left in other.chunks.partials(floor, LATEST):
        if one.chunks.has(ledger_id, entry_id):
            tally.subtract_members(Position(ledger_id, entry_id), ~left)
    totals = tally.totals()
    if one.mark_delete <= other.mark_delete:
        return totals
    passed = index.through(one.mark_delete)
    if passed is None:
        raise IndexMissing(index.unknown(one.mark_delete))
    beyond = acked_after(ledgers, index, other.chunks, other.mark_delete, one.mark_delete, other.totals)
    return Totals(
        totals.messages + passed[0] - (other.totals.messages - beyond.messages),
        totals.entries + ledgers.entries_through(one.mark_delete) - (other.totals.entries - beyond.entries),
        totals.size_bytes + passed[1] - (other.totals.size_bytes - beyond.size_bytes),
    )


def acked_only_in_simple(ledgers: LedgerMap, index: MessageIndex, one: AckedSet, other: AckedSet) -> Totals:
    """Count everything that is acked in `one` but not in `other`.

    `other.chunks` must be empty. The totals of both sets must be correct. In contrast, `acked_only_in` ignores
    `one.totals`.
    """
    if other.mark_delete <= one.mark_delete:
        return Totals(*(mine - theirs for mine, theirs in zip(one.totals, other.totals, strict=True)))
    return acked_after(ledgers, index, one.chunks, one.mark_delete, other.mark_delete, one.totals)


class _Tally:
    def __init__(self, ledgers: LedgerMap, index: MessageIndex) -> None:
        self._ledgers = ledgers
        self._index = index
        self._messages = self._entries = self._bytes = 0
        self._missing: list[Range] = []

    def add_bits(self, key: int, bits: int) -> None:
        ledger_id, chunk = chunk_of(key)
        ledger = self._ledgers.get(ledger_id)
        if not bits or ledger is None:
            return
        found = self._index.sum_of(ledger, chunk, bits)
        if found is None:
            base = chunk << CHUNK_SHIFT
            first = base + (bits & -bits).bit_length() - 1
            last = base + bits.bit_length() - 1
            self._missing += [
                (ledger_id, low, high)
                for low, high in self._index.missing(ledger_id, max(0, first - 1), last)
            ]
            return
        self._messages += found[0]
        self._bytes += found[1]
        self._entries += bits.bit_count()

    def add_members(self, position: Position, members: int) -> None:
        size = self._index.messages_in(position)
        if size is None:
            if self._ledgers.contains(position):
                self._missing += self._index.unknown(position)
            return
        self._messages += (members & full(size)).bit_count()

    def subtract_members(self, position: Position, members: int) -> None:
        before = self._messages
        self.add_members(position, members)
        self._messages = 2 * before - self._messages

    def totals(self) -> Totals:
        if self._missing:
            raise IndexMissing(self._missing)
        return Totals(self._messages, self._entries, self._bytes)


def count_state(ledgers: LedgerMap, index: MessageIndex, acked: AckChunks, mark_delete: Position) -> Totals:
    """Count everything that a cursor has acked."""
    through = index.through(mark_delete)
    if through is None:
        raise IndexMissing(index.unknown(mark_delete))
    beyond = count_acked(ledgers, index, acked, mark_delete, LATEST)
    return Totals(
        through[0] + beyond.messages,
        ledgers.entries_through(mark_delete) + beyond.entries,
        through[1] + beyond.size_bytes,
    )


def acked_after(
    ledgers: LedgerMap,
    index: MessageIndex,
    acked: AckChunks,
    mark_delete: Position,
    target: Position,
    totals: Totals,
) -> Totals:
    """Count everything acked beyond `target`. `target` must lie beyond `mark_delete`."""
    if not acked:
        return Totals(0, 0, 0)
    keys = acked.keys()
    below = sum(1 for key in keys if acked.touches(key, mark_delete, target))
    above = sum(1 for key in keys if acked.touches(key, target, LATEST))
    base = index.through(mark_delete)
    if above < below or base is None:
        return count_acked(ledgers, index, acked, target, LATEST)
    inside = count_acked(ledgers, index, acked, mark_delete, target)
    return Totals(
        totals.messages - base[0] - inside.messages,
        totals.entries - ledgers.entries_through(mark_delete) - inside.entries,
        totals.size_bytes - base[1] - inside.size_bytes,
    )


def unacked_target(
    ledgers: LedgerMap,
    index: MessageIndex,
    acked: AckChunks,
    mark_delete: Position,
    *,
    messages: int | None = None,
    entries: int | None = None,
) -> SkipTarget:
    """Find where a skip that starts after `mark_delete` would end.

    Pass the length of the skip as `messages` or as `entries`. Acked messages and wholly acked entries do not count.
    """
    at = SkipTarget(mark_delete, None, 0, 0)
    touched = set(acked.keys())
    for ledger_id, first, last in ledgers.spans(mark_delete, LATEST):
        for low, high in _by_touch(touched, ledger_id, first, last):
            if at.messages == messages or at.entries == entries:
                return at
            whole = _unacked_in(ledgers, index, acked, (ledger_id, low, high))
            if (messages is None or whole[1] <= messages - at.messages) and (
                entries is None or whole[0] <= entries - at.entries
            ):
                at = SkipTarget(
                    Position(ledger_id, high), None, at.messages + whole[1], at.entries + whole[0]
                )
                continue
            for piece_low, piece_high, left in _pieces(acked, ledger_id, low, high):
                if at.messages == messages or at.entries == entries:
                    return at
                size, unacked = _count_piece(index, ledger_id, piece_low, piece_high, left)
                if messages is not None and unacked > messages - at.messages:
                    piece = ledger_id, piece_low, piece_high
                    return _end_inside(ledgers, index, at, piece, left, messages - at.messages)
                if entries is not None and size > entries - at.entries:
                    piece_high = piece_low + entries - at.entries - 1
                    size, unacked = _count_piece(index, ledger_id, piece_low, piece_high, left)
                at = SkipTarget(
                    Position(ledger_id, piece_high), None, at.messages + unacked, at.entries + size
                )
    return at


def _by_touch(touched: set[int], ledger_id: int, first: int, last: int) -> Iterator[tuple[int, int]]:
    low = first
    for chunk in range(first >> CHUNK_SHIFT, (last >> CHUNK_SHIFT) + 1):
        base = chunk << CHUNK_SHIFT
        if chunk_key(ledger_id, base) in touched:
            if low < base:
                yield low, base - 1
            low = min(last, base + CHUNK_MASK)
            yield max(first, base), low
            low += 1
    if low <= last:
        yield low, last


def _unacked_in(ledgers: LedgerMap, index: MessageIndex, acked: AckChunks, span: Range) -> tuple[int, int]:
    """Return how many entries are not wholly acked, and how many messages are unacked."""
    ledger_id, low, high = span
    bits = acked.within(chunk_key(ledger_id, low), Position(ledger_id, low - 1), Position(ledger_id, high))
    if bits.bit_count() == high - low + 1:
        return 0, 0
    size, unacked = _count_piece(index, ledger_id, low, high, None)
    inside = count_acked(ledgers, index, acked, Position(ledger_id, low - 1), Position(ledger_id, high))
    return size - inside.entries, unacked - inside.messages


def _pieces(acked: AckChunks, ledger_id: int, first: int, last: int) -> Iterator[tuple[int, int, int | None]]:
    """Divide the entries from `first` to `last` into pieces, and leave out the wholly acked entries.

    For a run of entries without acks, yields (low, high, None). For a partly acked entry, yields (id, id, bits). A set
    bit means an unacked message.
    """
    after, through = Position(ledger_id, first - 1), Position(ledger_id, last)
    breaks: list[tuple[int, int, int | None]] = []
    breaks += [(low, high, None) for _, low, high in acked.runs(after, through)]
    breaks += [(entry_id, entry_id, left) for _, entry_id, left in acked.partials(after, through)]
    breaks.sort(key=lambda piece: piece[0])
    for low, high, left in breaks:
        if first < low:
            yield first, low - 1, None
        if left is not None:
            yield low, high, left
        first = high + 1
    if first <= last:
        yield first, last, None


def _count_piece(
    index: MessageIndex, ledger_id: int, low: int, high: int, left: int | None
) -> tuple[int, int]:
    if left is not None:
        return 1, left.bit_count()
    borders = Position(ledger_id, low - 1), Position(ledger_id, high)
    before, upto = index.messages_through(borders[0]), index.messages_through(borders[1])
    if before is None or upto is None:
        unknown = [border for border in borders if index.messages_through(border) is None]
        raise IndexMissing(found for border in unknown for found in index.unknown(border))
    return high - low + 1, upto - before


def _end_inside(
    ledgers: LedgerMap, index: MessageIndex, at: SkipTarget, piece: Range, left: int | None, wanted: int
) -> SkipTarget:
    ledger_id, low, high = piece
    entry_id = low
    if left is not None:
        for _ in range(wanted):
            left &= left - 1
    elif wanted:
        missing = index.missing(ledger_id, low, high)
        if missing:
            raise IndexMissing((ledger_id, first, last) for first, last in missing)
        goal = (index.messages_through(Position(ledger_id, low - 1)) or 0) + wanted
        entry_id = index.first_above(ledger_id, low, high, goal)
        passed = goal - (index.messages_through(Position(ledger_id, entry_id - 1)) or 0)
        if passed:
            left = full(index.messages_in(Position(ledger_id, entry_id)) or 0) & ~full(passed)
    mark_delete = max(at.mark_delete, ledgers.previous_of(Position(ledger_id, entry_id)))
    return SkipTarget(mark_delete, left, at.messages + wanted, at.entries + entry_id - low)
