"""The list of topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.views.decorators.http import require_safe

from console.access import Rights, viewer
from console.blocks import Source, answer
from console.queries.history import sparklines
from console.queries.topics import ORDERS, TopicsAsked, namespaces
from console.queries.topics import topics as read_topics
from console.words.subscriptions import STATE_WORDS, state_numbered

__all__ = ["topics"]


@require_safe
@viewer
def topics(request: HttpRequest, rights: Rights) -> HttpResponse:
    """Show the list. Search, namespace, backlog filter, order and page are in the query string. Eight queries."""
    asked = _asked(request.GET)
    found = read_topics(asked)

    def rows() -> Mapping[str, Any]:
        return {
            "page": found,
            "lines": sparklines({(row.id, 0): row.backlog_messages for row in found.rows}),
            "asked": asked,
            "is_filtered": bool(asked.search or asked.namespace or asked.only_backlog or asked.state),
            "headings": _headings(request.GET, asked.order),
            "next_query": _changed(
                request.GET, after=found.next_name or "", value=repr(found.next_value), part=""
            ),
            "first_query": _changed(request.GET, after="", value="", part=""),
        }

    source = Source(
        name="rows",
        template="console/parts/topics/rows.html",
        live=tuple(f"topic:{topic_id}" for row in found.rows for topic_id in row.partition_ids or [row.id]),
        context=rows,
    )
    context: dict[str, Any] = {
        "asked": asked,
        "asked_state": request.GET.get("state", ""),
        "states": STATE_WORDS,
        "nav": "topics",
    }
    if "part" not in request.GET:
        context["namespaces"] = namespaces()
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
        only_backlog=query.get("backlog") == "1",
        state=state_numbered(query.get("state", "")),
        order=order if order in ORDERS else "name",
        after_name=query.get("after", ""),
        after_value=after_value,
    )


def _changed(query: QueryDict, **changes: str) -> str:
    """Return the query string with some values set, or removed if they are empty."""
    changed = query.copy()
    for name, value in changes.items():
        if value:
            changed[name] = value
        else:
            changed.pop(name, None)
    return changed.urlencode()


def _headings(query: QueryDict, order: str) -> dict[str, dict[str, object]]:
    """Return for each order the query string that selects it and whether it is selected."""
    return {
        name: {"query": _changed(query, sort=name, after="", value="", part=""), "on": name == order}
        for name in ORDERS
    }
