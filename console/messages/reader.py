"""Read the entries of one log piece by piece, in log order or backwards."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from console.messages.entries import StoredEntry
from console.messages.lanes import Lane
from console.queries.database import fetch_entries
from console.queries.stores import Store
from console.queries.topics.log import Place

__all__ = ["MOST_ENTRY_BYTES", "LaneReader", "Piece"]

MOST_ENTRY_BYTES: Final = 8 * 1024 * 1024
PIECE_ENTRIES: Final = 100
PIECE_BYTES: Final = 4 * 1024 * 1024
_HEAD_BYTES: Final = 64 * 1024
_RANGES: Final = 100
_NARROWED_ENTRIES: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The entries that one query returned."""

    entries: Sequence[StoredEntry]
    # Each step is the distance from the previous returned entry, counted in log entries.
    steps: Sequence[int]
    # Number of entries that the broker trimmed, or moved to another table or to a file, before the query ran
    gone: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Picked(StoredEntry):
    picked: int  # Number of entries that the query chose before it applied the byte limit


@dataclass(frozen=True, slots=True)
class _Range:
    ledger_id: int
    begin: int  # Log index of the ledger's first entry
    first: int
    last: int

    def entry_of(self, index: int) -> int:
        return index - self.begin


class LaneReader:
    """Reads one lane, which is the log of a topic or partition.

    `shares` is the number of lanes that share the limits of a piece.
    """

    def __init__(self, lane: Lane, *, is_backward: bool, slots: Sequence[int] | None, shares: int) -> None:
        self.lane = lane
        self._is_backward = is_backward
        self._slots = None if slots is None else list(slots)
        self._most_entries = max(PIECE_ENTRIES // shares, 5)
        self._most_bytes = PIECE_BYTES // shares
        self._most_covered = self._most_entries if slots is None else _NARROWED_ENTRIES
        self._spans = deque(reversed(lane.spans) if is_backward else lane.spans)

    def next_piece(self) -> Piece | None:
        """Read the next piece. Return None at the end.

        Returns an empty piece if the broker has trimmed or moved all the entries.
        """
        ranges, store = self._next_ranges()
        if not ranges or store is None:
            return None
        return self._read(ranges, store)

    def _next_ranges(self) -> tuple[list[_Range], Store | None]:
        ranges: list[_Range] = []
        store: Store | None = None
        left = self._most_covered
        while self._spans and left and len(ranges) < _RANGES:
            first, last = self._spans[0]
            ledger = self.lane.log.ledger_at(last if self._is_backward else first)
            if ledger is None or ledger.store is None:
                self._spans.popleft()
                continue
            if store not in (None, ledger.store):
                break
            store = ledger.store
            begin, end = ledger.entries_before, ledger.entries_before + ledger.entries
            if self._is_backward:
                low, high = max(first, begin, last - left + 1), last
                rest = (first, low - 1)
            else:
                low, high = first, min(last, end - 1, first + left - 1)
                rest = (high + 1, last)
            self._spans.popleft()
            if rest[0] <= rest[1]:
                self._spans.appendleft(rest)
            ranges.append(_Range(ledger.ledger_id, begin, low, high))
            left -= high - low + 1
        return ranges, store

    def _read(self, ranges: list[_Range], store: Store) -> Piece:
        ends = [each.first if self._is_backward else each.last for each in ranges]
        rows = fetch_entries(
            _Picked,
            "piece",
            [store],
            {
                "ledgers": [each.ledger_id for each in ranges],
                "firsts": [each.entry_of(each.first) for each in ranges],
                "lasts": [each.entry_of(each.last) for each in ranges],
                "ends": [each.entry_of(end) for each, end in zip(ranges, ends, strict=True)],
                "slots": self._slots,
                "sign": -1 if self._is_backward else 1,
                "limit": self._most_entries,
                "most_bytes": MOST_ENTRY_BYTES,
                "head_bytes": _HEAD_BYTES,
                "piece_bytes": self._most_bytes,
            },
        )
        is_cut = bool(rows) and (rows[0].picked > len(rows) or len(rows) == self._most_entries)
        if is_cut:
            ranges = self._give_back(ranges, rows[-1].place)
        return self._piece(ranges, rows)

    def _give_back(self, ranges: list[_Range], through: Place) -> list[_Range]:
        taken: list[_Range] = []
        rest: list[tuple[int, int]] = []
        for each in ranges:
            index = each.begin + through[1]
            if rest or each.ledger_id != through[0] or not each.first <= index <= each.last:
                if rest:
                    rest.append((each.first, each.last))
                else:
                    taken.append(each)
            elif self._is_backward:
                taken.append(replace(each, first=index))
                rest.append((each.first, index - 1))
            else:
                taken.append(replace(each, last=index))
                rest.append((index + 1, each.last))
        self._spans.extendleft(reversed([span for span in rest if span[0] <= span[1]]))
        return taken

    def _piece(self, ranges: list[_Range], rows: Sequence[StoredEntry]) -> Piece:
        """Compute the length of each step, and count the missing entries.

        In each range, the query returns the last entry in reading order, even if its key hash does not match.
        If the rows lack that entry, it is no longer stored.
        """
        steps: list[int] = []
        gone = at = before = 0
        for each in ranges:
            here = before
            while at < len(rows) and rows[at].ledger_id == each.ledger_id:
                index = each.begin + rows[at].entry_id
                if not each.first <= index <= each.last:
                    break
                reached = before + (each.last - index if self._is_backward else index - each.first) + 1
                steps.append(reached - here)
                here, at = reached, at + 1
            length = each.last - each.first + 1
            gone += before + length - here
            before += length
        return Piece(entries=rows, steps=steps, gone=gone)
