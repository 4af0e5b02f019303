"""The entries that a cursor has acked beyond its mark-delete position.

The index of an entry is its place in the log, counted over all ledgers. The broker stores acks beyond the mark-delete
position in chunks. A chunk covers 32,768 entries of a ledger.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from console.queries.database import fetch
from console.queries.topics.log import Log

__all__ = [
    "CHUNK_ENTRIES",
    "AckedBeyond",
    "Run",
    "acked_beyond",
    "acked_beyond_each",
    "members_of",
    "runs_of_bits",
]

CHUNK_ENTRIES = 32_768
CHUNKS_READ = 64

_ONES = re.compile("1+")
_MEMBERS = struct.Struct("<QH")

Run = tuple[int, int]  # First and last index, inclusive


@dataclass(frozen=True, slots=True, kw_only=True)
class AckedBeyond:
    """The acked entries after a cursor's mark-delete position."""

    runs: tuple[Run, ...]  # Sorted
    entries: int
    ack_sets: Mapping[int, int]  # A set bit means an unacked message
    complete: bool  # False means that only the first chunks were read

    def next_unacked(self, index: int, end: int) -> Iterator[int]:
        """Yield the indexes of entries with unacked messages, from `index` to `end - 1`.

        If only the first chunks were read, stop before the last known run, because later acks are unknown.
        """
        if not self.complete:
            end = min(end, self.runs[-1][0] if self.runs else index)
        for first, last in self.runs:
            yield from range(index, min(first, end))
            index = max(index, last + 1)
        yield from range(index, end)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunk:
    cursor_id: int
    ledger_id: int
    chunk: int
    bits: bytes
    ack_sets: bytes


def acked_beyond(subscription_id: int, log: Log, mark_delete: int) -> AckedBeyond:
    """Read the acked entries after the index `mark_delete`, from at most 64 chunks."""
    return acked_beyond_each({subscription_id: (log, mark_delete)})[subscription_id]


def acked_beyond_each(cursors: Mapping[int, tuple[Log, int]]) -> dict[int, AckedBeyond]:
    """Return the result of `acked_beyond` for each subscription id."""
    chunks: dict[int, list[_Chunk]] = {each: [] for each in cursors}
    for row in fetch(_Chunk, "subscription", "chunks", {"cursors": list(cursors), "limit": CHUNKS_READ + 1}):
        chunks[row.cursor_id].append(row)
    return {each: _read(chunks[each], log, mark_delete) for each, (log, mark_delete) in cursors.items()}


def _read(chunks: Sequence[_Chunk], log: Log, mark_delete: int) -> AckedBeyond:
    # The log was read before the chunks, so a chunk's ledger may be missing from `log`.
    known = [chunk for chunk in chunks[:CHUNKS_READ] if log.has_ledger(chunk.ledger_id)]
    found = (
        (first, last)
        for chunk in known
        for first, last in runs_of_bits(
            bytes(chunk.bits), log.index_of(chunk.ledger_id, 0) + chunk.chunk * CHUNK_ENTRIES
        )
    )
    runs = tuple(_joined((max(first, mark_delete + 1), last) for first, last in found if last > mark_delete))
    return AckedBeyond(
        runs=runs,
        entries=sum(last - first + 1 for first, last in runs),
        ack_sets={
            log.index_of(chunk.ledger_id, 0) + entry_id: members
            for chunk in known
            for entry_id, members in members_of(bytes(chunk.ack_sets)).items()
        },
        complete=len(chunks) <= CHUNKS_READ,
    )


def runs_of_bits(bits: bytes, base: int) -> Iterator[Run]:
    """Yield the runs of set bits of a little-endian bitmap. The lowest bit stands for the index `base`."""
    text = format(int.from_bytes(bits, "little"), "b")[::-1]
    for match in _ONES.finditer(text):
        yield base + match.start(), base + match.end() - 1


def members_of(column: bytes) -> dict[int, int]:
    """Return the bitset of the unacked messages in each partly acked batch, keyed by entry id.

    Returns an empty dictionary if the column has an unknown version, so that the console works with a newer broker.
    """
    found: dict[int, int] = {}
    at = 1
    while column[:1] == b"\x01" and at + _MEMBERS.size <= len(column):
        entry_id, length = _MEMBERS.unpack_from(column, at)
        at += _MEMBERS.size + length
        found[entry_id] = int.from_bytes(column[at - length : at], "little")
    return found


def _joined(runs: Iterable[Run]) -> Iterator[Run]:
    open_run: Run | None = None
    for first, last in runs:
        if open_run is not None and first <= open_run[1] + 1:
            open_run = (open_run[0], max(last, open_run[1]))
            continue
        if open_run is not None:
            yield open_run
        open_run = (first, last)
    if open_run is not None:
        yield open_run
