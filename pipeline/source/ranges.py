"""Ranges of entries between two offsets, and how they are divided among Spark's tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql.datasource import InputPartition

from pipeline.source.offsets import Offset
from pipeline.source.topic_logs import EntryIndex, EntryTotals, StoredLedger, TopicLog

__all__ = ["EntryPartition", "EntryRange", "ranges_between", "split"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRange:
    """Consecutive entries of one ledger, both ends included. Entry ids have no gaps."""

    topic: str  # full name; the partition's name if the topic is partitioned
    partition: int  # -1 when the topic is not partitioned
    ledger_id: int
    first: int
    last: int
    bytes_before: int  # of the topic, before `first`
    bytes_through: int  # of the topic, through `last`

    @property
    def entries(self) -> int:
        return self.last - self.first + 1

    @property
    def size_bytes(self) -> int:
        return self.bytes_through - self.bytes_before

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.first}-{self.last} of {self.topic}"


class EntryPartition(InputPartition):
    """The ranges that one task reads, in log order. Spark sends this object, pickled, to an executor."""

    def __init__(self, ranges: Sequence[EntryRange]) -> None:
        super().__init__(tuple(ranges))
        self.ranges = tuple(ranges)


def ranges_between(index: EntryIndex, log: TopicLog, start: Offset, end: Offset) -> Iterator[EntryRange]:
    """Yield the stored entries after `start`, up to and including `end`. Raises the errors of `EntryIndex.totals`."""
    for ledger in log.ledgers:
        first = start.entry_id + 1 if ledger.ledger_id == start.ledger_id else 0
        last = min(ledger.last, end.entry_id) if ledger.ledger_id == end.ledger_id else ledger.last
        if start.ledger_id <= ledger.ledger_id <= end.ledger_id and first <= last:
            yield EntryRange(
                topic=log.topic.name,
                partition=log.topic.partition,
                ledger_id=ledger.ledger_id,
                first=first,
                last=last,
                bytes_before=_bytes_through(index, ledger, first - 1),
                bytes_through=_bytes_through(index, ledger, last),
            )


def _bytes_through(index: EntryIndex, ledger: StoredLedger, entry_id: int) -> int:
    if entry_id < 0:
        return ledger.bytes_before
    if entry_id == ledger.last:
        return ledger.bytes_through
    return index.totals(ledger.ledger_id, entry_id).size_bytes


def split(
    index: EntryIndex, ranges: Sequence[EntryRange], *, most: int, part_bytes: int
) -> list[list[EntryRange]]:
    """Divide the ranges, in order, into at most `most` lists of about the same size.

    There are no more lists than are needed if each has at most `part_bytes`. The cuts depend only on the arguments,
    so a micro-batch that is planned again with the same options has the same tasks.
    Raises the errors of `EntryIndex.totals`.
    """
    total_bytes = sum(part.size_bytes for part in ranges)
    parts = max(1, min(most, -(-total_bytes // part_bytes)))
    dealt: list[list[EntryRange]] = [[] for _ in range(parts)]
    before_bytes = 0
    for part in ranges:
        for piece in _cut(index, part, before_bytes, total_bytes, parts):
            offset_bytes = before_bytes + piece.bytes_before - part.bytes_before
            dealt[min(parts - 1, offset_bytes * parts // max(1, total_bytes))].append(piece)
        before_bytes += part.size_bytes
    return [each for each in dealt if each]


def _cut(
    index: EntryIndex, part: EntryRange, before_bytes: int, total_bytes: int, parts: int
) -> Iterator[EntryRange]:
    """Yield pieces of a range, each with the entries that begin within one part of the bytes."""
    rest = part
    while True:
        begin_bytes = before_bytes + rest.bytes_before - part.bytes_before
        number = begin_bytes * parts // max(1, total_bytes)
        # The part ends before the first byte that belongs to a later part.
        end_bytes = -(-(number + 1) * total_bytes // parts)
        limit_bytes = part.bytes_before + end_bytes - before_bytes
        if number >= parts - 1 or rest.bytes_through <= limit_bytes:
            yield rest
            return
        # An entry begins where the one before it ends, so the piece's last entry is the first that reaches the limit.
        last = 1 + index.last_where(
            rest.ledger_id, rest.first, rest.last - 1, partial(_is_below, limit_bytes)
        )
        cut_bytes = index.totals(rest.ledger_id, last).size_bytes
        if last >= rest.last:
            yield rest
            return
        yield replace(rest, last=last, bytes_through=cut_bytes)
        rest = replace(rest, first=last + 1, bytes_before=cut_bytes)


def _is_below(limit_bytes: int, entry: EntryTotals) -> bool:
    return entry.size_bytes < limit_bytes
