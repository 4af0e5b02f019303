"""Bookmarks of one topic and its partitions, or of all topics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from console.queries.database import containing, fetch
from console.queries.rights import Scope

__all__ = ["PAGE_ROWS", "BookmarkPage", "BookmarkRow", "BookmarksAsked", "bookmarks"]

PAGE_ROWS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class BookmarksAsked:
    """The part of the list that a page's address asks for."""

    topic_id: int | None = None  # None = of all topics
    search: str = ""  # part of a bookmark's or a topic's name
    after_topic: str = ""  # with `after_name`, the last row of the previous page
    after_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BookmarkRow:
    """One bookmark."""

    name: str
    topic_name: str
    id: str  # ledger:entry
    until: datetime | None  # None = until it is deleted
    is_over: bool  # the bookmark has expired and keeps no messages
    who: str
    created_at: datetime
    # The size of the sealed ledgers from the bookmark's ledger on. None = there are none.
    kept_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BookmarkPage:
    """The rows by topic and name, and whether there are more."""

    rows: Sequence[BookmarkRow]
    has_more: bool


def bookmarks(asked: BookmarksAsked, scope: Scope) -> BookmarkPage:
    """Return one page of the bookmarks in scope. One query."""
    rows = fetch(
        BookmarkRow,
        "bookmarks",
        "page",
        {
            "topic_id": asked.topic_id,
            "pattern": containing(asked.search),
            "after_topic": asked.after_topic,
            "after_name": asked.after_name,
            "limit": PAGE_ROWS + 1,
            **scope.of_topics,
        },
    )
    return BookmarkPage(rows=rows[:PAGE_ROWS], has_more=len(rows) > PAGE_ROWS)
