"""The list of topics."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from console.access import Rights, viewer
from console.blocks import UNFOLLOWED_EVERY_S, Source, answer
from console.queries.history import sparklines
from console.queries.topics.list import ORDERS, TopicsAsked, namespaces
from console.queries.topics.list import topics as read_topics
from console.saved_views.found import views_of
from console.words.subscriptions import STATE_WORDS, state_numbered

__all__ = ["changed_query", "headings", "topics"]


@require_safe
@viewer
def topics(request: HttpRequest, rights: Rights) -> HttpResponse:
    """List the topics."""
    views = views_of(request, rights)
    if views is not None and views.goes_to:
        return redirect(views.goes_to)
    asked = _asked(request.GET)
    found = read_topics(asked, rights.scope)

    def rows() -> Mapping[str, Any]:
        return {
            "page": found,
            "lines": sparklines({(row.id, 0): row.backlog_messages for row in found.rows}),
            "asked": asked,
            "is_filtered": bool(
                asked.search or asked.namespace or asked.subscription or asked.only_backlog or asked.state
            ),
            "headings": headings(request.GET, ORDERS, asked.order, clear=("after", "value")),
            "next_query": changed_query(
                request.GET, after=found.next_name or "", value=repr(found.next_value), part=""
            ),
            "first_query": changed_query(request.GET, after="", value="", part=""),
        }

    source = Source(
        name="rows",
        template="console/parts/topics/rows.html",
        live=tuple(f"topic:{topic_id}" for row in found.rows for topic_id in row.partition_ids or [row.id]),
        every_s=UNFOLLOWED_EVERY_S
        if any(row.partitions > len(row.partition_ids) for row in found.rows)
        else 0,
        context=rows,
    )
    context: dict[str, Any] = {
        "asked": asked,
        "asked_state": request.GET.get("state", ""),
        "states": STATE_WORDS,
        "views": views,
        "nav": "topics",
    }
    if "part" not in request.GET:
        context["namespaces"] = namespaces(rights.scope, chosen=asked.namespace)
    return answer(request, rights, "console/pages/topics.html", [source], context)


def _asked(query: QueryDict) -> TopicsAsked:
    order = query.get("sort", "name")
    try:
        after_value = float(query.get("value") or 0)
    except ValueError:
        after_value = 0.0
    return TopicsAsked(
        search=query.get("q", "").replace("\0", "").strip(),
        namespace=query.get("ns", ""),
        subscription=query.get("sub", "").replace("\0", "").strip(),
        only_backlog=query.get("backlog") == "1",
        state=state_numbered(query.get("state", "")),
        order=order if order in ORDERS else "name",
        after_name=query.get("after", ""),
        after_value=after_value,
    )


def changed_query(query: QueryDict, **changes: str) -> str:
    """Return the query string with these changes. An empty value removes the parameter."""
    changed = query.copy()
    for name, value in changes.items():
        if value:
            changed[name] = value
        else:
            changed.pop(name, None)
    return changed.urlencode()


def headings(
    query: QueryDict, orders: Collection[str], order: str, *, clear: Collection[str]
) -> dict[str, dict[str, object]]:
    """Return the query string of each sort order, and whether the order is selected.

    `clear` names the parameters to remove.
    """
    cleared = dict.fromkeys((*clear, "part"), "")
    return {
        name: {"query": changed_query(query, sort=name, **cleared), "on": name == order} for name in orders
    }
