"""Plan a batch read: which entries it covers."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.database import Connection
from pipeline.errors import TopicNotFound
from pipeline.source.bounds import ends_of, last_before, starts_of
from pipeline.source.filters import EVERYTHING, ReadFilter
from pipeline.source.offsets import Offset, Offsets
from pipeline.source.options import ReadOptions
from pipeline.source.ranges import EntryRange, ranges_between
from pipeline.source.topic_logs import EntryIndex, StoredTopic, TopicLog, find_topics, read_logs

__all__ = ["ReadPlan", "plan_read"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """The entries that a read covers, fixed when it is planned."""

    starts: Offsets
    ends: Offsets
    ranges: tuple[EntryRange, ...]  # in log order, topic by topic
    messages: int  # messages in the ranges; too many if a filter left out some ledgers


def plan_read(connection: Connection, options: ReadOptions, wanted: ReadFilter = EVERYTHING) -> ReadPlan:
    """Plan to read each topic up to its last committed entry, or as the options say. Safe to repeat.

    Leaves out entries that a filter on topic, partition, ledger or append time excludes. Raises TopicNotFound,
    SubscriptionNotFound, InvalidOption, DataLost, EntriesMissing and OffloadUnavailable.
    """
    topics = find_topics(connection, options)
    if not topics and options.pattern is not None:
        raise TopicNotFound(f"there are no {options.label}: check option topicsPattern")
    logs = read_logs(connection, topics)
    starts = starts_of(connection, logs, options, default="earliest")
    ends = ends_of(connection, logs, options)
    index = EntryIndex(connection, offload_url=options.offload_url)
    ranges: list[EntryRange] = []
    messages = 0
    for log in logs:
        start, end = _narrowed(index, log, starts[log.topic.name], ends[log.topic.name], wanted)
        if start.position < end.position and _needs(wanted, log.topic):
            messages += (end.messages or 0) - (start.messages or 0)
            ranges += [
                part
                for part in ranges_between(index, log, start, end)
                if wanted.interval("__ledgerId").has(part.ledger_id)
            ]
    return ReadPlan(starts=starts, ends=ends, ranges=tuple(ranges), messages=messages)


def _needs(wanted: ReadFilter, topic: StoredTopic) -> bool:
    return (wanted.topics is None or topic.name in wanted.topics) and wanted.interval("__partition").has(
        topic.partition
    )


def _narrowed(
    index: EntryIndex, log: TopicLog, start: Offset, end: Offset, wanted: ReadFilter
) -> tuple[Offset, Offset]:
    times_ms = wanted.interval_ms("__appendTime")
    if times_ms.least is not None:
        start = max(start, last_before(index, log, times_ms.least), key=lambda offset: offset.position)
    if times_ms.most is not None:
        end = min(end, last_before(index, log, times_ms.most + 1), key=lambda offset: offset.position)
    return start, end
