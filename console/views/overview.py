"""The first page: subscriptions with problems and why they have them, all rates together, and the latest acts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from console.access import Rights, viewer
from console.blocks import Source, answer
from console.diagnosis.diagnose import diagnose
from console.diagnosis.findings import Cure, Finding
from console.diagnosis.words import spoken_finding
from console.queries.acts import latest_acts
from console.queries.alerts import firing_alerts
from console.queries.diagnosis import read_parts, snapshot_of
from console.queries.history import history_of_everything
from console.queries.overview import COUNTED, WorstRow, state_counts, worst_subscriptions
from console.queries.subscription import SubscriptionHead, subscription_head
from console.views.history import history_sources
from console.words.subscriptions import STATE_WORDS

__all__ = ["overview"]

EXPLAINED = 4  # rows with their cause, which takes ten queries each
EVERY_S = 10  # a subscription that becomes stuck is not on the page yet, so its events do not reach the page


@require_safe
@viewer
def overview(request: HttpRequest, rights: Rights) -> HttpResponse:
    """Show the worst subscriptions with cause and cure. At most eleven queries, and ten for each cause."""
    rows = worst_subscriptions(rights.scope)
    history = history_sources(
        request,
        request.GET.get("range", ""),
        address=reverse("api:history"),
        charts=("backlog", "rates", "stored"),
        read=lambda: history_of_everything(request.GET.get("range", "")),
    )
    sources = [
        Source(
            name="worst",
            template="console/parts/overview/worst.html",
            live=tuple(f"sub:{row.id}" for row in rows),
            every_s=EVERY_S,
            context=lambda: _worst(rows, rights),
        ),
        Source(
            name="alerts",
            template="console/parts/overview/alerts.html",
            live=(),
            every_s=EVERY_S,
            context=lambda: {"rows": firing_alerts(rights.scope, limit=5)},
        ),
        *(history if rights.scope.is_everything else ()),  # the points of all topics are stored as one sum
        Source(
            name="acts",
            template="console/parts/overview/acts.html",
            live=("acts",),
            context=lambda: {"rows": latest_acts(rights.scope)},
        ),
    ]
    return answer(request, rights, "console/pages/overview.html", sources, {"nav": "overview"})


def _worst(rows: list[WorstRow], rights: Rights) -> Mapping[str, Any]:
    explained = [(row, *_explained(row)) for row in rows[:EXPLAINED]]
    counts = [
        (STATE_WORDS[each.state - 1], each) for each in state_counts(rights.scope) if each.subscriptions
    ]
    return {
        "rows": [*explained, *((row, None, None, None) for row in rows[EXPLAINED:])],
        "counts": counts,
        "counted": COUNTED,
        "judged": bool(counts),
    }


def _explained(row: WorstRow) -> tuple[SubscriptionHead | None, Finding | None, Cure | None]:
    """Return the leading finding and the first act that cures it; None if the subscription was just deleted."""
    head = subscription_head(row.topic_name, row.name)
    snapshot = head and snapshot_of(head, read_parts(head), now_ms=int(time.time() * 1000))
    if not snapshot:
        return head, None, None
    finding = spoken_finding(diagnose(snapshot)[0])
    return head, finding, next((cure for cure in finding.cures if cure.act), None)
