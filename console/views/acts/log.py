"""The page of the act log. An act is a logged change, such as a new user or a moved cursor."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from console.access import Rights, viewer
from console.blocks import Source, answer
from console.queries.acts import ActsAsked, act_log
from console.saved_views.found import views_of
from console.words.acts import KINDS, STATES, state_word, title

__all__ = ["acts", "acts_asked"]


@require_safe
@viewer
def acts(request: HttpRequest, rights: Rights) -> HttpResponse:
    """Show the act log."""
    views = views_of(request, rights)
    if views is not None and views.goes_to:
        return redirect(views.goes_to)
    asked = acts_asked(request.GET)
    rows, next_before = act_log(asked, rights.scope)
    next_query = request.GET.copy()
    next_query.pop("part", None)
    next_query["before"] = str(next_before)
    source = Source(
        name="rows",
        template="console/parts/acts/rows.html",
        live=("acts",),
        context=lambda: {
            "rows": rows,
            "asked": asked,
            "next_query": next_query.urlencode() if next_before else "",
            "is_filtered": bool(asked.search or asked.kind or asked.state),
            "unknown_kind": asked.kind not in ("", *KINDS),
            "unknown_state": asked.state not in ("", *STATES),
        },
    )
    context = {
        "asked": asked,
        "kinds": {kind: title(kind) for kind in KINDS},
        "states": {state: state_word(state) for state in STATES},
        "views": views,
        "nav": "acts",
    }
    return answer(request, rights, "console/pages/acts.html", [source], context)


def acts_asked(query: QueryDict) -> ActsAsked:
    """Read the filters and the page from the query string."""
    before = query.get("before", "")
    return ActsAsked(
        search=query.get("q", "").replace("\0", "").strip(),
        kind=query.get("kind", ""),
        state=query.get("state", ""),
        before=int(before) if before.isdecimal() and len(before) < 19 else None,
    )
