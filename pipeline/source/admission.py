"""Apply the limits of a micro-batch: how far it reads in each topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from pipeline.source.offsets import Offset, Offsets
from pipeline.source.options import Limits
from pipeline.source.ranges import EntryRange, ranges_between
from pipeline.source.topic_logs import EntryIndex, EntryTotals, TopicLog

__all__ = ["admit"]


def admit(
    index: EntryIndex, logs: Sequence[TopicLog], starts: Offsets, ends: Offsets, limits: Limits
) -> Offsets:
    """Return the ends of a micro-batch: `ends`, or earlier ones where there is more than the limits allow.

    Topics share a limit in proportion to what each has to read, so that none waits for another. Each topic that has
    something to read gets at least one entry, however large. Raises the errors of
    `EntryIndex.totals`.
    """
    if not limits.is_set:
        return ends
    available = {
        log.topic.name: ranges
        for log in logs
        if (ranges := list(ranges_between(index, log, starts[log.topic.name], ends[log.topic.name])))
    }
    every = [part for ranges in available.values() for part in ranges]
    rows = sum(_messages(starts[name], ends[name]) for name in available)
    size_bytes = sum(part.size_bytes for part in every)
    entries = sum(part.entries for part in every)
    admitted = dict(ends)
    for name, ranges in available.items():
        start, end = starts[name], ends[name]
        reached = [end]
        if limits.rows is not None and limits.rows < rows:
            most_messages = (start.messages or 0) + limits.rows * _messages(start, end) // rows
            reached.append(_reach(index, ranges, partial(_has_at_most_messages, most_messages)))
        if limits.size_bytes is not None and limits.size_bytes < size_bytes:
            own_bytes = sum(part.size_bytes for part in ranges)
            most_bytes = ranges[0].bytes_before + limits.size_bytes * own_bytes // size_bytes
            reached.append(_reach(index, ranges, partial(_has_at_most_bytes, most_bytes)))
        if limits.entries is not None and limits.entries < entries:
            own_entries = sum(part.entries for part in ranges)
            reached.append(_after_entries(index, ranges, limits.entries * own_entries // entries))
        admitted[name] = min(reached, key=lambda offset: offset.position)
    return admitted


def _messages(start: Offset, end: Offset) -> int:
    return (end.messages or 0) - (start.messages or 0)


def _has_at_most_messages(most: int, entry: EntryTotals) -> bool:
    return entry.messages <= most


def _has_at_most_bytes(most: int, entry: EntryTotals) -> bool:
    return entry.size_bytes <= most


def _reach(index: EntryIndex, ranges: Sequence[EntryRange], fits: Callable[[EntryTotals], bool]) -> Offset:
    """Return the offset of the last entry that fits, or of the first entry if none does."""
    reached = (ranges[0].ledger_id, ranges[0].first)
    for part in ranges:
        last = part.last
        if not fits(index.totals(part.ledger_id, last)):
            last = index.last_where(part.ledger_id, part.first, last - 1, fits)
        if last >= part.first:
            reached = (part.ledger_id, last)
        if last < part.last:
            break
    return _offset(index, *reached)


def _after_entries(index: EntryIndex, ranges: Sequence[EntryRange], entries: int) -> Offset:
    """Return the offset after the first `entries` entries, but after one entry at least."""
    left = max(1, entries)
    for part in ranges:
        if left <= part.entries:
            return _offset(index, part.ledger_id, part.first + left - 1)
        left -= part.entries
    return _offset(index, ranges[-1].ledger_id, ranges[-1].last)


def _offset(index: EntryIndex, ledger_id: int, entry_id: int) -> Offset:
    messages = index.totals(ledger_id, entry_id).messages
    return Offset(ledger_id=ledger_id, entry_id=entry_id, messages=messages)
