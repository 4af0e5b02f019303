"""The topics of a read and their ledgers, as they are stored now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.database import Connection
from pipeline.errors import EntriesMissing, TopicNotFound
from pipeline.ledger_files.offloaded import OffloadedEntries
from pipeline.queries import query
from pipeline.source.offsets import BEGINNING, Offset
from pipeline.source.options import ReadOptions

__all__ = ["EntryIndex", "EntryTotals", "StoredLedger", "StoredTopic", "TopicLog", "find_topics", "read_logs"]


class StoredTopic(NamedTuple):
    """A topic that is not partitioned, or one partition."""

    topic_id: int
    name: str
    partition: int  # -1 when the topic is not partitioned


class StoredLedger(NamedTuple):
    """A ledger up to its last committed entry. The totals are the topic's, trimmed messages included."""

    ledger_id: int
    last: int  # entry id, -1 = empty
    messages_before: int
    bytes_before: int
    messages_through: int
    bytes_through: int
    last_append_ms: int

    @property
    def is_trimmed(self) -> bool:
        """Return whether retention removed its entries. Only a topic's last ledger is kept without them."""
        return self.last < 0 and self.last_append_ms > 0


class EntryTotals(NamedTuple):
    """An entry without its data. The totals are the topic's, up to and including the entry."""

    append_ms: int
    messages: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLog:
    """The ledgers of one topic, oldest first, read in one snapshot."""

    topic: StoredTopic
    ledgers: tuple[StoredLedger, ...]

    @property
    def earliest(self) -> Offset:
        """The offset before everything that is stored."""
        if not self.ledgers:
            return BEGINNING
        first = self.ledgers[0]
        return Offset(ledger_id=first.ledger_id, entry_id=-1, messages=first.messages_before)

    @property
    def latest(self) -> Offset:
        """The offset of the last committed entry.

        The topic's owner appends in order, one commit at a time, so every entry before it is committed too.
        """
        for ledger in reversed(self.ledgers):
            if ledger.last >= 0 or ledger is self.ledgers[0]:
                return Offset(
                    ledger_id=ledger.ledger_id, entry_id=ledger.last, messages=ledger.messages_through
                )
        return BEGINNING

    def ledger(self, ledger_id: int) -> StoredLedger | None:
        """Return a ledger, or None if it is not stored."""
        return next((each for each in self.ledgers if each.ledger_id == ledger_id), None)


def find_topics(
    connection: Connection, options: ReadOptions, *, must_exist: bool = True
) -> list[StoredTopic]:
    """Return the topics of a read, partitions in place of partitioned topics. A pattern may match none.

    Raises TopicNotFound for a name that does not exist, unless `must_exist` is False: then the topic is left out.
    """
    if options.pattern is None:
        names = list(options.topics)
    else:
        rows = connection.execute(query("topic_names"), (options.pattern.prefix,)).fetchall()
        names = [name for (name,) in rows if options.pattern.matches(name)]
    rows = connection.execute(query("topics"), {"names": names}).fetchall()
    missing = [name for name in options.topics if name not in {asked for asked, *_ in rows}]
    if missing and must_exist:
        raise TopicNotFound(
            f"topic {missing[0]} does not exist in this database: check the topic's name and url"
        )
    topics = {
        StoredTopic(topic_id, name, partition)
        for _, topic_id, name, partition in rows
        if topic_id is not None
    }
    return sorted(
        topics, key=lambda topic: (topic.name.rpartition("-partition-")[0], topic.partition, topic.name)
    )


def read_logs(
    connection: Connection, topics: Iterable[StoredTopic], *, after: Mapping[str, Offset] | None = None
) -> list[TopicLog]:
    """Return the logs of the topics. If `after` has an offset of a topic, leave out the ledgers before it."""
    listed = list(topics)
    after = after or {}
    rows = connection.execute(
        query("ledgers"),
        {
            "topic_ids": [topic.topic_id for topic in listed],
            "from_ledgers": [after.get(topic.name, BEGINNING).ledger_id for topic in listed],
        },
    ).fetchall()
    ledgers: dict[int, list[StoredLedger]] = {topic.topic_id: [] for topic in listed}
    for topic_id, *ledger in rows:
        ledgers[topic_id].append(StoredLedger(*ledger))
    return [TopicLog(topic=topic, ledgers=tuple(ledgers[topic.topic_id])) for topic in listed]


class EntryIndex:
    """Looks up single entries in PostgreSQL or in ledger files, and caches them, because entries never change."""

    def __init__(self, connection: Connection, *, offload_url: str) -> None:
        self._connection = connection
        self._offloaded = OffloadedEntries(connection, offload_url)
        self._known: dict[tuple[int, int], EntryTotals] = {}

    def totals(self, ledger_id: int, entry_id: int) -> EntryTotals:
        """Return an entry's totals. Raises EntriesMissing if retention trimmed it meanwhile.

        For an entry in a file, also raises OffloadUnavailable, and InvalidOption if option offloadUrl is missing.
        """
        known = self._known.get((ledger_id, entry_id))
        if known is None:
            row = self._connection.execute(query("entry"), (ledger_id, entry_id)).fetchone()
            if row is None and (found := self._offloaded.entry(ledger_id, entry_id)) is not None:
                row = (found.append_ms, found.cumulative_messages, found.cumulative_bytes)
            if row is None:
                raise EntriesMissing(
                    f"entry {ledger_id}:{entry_id} is missing: retention trimmed it during planning; run the query"
                    " again"
                )
            known = self._known[ledger_id, entry_id] = EntryTotals(*row)
        return known

    def last_where(self, ledger_id: int, first: int, last: int, fits: Callable[[EntryTotals], bool]) -> int:
        """Return the last entry from `first` to `last` that fits, `first - 1` if none does.

        If an entry fits, all entries before it must fit too.
        """
        low, high = first - 1, last
        while low < high:
            middle = (low + high + 1) // 2
            if fits(self.totals(ledger_id, middle)):
                low = middle
            else:
                high = middle - 1
        return low
