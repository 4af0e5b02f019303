"""What a cursor has acked beyond its mark-delete position, as runs over the log's indexes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from console.queries.database import fetch
from console.queries.log import Log

__all__ = ["AckedBeyond", "Run", "acked_beyond", "runs_of_bits"]

CHUNK_ENTRIES = 32_768
CHUNKS_READ = 64

_ONES = re.compile("1+")

Run = tuple[int, int]  # first and last index, both included


@dataclass(frozen=True, slots=True, kw_only=True)
class AckedBeyond:
    """Acked entries behind at least one unacked one."""

    runs: tuple[Run, ...]  # by index, not touching
    entries: int
    partly_acked_batches: bool  # some batch is acked in part; it counts as not acked here
    complete: bool  # False: only the first chunks were read

    def next_unacked(self, index: int, end: int) -> Iterator[int]:
        """Indexes from `index` up to `end` that are not wholly acked."""
        for first, last in self.runs:
            yield from range(index, min(first, end))
            index = max(index, last + 1)
        yield from range(index, end)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunk:
    ledger_id: int
    chunk: int
    bits: bytes
    has_ack_sets: bool


def acked_beyond(subscription_id: int, log: Log, mark_delete: int) -> AckedBeyond:
    """At most 64 chunks (2 million entries) beyond the index `mark_delete`. One query."""
    chunks = fetch(
        _Chunk, "subscription", "chunks", {"subscription_id": subscription_id, "limit": CHUNKS_READ + 1}
    )
    found = (
        (first, last)
        for chunk in chunks[:CHUNKS_READ]
        for first, last in runs_of_bits(
            bytes(chunk.bits), log.index_of(chunk.ledger_id, 0) + chunk.chunk * CHUNK_ENTRIES
        )
    )
    runs = tuple(_joined((max(first, mark_delete + 1), last) for first, last in found if last > mark_delete))
    return AckedBeyond(
        runs=runs,
        entries=sum(last - first + 1 for first, last in runs),
        partly_acked_batches=any(chunk.has_ack_sets for chunk in chunks),
        complete=len(chunks) <= CHUNKS_READ,
    )


def runs_of_bits(bits: bytes, base: int) -> Iterator[Run]:
    """Runs of set bits; bit i of the bitmap, lowest first in each byte, is index `base` + i."""
    text = format(int.from_bytes(bits, "little"), "b")[::-1]
    for match in _ONES.finditer(text):
        yield base + match.start(), base + match.end() - 1


def _joined(runs: Iterable[Run]) -> Iterator[Run]:
    """Runs that touch, as they do across chunks, become one."""
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
