"""Dead-letter topics: their list, those that nobody reads, and the ledgers of the original messages."""

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
    """The filter, order and page of the list."""

    search: str = ""  # part of a name
    order: str = "waiting"  # one of ORDERS
    after_name: str = ""  # the last name on the previous page, "" = first page
    after_value: float = 0.0  # the sort value of the last row on the previous page
    limit: int = PAGE_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterTopicRow:
    """One dead-letter topic, or one partition of such a topic. None = the broker never reported the number."""

    id: int
    name: str
    messages_in: int | None  # letters ever published
    waiting_messages: int | None  # of the worst subscription; also None without a subscription
    stored_bytes: int | None
    last_append_ms: int | None  # 0 = never
    updated_ms: int | None
    subscriptions: int
    consumers: int
    worst_subscription: str | None  # None = it has no subscription
    oldest_ms: int | None  # when the oldest waiting letter was stored; None = none, or unknown
    hour_messages: int | None
    day_messages: int | None  # also None if not all points of the day were read
    origins: tuple[Origin, ...]  # existing pairs that fit the name; usually one


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterPage:
    """The rows in order and where the next page begins."""

    rows: tuple[LetterTopicRow, ...]
    next_name: str | None  # None = this is the last page
    next_value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLedger:
    """A ledger whose entries are stored."""

    ledger_id: int
    topic_name: str
    entries: int | None  # None: it is open


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadLetters:
    """A dead-letter topic with letters that nobody reads."""

    topic_id: int
    name: str  # of the dead-letter topic
    # The subscription with the most waiting letters; "" = there is none, so retention removes the letters.
    subscription: str
    messages: int  # waiting for that subscription; without a subscription, all that were ever published


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
    oldest_append_ms: int | None  # of an offloaded entry: when its ledger's first or last entry was stored


@dataclass(frozen=True, slots=True, kw_only=True)
class _Published:
    topic_id: int
    hour_messages: int
    day_messages: int | None  # None: points of that time were not read


def letter_topics(asked: LettersAsked, scope: Scope) -> LetterPage:
    """Return one page of the dead-letter topics in scope. At most six queries."""
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
    """Return dead-letter topics in scope that nobody reads, those without a subscription first. One query."""
    return fetch_text(UnreadLetters, over_letters("unread"), {"limit": limit, **scope.of_topics})


def stored_ledgers(ids: Collection[int], scope: Scope) -> dict[int, StoredLedger]:
    """Return the ledgers among `ids` that are still stored and whose topic is in scope, by id. One query."""
    rows = fetch(StoredLedger, "letters", "stored_ledgers", {"ledgers": list(ids), **scope.of_topics})
    return {row.ledger_id: row for row in rows}


def over_letters(name: str) -> str:
    """Return the text of a query, with the common table expressions that find the dead-letter topics."""
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
    """Return when each topic's oldest waiting letter was stored, by topic id. At most one query.

    Without a subscription, every letter counts as waiting.
    """
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
    """Return how many letters were published in the last hour and the last day, by topic id. Two queries."""
    now_ms, until_ms = time.time_ns() // 1_000_000, rolled_up_until()
    day = frame_of(WINDOWS["24h"], now_ms)
    ends = ends_of(day, until_ms)
    # Count the hour in points of one minute. Points of ten minutes would leave out up to ten minutes of the hour.
    of_hour = ends_of(frame_of(window_of("1h", is_sum=True), now_ms), until_ms)
    ends |= {f"hour_{name}": at_ms for name, at_ms in of_hour.items()}
    rows = fetch(_Published, "letters", "published", {"ids": list(ids), **ends})
    if unread(day, until_ms):
        rows = [replace(row, day_messages=None) for row in rows]
    return {row.topic_id: row for row in rows}
