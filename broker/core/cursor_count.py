"""Counting and searching under a cursor. Functions of their arguments; none changes anything."""

from __future__ import annotations

from collections.abc import Iterator

from broker.core.ack_chunks import AckChunks
from broker.core.ack_set import full
from broker.core.cursor_state import SkipTarget, Totals
from broker.core.ledger import LedgerMap
from broker.core.message_index import IndexMissing, MessageIndex, Range
from broker.core.position import LATEST, Position


def settle(ledgers: LedgerMap, acked: AckChunks, mark_delete: Position) -> Position:
    """Mark-delete moved through the acked entries that touch it, across ledgers (semantics 2.1)."""
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


def count_acked(
    ledgers: LedgerMap, index: MessageIndex, acked: AckChunks, after: Position, through: Position
) -> Totals:
    """What bitmaps and ack sets hold in (after, through]. Raises IndexMissing with all that it lacks."""
    messages = entries = size_bytes = 0
    missing: list[Range] = []
    for ledger_id, first, last in acked.runs(after, through):
        low = Position(ledger_id, first - 1)
        high = Position(ledger_id, last)
        before, upto = index.through(low), index.through(high)
        if before is None or upto is None:
            missing += index.unknown(low) if before is None else []
            missing += index.unknown(high) if upto is None else []
            continue
        messages += upto[0] - before[0]
        size_bytes += upto[1] - before[1]
        entries += last - first + 1
    for ledger_id, entry_id, remaining in acked.partials(after, through):
        held = index.messages_in(Position(ledger_id, entry_id))
        if held is None:
            missing += index.unknown(Position(ledger_id, entry_id))
            continue
        messages += held - remaining.bit_count()
    if missing:
        raise IndexMissing(missing)
    return Totals(messages, entries, size_bytes)


def count_state(ledgers: LedgerMap, index: MessageIndex, acked: AckChunks, mark_delete: Position) -> Totals:
    """Totals of a cursor from nothing but its mark-delete and what lies beyond. Raises IndexMissing."""
    through = index.through(mark_delete)
    if through is None:
        raise IndexMissing(index.unknown(mark_delete))
    beyond = count_acked(ledgers, index, acked, mark_delete, LATEST)
    return Totals(
        through[0] + beyond.messages,
        ledgers.entries_through(mark_delete) + beyond.entries,
        through[1] + beyond.size_bytes,
    )


def acked_within(
    ledgers: LedgerMap,
    index: MessageIndex,
    acked: AckChunks,
    mark_delete: Position,
    target: Position,
    totals: Totals,
    through: tuple[int, int],
) -> Totals:
    """What is acked beyond `target`, a later mark-delete; `through` are the topic's counts at it. Raises
    IndexMissing.

    Only one side of `target` has to be walked, since the sum of both is known: the one with fewer chunks.
    """
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
    """Where `messages` unacked messages, or `entries` not wholly acked entries, beyond mark-delete end.

    Exactly one of the two is given. Raises IndexMissing.
    """
    at = SkipTarget(mark_delete, None, 0, 0)
    untouched = AckChunks()
    touched = acked.ledger_ids()
    for ledger_id, first, last in ledgers.spans(mark_delete, LATEST):
        pieces = _pieces(acked if ledger_id in touched else untouched, ledger_id, first, last)
        for low, high, left in pieces:
            if at.messages == messages or at.entries == entries:
                return at
            size, held = _held(index, ledger_id, low, high, left)
            if messages is not None and held > messages - at.messages:
                return _end_inside(ledgers, index, at, (ledger_id, low, high), left, messages - at.messages)
            if entries is not None and size > entries - at.entries:
                high = low + entries - at.entries - 1
                size, held = _held(index, ledger_id, low, high, left)
            at = SkipTarget(Position(ledger_id, high), None, at.messages + held, at.entries + size)
    return at


def _pieces(acked: AckChunks, ledger_id: int, first: int, last: int) -> Iterator[tuple[int, int, int | None]]:
    """first..last without its acked runs, ascending: untouched runs (low, high, None), partly acked (e,
    e, ack set).
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


def _held(index: MessageIndex, ledger_id: int, low: int, high: int, left: int | None) -> tuple[int, int]:
    """(entries, unacked messages) of one piece. Raises IndexMissing."""
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
    """The target `wanted` messages into a piece that holds more; mark-delete is the entry before."""
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
