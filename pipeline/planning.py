"""Plan a read: which entries it covers, and how they are divided among Spark's partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeline.database import Connection
from pipeline.errors import EntriesMissing, InvalidOption, TopicNotFound
from pipeline.options import ReadOptions
from pipeline.queries import query
from vela.wire.message_id import MessageId

__all__ = ["EntryRange", "count_messages", "ends_of", "plan", "split"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRange:
    """Adjoining entries of one ledger, both ends included. Entry ids have no gaps."""

    topic: str  # full name; the partition's name if the topic is partitioned
    partition: int  # -1 when the topic is not partitioned
    ledger_id: int
    first: int
    last: int

    @property
    def entries(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.first}-{self.last} of {self.topic}"


def plan(connection: Connection, options: ReadOptions) -> list[EntryRange]:
    """Return the ranges up to the last committed entry, or up to `endingOffsets`. This fixes the end of the read.

    A topic's owner appends entries in order, one commit at a time, so there are no gaps before the last entry. Raises
    TopicNotFound, and InvalidOption if an ending offset names a topic outside the read or is beyond its end. Safe to
    repeat.
    """
    topics = connection.execute(query("topics"), (options.topic,)).fetchall()
    if not topics:
        raise TopicNotFound(f"topic {options.topic} does not exist in this database: check option topic")
    ending = dict(options.ending)
    strangers = sorted(ending.keys() - {name for _, name, _ in topics})
    if strangers:
        raise InvalidOption(
            f"option endingOffsets names {strangers[0]}, which does not belong to {options.topic}"
        )
    ranges: list[EntryRange] = []
    for topic_id, name, partition in topics:
        ledgers = connection.execute(query("ledgers"), (topic_id,)).fetchall()
        stored = [
            EntryRange(topic=name, partition=partition, ledger_id=ledger_id, first=0, last=last)
            for ledger_id, last in ledgers
            if last >= 0
        ]
        ranges += _cut(stored, ending[name]) if name in ending else stored
    return ranges


def _cut(stored: Sequence[EntryRange], end: MessageId) -> list[EntryRange]:
    last = (stored[-1].ledger_id, stored[-1].last) if stored else (-1, -1)
    if (end.ledger_id, end.entry_id) > last:
        raise InvalidOption(
            f"option endingOffsets is {end.ledger_id}:{end.entry_id}, beyond the last entry {last[0]}:{last[1]}"
        )
    kept = [part for part in stored if part.ledger_id <= end.ledger_id]
    if kept and kept[-1].ledger_id == end.ledger_id:
        kept[-1] = replace(kept[-1], last=min(kept[-1].last, end.entry_id))
    return [part for part in kept if part.entries > 0]


def ends_of(connection: Connection, options: ReadOptions) -> dict[str, str]:
    """Return the last entry of each topic now, as `endingOffsets` takes it: "ledger:entry", "-1:-1" if it is empty."""
    topics = connection.execute(query("topics"), (options.topic,)).fetchall()
    ends = {name: "-1:-1" for _, name, _ in topics}
    ends.update({part.topic: f"{part.ledger_id}:{part.last}" for part in plan(connection, options)})
    return ends


def count_messages(connection: Connection, ranges: Sequence[EntryRange]) -> int:
    """Count the messages in the ranges from the log's cumulative counts. Raises EntriesMissing."""
    total = 0
    for part in ranges:
        row = connection.execute(
            query("messages"), {"ledger_id": part.ledger_id, "first": part.first, "last": part.last}
        ).fetchone()
        if row is None:
            raise EntriesMissing(f"entries {part} are missing: they were trimmed; run the job again")
        total += int(row[0])
    return total


def split(ranges: Sequence[EntryRange], parts: int) -> list[list[EntryRange]]:
    """Divide the ranges, in order, into at most `parts` lists with about the same number of entries.

    Returns at least one list, empty if there is nothing to read, because Spark needs a partition.
    """
    total = sum(part.entries for part in ranges)
    parts = max(1, min(parts, total))
    dealt: list[list[EntryRange]] = [[] for _ in range(parts)]
    before = 0
    for part in ranges:
        first = part.first
        while first <= part.last:
            done = before + first - part.first
            index = (done * parts) // total
            # The first entry of the next list is the least n with n * parts >= (index + 1) * total.
            room = -(-(index + 1) * total // parts) - done
            last = min(part.last, first + room - 1)
            dealt[index].append(replace(part, first=first, last=last))
            first = last + 1
        before += part.entries
    return dealt
