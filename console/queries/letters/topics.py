"""Queries about dead-letter topics.

A letter is a message in a dead-letter topic.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from console.history.windows import WINDOWS, frame_of, unread, window_of
from console.queries.database import containing, fetch, fetch_entries, fetch_text, statement
from console.queries.history import ends_of, rolled_up_until
from console.queries.letters.origins import Origin, origins_of
from console.queries.rights import Scope
from console.queries.topics.log import EntryAt, by_place

__all__ = [
    "ORDERS",
    "PAGE_ROWS",
    "LetterPage",
    "LetterTopicRow",
    "LettersAsked",
    "StoredLedger",
    "UnreadLetters",
    "letter_topics",
    "over_letters",
    "stored_ledgers",
    "unread_letters",
]

PAGE_ROWS: Final = 50
ORDERS: Final = ("waiting", "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class LettersAsked:
    """The filter, order and page of the list of dead-letter topics."""

    search: str = ""
    order: str = "waiting"  # One of ORDERS
    after_name: str = ""  # `next_name` of the previous page; "" means the first page
    after_value: float = 0.0  # `next_value` of the previous page
    limit: int = PAGE_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterTopicRow:
    """A dead-letter topic or one of its partitions. A number is None if the broker never reported it."""

    id: int
    name: str
    messages_in: int | None
    waiting_messages: int | None  # Backlog of the slowest subscription; also None without a subscription
    stored_bytes: int | None
    last_append_ms: int | None  # 0 means never
    updated_ms: int | None
    subscriptions: int
    consumers: int
    worst_subscription: str | None
    oldest_ms: int | None  # Time when the oldest waiting letter was stored
    hour_messages: int | None
    day_messages: int | None  # Also None if counts of the last 24 hours are missing
    origins: tuple[Origin, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterPage:
    """A page of the list, and the place where the next page begins."""

    rows: tuple[LetterTopicRow, ...]
    next_name: str | None
    next_value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLedger:
    """A ledger that has not been trimmed."""

    ledger_id: int
    topic_name: str
    entries: int | None  # None means the ledger is open


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadLetters:
    """A dead-letter topic with letters that nobody reads."""

    topic_id: int
    name: str
    subscription: str  # Subscription with the most waiting letters; "" means no subscription
    messages: int  # Waiting letters of the subscription, or all published letters if there is no subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    id: int
    name: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Numbers:
    id: int
    name: str
    messages_in: int | None
    waiting_messages: int | None
    stored_bytes: int | None
    last_append_ms: int | None
    updated_ms: int | None
    subscriptions: int
    consumers: int
    worst_subscription: str | None
    oldest_ledger: int | None
    oldest_segment: int | None
    oldest_entry: int
    oldest_append_ms: int | None  # Approximate; set only if the ledger is offloaded


@dataclass(frozen=True, slots=True, kw_only=True)
class _Published:
    topic_id: int
    hour_messages: int
    day_messages: int | None


def letter_topics(asked: LettersAsked, scope: Scope) -> LetterPage:
    """Return a page of the dead-letter topics in scope."""
    keys = fetch_text(
        _Key,
        over_letters(f"by_{asked.order}"),
        {
            "pattern": containing(asked.search),
            "after_name": asked.after_name,
            "after_value": asked.after_value,
            "limit": asked.limit + 1,
            **scope.of_topics,
        },
    )
    shown = keys[: asked.limit]
    ids = [key.id for key in shown]
    numbers = {row.id: row for row in fetch(_Numbers, "letters", "numbers", {"ids": ids})}
    oldest = _oldest(list(numbers.values()))
    published = _published(ids)
    origins = origins_of([key.name for key in shown])
    return LetterPage(
        rows=tuple(
            _row(numbers[key_id], oldest.get(key_id), published.get(key_id), origins)
            for key_id in ids
            if key_id in numbers
        ),
        next_name=shown[-1].name if len(keys) > asked.limit else None,
        next_value=shown[-1].value if shown else 0.0,
    )


def unread_letters(scope: Scope, *, limit: int) -> list[UnreadLetters]:
    """Return the dead-letter topics in scope whose letters nobody reads. Topics without a subscription come first."""
    return fetch_text(UnreadLetters, over_letters("unread"), {"limit": limit, **scope.of_topics})


def stored_ledgers(ids: Collection[int], scope: Scope) -> dict[int, StoredLedger]:
    """Return the ledgers from `ids` that are in scope and have not been trimmed, keyed by id."""
    rows = fetch(StoredLedger, "letters", "stored_ledgers", {"ledgers": list(ids), **scope.of_topics})
    return {row.ledger_id: row for row in rows}


def over_letters(name: str) -> str:
    """Return the text of a query, including the common table expressions that find dead-letter topics."""
    return statement("letters", name).format(
        known=statement("letters", "known"), letters=statement("letters", "letters")
    )


def _row(
    row: _Numbers,
    oldest_ms: int | None,
    published: _Published | None,
    origins: Mapping[str, tuple[Origin, ...]],
) -> LetterTopicRow:
    return LetterTopicRow(
        id=row.id,
        name=row.name,
        messages_in=row.messages_in,
        waiting_messages=row.waiting_messages if row.subscriptions else None,
        stored_bytes=row.stored_bytes,
        last_append_ms=row.last_append_ms,
        updated_ms=row.updated_ms,
        subscriptions=row.subscriptions,
        consumers=row.consumers,
        worst_subscription=row.worst_subscription,
        oldest_ms=oldest_ms,
        hour_messages=None if published is None or row.updated_ms is None else published.hour_messages,
        day_messages=None if published is None or row.updated_ms is None else published.day_messages,
        origins=origins.get(row.name, ()),
    )


def _oldest(rows: Sequence[_Numbers]) -> dict[int, int]:
    places = {(row.oldest_ledger, row.oldest_entry): row for row in rows if row.oldest_ledger is not None}
    entries = fetch_entries(
        EntryAt,
        "at",
        {row.oldest_segment for row in places.values() if row.oldest_segment is not None},
        by_place(places),
    )
    offloaded = {row.id: row.oldest_append_ms for row in rows if row.oldest_append_ms is not None}
    return offloaded | {places[entry.place].id: entry.append_ms for entry in entries}


def _published(ids: Sequence[int]) -> dict[int, _Published]:
    now_ms, until_ms = time.time_ns() // 1_000_000, rolled_up_until()
    day = frame_of(WINDOWS["24h"], now_ms)
    ends = ends_of(day, until_ms)
    of_hour = ends_of(frame_of(window_of("1h", is_sum=True), now_ms), until_ms)
    ends |= {f"hour_{name}": at_ms for name, at_ms in of_hour.items()}
    rows = fetch(_Published, "letters", "published", {"ids": list(ids), **ends})
    if unread(day, until_ms):
        rows = [replace(row, day_messages=None) for row in rows]
    return {row.topic_id: row for row in rows}
