"""The list of all bookmarks, and the bookmarks tab of a topic's page."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.views.decorators.http import require_safe

from console.access import Rights, viewer
from console.blocks import Source, answer
from console.queries.rights import EVERYTHING, Scope
from console.queries.topics.bookmarks import BookmarkPage, BookmarksAsked, bookmarks

__all__ = ["all_bookmarks", "bookmark_rows"]


@require_safe
@viewer
def all_bookmarks(request: HttpRequest, rights: Rights) -> HttpResponse:
    """List all bookmarks."""
    asked = _asked(request.GET, None)
    source = Source(
        name="bookmarks",
        template="console/parts/bookmarks/rows.html",
        live=("acts",),
        context=lambda: _context(request.GET, asked, rights.scope),
    )
    context = {"asked": asked, "nav": "bookmarks"}
    return answer(request, rights, "console/pages/bookmarks.html", [source], context)


def bookmark_rows(query: QueryDict, topic_id: int) -> dict[str, Any]:
    """Return the template context of a topic's bookmarks tab."""
    return _context(query, _asked(query, topic_id), EVERYTHING)


def _asked(query: QueryDict, topic_id: int | None) -> BookmarksAsked:
    return BookmarksAsked(
        topic_id=topic_id,
        search=query.get("q", "").replace("\0", "").strip() if topic_id is None else "",
        after_topic=query.get("topic", ""),
        after_name=query.get("after", ""),
    )


def _context(query: QueryDict, asked: BookmarksAsked, scope: Scope) -> dict[str, Any]:
    found: BookmarkPage = bookmarks(asked, scope)
    first = query.copy()
    for name in ("part", "topic", "after"):
        first.pop(name, None)
    following = first.copy()
    if found.has_more:
        following["topic"], following["after"] = found.rows[-1].topic_name, found.rows[-1].name
    return {
        "found": found,
        "of_all": asked.topic_id is None,
        "is_filtered": bool(asked.search),
        "first_query": first.urlencode() if asked.after_name else "",
        "next_query": following.urlencode() if found.has_more else "",
    }
