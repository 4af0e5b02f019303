"""Statistics of topics and subscriptions.

A value that the broker never reported is None, or 0 in `Totals`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, TypeVar

from console.queries.database import fetch, fetch_entries, fetch_one
from console.queries.rights import Scope
from console.queries.topics.log import Ends, EntryAt, by_place

__all__ = [
    "BookmarkRow",
    "CursorRow",
    "SubscriptionSums",
    "TopicFacts",
    "Totals",
    "bookmarks",
    "cursors",
    "cursors_named",
    "oldest_of_each_ms",
    "oldest_unacked_ms",
    "subscription_sums",
    "sums_of",
    "topic_facts",
    "totals",
]

BOOKMARKS = 500
OLDEST_OF = 10_000  # Maximum number of cursors to look up

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic and its policies."""

    id: int
    name: str
    partitions: int  # 0 means not partitioned
    partition: int  # -1 means not a partition
    parent: str | None
    created_at: datetime
    terminated_at: datetime | None
    namespace_policies: dict[str, Any]
    policies: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class BookmarkRow:
    """A bookmark, which is a named position in a topic. Until the bookmark expires, the messages after it are kept."""

    name: str
    id: str  # Written as ledger:entry
    until: datetime | None
    who: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorRow:
    """A subscription of an unpartitioned topic or of a partition."""

    id: int
    name: str
    topic: str
    partition: int  # -1 means the topic is not a partition
    type: str
    paused: bool
    mark_delete: str  # Written as ledger:entry
    acked_messages: int  # Includes trimmed messages
    version: int  # Rises when a seek, an expiry or an operator moves the cursor
    backlog_messages: int
    backlog_bytes: int
    consumers: int | None
    unacked_messages: int | None
    permits: int | None
    replay_entries: int | None
    message_rate_out: float | None
    message_rate_acked: float | None
    messages_redelivered: int | None
    updated_ms: int | None
    state: int | None
    state_since_ms: int | None
    drain_s: int | None  # Estimated seconds from updated_ms until the backlog is empty


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionSums:
    """The statistics of a subscription, summed over the topic's partitions."""

    name: str
    type: str
    paused: bool  # Paused on at least one partition
    cursors: int
    acked_messages: int
    backlog_messages: int
    backlog_bytes: int
    consumers: int | None
    unacked_messages: int | None
    permits: int | None
    replay_entries: int | None
    message_rate_out: float | None
    message_rate_acked: float | None
    messages_redelivered: int | None
    updated_ms: int | None
    state: int | None  # Worst state of all partitions
    state_since_ms: int | None
    drain_s: int | None  # Maximum over the partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over all topics in scope."""

    topics: int  # A partitioned topic counts once
    producers: int
    message_rate_in: float
    byte_rate_in: float
    stored_bytes: int
    consumers: int
    backlog_messages: int
    unacked_messages: int
    message_rate_out: float
    message_rate_acked: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _FirstUnacked:
    name: str
    partition: int
    ledger_id: int | None
    entry_id: int | None
    segment_id: int | None  # None means everything is acked, or the entry is offloaded
    append_ms: int | None  # Set only if the entry is offloaded


def topic_facts(name: str) -> TopicFacts | None:
    """Find a topic by its full name."""
    return fetch_one(TopicFacts, "numbers", "topic", {"name": name})


def bookmarks(topic_id: int) -> list[BookmarkRow]:
    """Return at most 500 bookmarks, sorted by name."""
    return fetch(BookmarkRow, "numbers", "bookmarks", {"topic_id": topic_id, "limit": BOOKMARKS})


def cursors(topic_id: int, ends: Ends, *, after: str, after_partition: int, limit: int) -> list[CursorRow]:
    """Return a page of cursors, sorted by subscription name and partition."""
    return fetch(
        CursorRow,
        "numbers",
        "cursors",
        {
            "topic_id": topic_id,
            **asdict(ends),
            "after": after,
            "after_partition": after_partition,
            "limit": limit,
        },
    )


