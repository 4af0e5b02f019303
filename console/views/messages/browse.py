"""The page that lists a topic's messages."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from console.access import Rights, viewer
from console.blocks import Source, answer
from console.messages.asked import AskedInvalid
from console.messages.browse import FoundPage, browse
from console.messages.form import BrowseForm
from console.messages.states import subscription_names
from console.queries.topics.topic import TopicHead
from console.saved_views.found import views_of
from console.views.messages.asked import asked_by, head_of
from console.words.messages import looked_at, nothing_found, stopped

__all__ = ["messages"]

_MOST_SUGGESTED = 20


@require_safe
@viewer
def messages(request: HttpRequest, rights: Rights, topic: str) -> HttpResponse:
    """Show the messages that match the query string."""
    head = head_of(topic)
    views = views_of(request, rights)
    if views is not None and views.goes_to:
        return redirect(views.goes_to)
    form = BrowseForm(request.GET)
    found = _found(form, head, rights)

    def rows() -> dict[str, Any]:
        return {
            "head": head,
            "page": found,
            "asked_subscription": form["sub"].value(),
            "columns": () if found is None else found.columns,
            **_words(request.GET, form, found),
        }

    source = Source(name="messages", template="console/parts/messages/rows.html", live=(), context=rows)
    context: dict[str, Any] = {"head": head, "form": form, "views": views, "nav": "topics"}
    if found is not None:
        context["suggested_columns"] = _suggested(found)
    if "part" not in request.GET:
        context["subscriptions"] = subscription_names(head.id)
    status = 200 if found is not None else 400
    return answer(request, rights, "console/pages/messages.html", [source], context, status=status)


def _found(form: BrowseForm, head: TopicHead, rights: Rights) -> FoundPage | None:
    asked = asked_by(form, rights)
    if asked is None:
        return None
    try:
        return browse(head, asked)
    except AskedInvalid as error:
        form.add_error(error.field, str(error))
        return None


def _suggested(found: FoundPage) -> list[str]:
    properties = {name: None for row in found.rows for name, _value in row.message.properties}
    return ["key", *(f"property:{name}" for name in list(properties)[:_MOST_SUGGESTED]), *found.paths]


def _words(query: QueryDict, form: BrowseForm, found: FoundPage | None) -> dict[str, Any]:
    if found is None:
        return {}
    looked, is_filtered = found.looked, form.asked.filters.is_set
    return {
        "looked_words": looked_at(
            entries=looked.entries,
            stored=found.stored,
            matched=looked.matched,
            is_filtered=is_filtered,
            is_narrowed=found.is_narrowed,
            unjudged={trouble.value: number for trouble, number in looked.unjudged.items()},
            gone=looked.gone,
        ),
        "stopped_words": stopped(
            looked.stopped_by, rows=form.asked.limit, opened=looked.opened, read_bytes=looked.bytes
        ),
        "nothing_words": nothing_found(
            looked.stopped_by,
            start=form.asked.start,
            gone=looked.gone,
            is_filtered=is_filtered,
            is_continued=form.asked.after is not None,
        ),
        "next_query": ""
        if looked.stopped_by in ("end", "cursor")
        else _changed(query, after=str(looked.mark or "")),
        "first_query": _changed(query, after="") if form.asked.after else "",
    }


def _changed(query: QueryDict, *, after: str) -> str:
    changed = query.copy()
    for name in ("after", "part"):
        changed.pop(name, None)
    if after:
        changed["after"] = after
    return changed.urlencode()
