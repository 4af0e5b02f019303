"""The act log: every change made by an operator, the API, a command or a client."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from console.access import Rights, viewer
from console.blocks import Source, answer
from console.queries.acts import ActsAsked, act_log
from console.words.acts import KINDS, STATES

__all__ = ["acts"]


@require_safe
@viewer
def acts(request: HttpRequest, rights: Rights) -> HttpResponse:
    """Show the log. Search, kind, state and page are in the query string. Five queries."""
    before = request.GET.get("before", "")
    asked = ActsAsked(
        search=request.GET.get("q", "").replace("\0", "").strip(),
        kind=request.GET.get("kind", ""),
        state=request.GET.get("state", ""),
        before=int(before) if before.isdecimal() and len(before) < 19 else None,
    )
    rows, next_before = act_log(asked)
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
    context = {"asked": asked, "kinds": KINDS, "states": STATES, "nav": "acts"}
    return answer(request, rights, "console/pages/acts.html", [source], context)
