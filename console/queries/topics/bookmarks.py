"""Bookmarks of one topic and its partitions, or of all topics.

A bookmark is a named position in a topic. Until the bookmark expires, the messages after it are kept.
"""

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
    """The filter and page of the list of bookmarks."""

    topic_id: int | None = None
    search: str = ""  # Part of the bookmark's name or of the topic's name
    after_topic: str = ""
    after_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BookmarkRow:
    """A bookmark."""

    name: str
    topic_name: str
    id: str  # Position of the bookmark, written as ledger:entry
    until: datetime | None
    is_over: bool  # Whether the bookmark has expired
    who: str
    created_at: datetime
    kept_bytes: int | None  # Size of the sealed ledgers that the bookmark keeps; None if there are none


@dataclass(frozen=True, slots=True, kw_only=True)
class BookmarkPage:
    """A page of bookmarks, sorted by topic and name."""

    rows: Sequence[BookmarkRow]
    has_more: bool


def bookmarks(asked: BookmarksAsked, scope: Scope) -> BookmarkPage:
    """Return a page of the bookmarks in scope."""
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
