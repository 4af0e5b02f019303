"""The page of firing alerts, cleared alerts and alert rules."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from console.access import Rights, viewer
from console.blocks import Source, answer
from console.queries import alerts as queries

__all__ = ["alerts"]

_EVERY_S = 10


@require_safe
@viewer
def alerts(request: HttpRequest, rights: Rights) -> HttpResponse:
    """Show alerts and alert rules."""
    sources = [
        Source(
            name="firing",
            template="console/parts/alerts/firing.html",
            live=(),
            every_s=_EVERY_S,
            context=lambda: _firing(request, rights),
        ),
        Source(
            name="rules",
            template="console/parts/alerts/rules.html",
            live=(),
            every_s=_EVERY_S,
            context=lambda: {
                "rules": [row for row in queries.alert_rules() if rights.may_see(row.namespaces)]
            },
        ),
        Source(
            name="history",
            template="console/parts/alerts/history.html",
            live=(),
            every_s=_EVERY_S,
            context=lambda: _history(request, rights),
        ),
    ]
    return answer(request, rights, "console/pages/alerts.html", sources, {"nav": "alerts"})


def _firing(request: HttpRequest, rights: Rights) -> dict[str, Any]:
    before = _number(request.GET.get("firing_before", ""))
    rows = queries.firing_alerts(rights.scope, before=before)
    more = len(rows) > queries.PAGE
    shown = rows[: queries.PAGE]
    return {"rows": shown, "before": before, "next": shown[-1].id if more else None}


def _history(request: HttpRequest, rights: Rights) -> dict[str, Any]:
    first, _, second = request.GET.get("before", "").partition("-")
    at_ms, row_id = _number(first), _number(second)
    before = (at_ms, row_id) if at_ms is not None and row_id is not None else None
    rows = queries.cleared_alerts(rights.scope, before=before)
    more = len(rows) > queries.PAGE
    shown = rows[: queries.PAGE]
    following = f"{shown[-1].cleared_ms}-{shown[-1].id}" if more else ""
    return {"rows": shown, "before": before, "next": following}


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 19 else None
