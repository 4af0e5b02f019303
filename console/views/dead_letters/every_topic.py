"""The list of dead-letter topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from console.access import Rights, viewer
from console.blocks import Source, answer
from console.queries.letters.topics import ORDERS, LettersAsked, letter_topics
from console.saved_views.found import views_of

__all__ = ["dead_letters"]


@require_safe
@viewer
def dead_letters(request: HttpRequest, rights: Rights) -> HttpResponse:
    """Show the dead-letter topics."""
    views = views_of(request, rights)
    if views is not None and views.goes_to:
        return redirect(views.goes_to)
    asked = _asked(request.GET)
    found = letter_topics(asked, rights.scope)

    def rows() -> Mapping[str, Any]:
        return {
            "page": found,
            "asked": asked,
            "next_query": _changed(request.GET, after=found.next_name or "", value=repr(found.next_value)),
            "first_query": _changed(request.GET),
            "orders": [(name, _changed(request.GET, sort=name)) for name in ORDERS],
        }

    source = Source(
        name="rows",
        template="console/parts/dead_letters/rows.html",
        live=tuple(f"topic:{row.id}" for row in found.rows),
        context=rows,
    )
    context = {"asked": asked, "views": views, "nav": "dead_letters"}
    return answer(request, rights, "console/pages/dead_letters.html", [source], context)


def _asked(query: QueryDict) -> LettersAsked:
    order = query.get("sort", ORDERS[0])
    try:
        after_value = float(query.get("value") or 0)
    except ValueError:
        after_value = 0.0
    return LettersAsked(
        search=query.get("q", "").strip(),
        order=order if order in ORDERS else ORDERS[0],
        after_name=query.get("after", ""),
        after_value=after_value,
    )


def _changed(query: QueryDict, **changes: str) -> str:
    changed = query.copy()
    for name in ("after", "value", "part"):
        changed.pop(name, None)
    for name, value in changes.items():
        if value and changes.get("after", "x"):
            changed[name] = value
    return changed.urlencode()