def cursors_named(topic_id: int, ends: Ends, name: str, *, limit: int) -> list[CursorRow]:
    """Return at most `limit` cursors of a subscription, sorted by partition."""
    found = cursors(topic_id, ends, after=name, after_partition=-2, limit=limit)
    return [row for row in found if row.name == name]


def sums_of(rows: Sequence[CursorRow]) -> SubscriptionSums:
    """Sum the statistics of a subscription's cursors. `rows` must not be empty."""
    judged = [row for row in rows if row.state is not None]
    worst = min(judged, key=lambda row: (row.state, row.state_since_ms or 0), default=rows[0])
    return SubscriptionSums(
        name=rows[0].name,
        type=max(row.type for row in rows),
        paused=any(row.paused for row in rows),
        cursors=len(rows),
        acked_messages=sum(row.acked_messages for row in rows),
        backlog_messages=sum(row.backlog_messages for row in rows),
        backlog_bytes=sum(row.backlog_bytes for row in rows),
        consumers=_sum([row.consumers for row in rows]),
        unacked_messages=_sum([row.unacked_messages for row in rows]),
        permits=_sum([row.permits for row in rows]),
        replay_entries=_sum([row.replay_entries for row in rows]),
        message_rate_out=_sum([row.message_rate_out for row in rows]),
        message_rate_acked=_sum([row.message_rate_acked for row in rows]),
        messages_redelivered=_sum([row.messages_redelivered for row in rows]),
        updated_ms=max((row.updated_ms for row in rows if row.updated_ms is not None), default=None),
        state=worst.state,
        state_since_ms=worst.state_since_ms,
        drain_s=max((row.drain_s for row in rows if row.drain_s is not None), default=None),
    )


def _sum(values: Sequence[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None


def subscription_sums(topic_id: int, ends: Ends, *, after: str, limit: int) -> list[SubscriptionSums]:
    """Return a page of subscriptions, sorted by name."""
    return fetch(
        SubscriptionSums,
        "numbers",
        "subscriptions",
        {"topic_id": topic_id, **asdict(ends), "after": after, "limit": limit},
    )


def totals(scope: Scope) -> Totals:
    """Return the sums over all topics in scope."""
    return fetch(Totals, "numbers", "totals", scope.of_topics)[0]


def oldest_unacked_ms(topic_id: int, names: Collection[str]) -> dict[tuple[str, int], int]:
    """Return the append time of the oldest unacked entry of each cursor.

    Leaves out cursors without an unacked entry. Reads at most 10,000 cursors, and leaves out a subscription if the
    limit cuts off some of its cursors. For an offloaded entry, the time is approximate.
    """
    rows = fetch(
        _FirstUnacked,
        "numbers",
        "first_unacked",
        {"topic_id": topic_id, "names": list(names), "limit": OLDEST_OF + 1},
    )
    cut = rows[-1].name if len(rows) > OLDEST_OF else None
    first = [
        (row, (row.ledger_id, row.entry_id))
        for row in rows
        if row.ledger_id is not None and row.entry_id is not None and row.name != cut
    ]
    segments = {row.segment_id for row, _ in first if row.segment_id is not None}
    stored = fetch_entries(EntryAt, "at", segments, by_place({place for _, place in first}))
    append_ms = {entry.place: entry.append_ms for entry in stored}
    append_ms |= {place: row.append_ms for row, place in first if row.append_ms is not None}
    return {(row.name, row.partition): append_ms[place] for row, place in first if place in append_ms}


def oldest_of_each_ms(topic_id: int, names: Collection[str]) -> dict[str, int]:
    """Return the append time of the oldest unacked entry of each subscription."""
    oldest: dict[str, int] = {}
    for (name, _), append_ms in oldest_unacked_ms(topic_id, names).items():
        oldest[name] = min(oldest.get(name, append_ms), append_ms)
    return oldest
