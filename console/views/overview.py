"""The first page of the console."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.access import Rights, viewer
from console.addresses import act_form_url, topic_act_url
from console.blocks import Source, answer
from console.diagnosis.diagnose import diagnose
from console.diagnosis.findings import Cure, Finding
from console.diagnosis.rules.limits import backlog_quota
from console.diagnosis.rules.messages import poison
from console.diagnosis.rules.system import no_broker
from console.diagnosis.words import spoken_finding
from console.history.tiles import counted_until_ms, tiles
from console.history.windows import window_of
from console.queries.acts import latest_acts, plans_for_second_person
from console.queries.alerts import firing_alerts
from console.queries.chrome import chrome
from console.queries.diagnosis.snapshots import read_snapshots
from console.queries.history import History, history_of_everything, sparklines
from console.queries.letters.topics import UnreadLetters, unread_letters
from console.queries.overview import (
    COUNTED,
    LAST_LISTED,
    WorstRow,
    database_connections,
    poisoned_subscriptions,
    state_counts,
    worst_subscriptions,
)
from console.queries.subscription import SubscriptionHead, subscription_heads
from console.views.history import history_sources
from console.words.numerals import count
from console.words.subscriptions import STATE_WORDS, verdict
from console.words.troubles import health_of

__all__ = ["overview"]

_Diagnosed: TypeAlias = tuple[WorstRow, SubscriptionHead | None, list[Finding]]

_HOUR = "1h"
_SAID_APART = (no_broker.RULE.id, backlog_quota.RULE.id)
UNREAD = 3
# The page polls, because it gets no event about a subscription that it does not show.
EVERY_S = 10


@require_safe
@viewer
def overview(request: HttpRequest, rights: Rights) -> HttpResponse:
    """Show alerts, health, history, acts, and the worst subscriptions."""
    rows = worst_subscriptions(rights.scope)
    read = cache(lambda name: history_of_everything(name))
    window = request.GET.get("range", "")
    history = history_sources(
        request,
        window,
        address=reverse("api:history"),
        charts=("backlog", "rates", "stored"),
        read=lambda: read(window_of(window).name),
    )
    now = Source(
        name="now",
        template="console/parts/overview/now.html",
        live=(),
        every_s=EVERY_S,
        context=lambda: _now(read(_HOUR)),
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
            name="plans",
            template="console/parts/overview/plans.html",
            live=("acts",),
            context=lambda: {"rows": plans_for_second_person(rights.scope)},
        ),
        Source(
            name="decisions",
            template="console/parts/overview/decisions.html",
            live=(),
            every_s=EVERY_S,
            context=lambda: _decisions(rows, rights),
        ),
        Source(
            name="alerts",
            template="console/parts/overview/alerts.html",
            live=(),
            every_s=EVERY_S,
            context=lambda: {"rows": firing_alerts(rights.scope, limit=5)},
        ),
        Source(
            name="health",
            template="console/parts/overview/health.html",
            live=(),
            every_s=EVERY_S,
            context=_health,
        ),
        # The history adds up all topics, so only users who may see every topic get it.
        *((now, *history) if rights.scope.is_everything else ()),
        Source(
            name="acts",
            template="console/parts/overview/acts.html",
            live=("acts",),
            context=lambda: {"rows": latest_acts(rights.scope)},
        ),
    ]
    return answer(request, rights, "console/pages/overview.html", sources, {"nav": "overview"})


def _health() -> dict[str, Any]:
    state = chrome()
    return {
        "processes": health_of(state.troubles),
        "host": state.host,
        "connections": database_connections(),
    }


def _now(hour: History) -> dict[str, Any]:
    return {"tiles": tiles(hour.steps), "until_ms": counted_until_ms(hour.steps, hour.window.step_s * 1000)}


def _worst(rows: list[WorstRow], rights: Rights) -> Mapping[str, Any]:
    counts = state_counts(rights.scope)
    written = {
        each.state: (
            each.subscriptions,
            count(each.subscriptions)
            if each.subscriptions <= COUNTED
            else _("More than {number}").format(number=count(COUNTED)),
        )
        for each in counts
    }
    diagnosed = _diagnosed(rows)
    return {
        "verdict": verdict(written),
        "no_broker": next((spoken_finding(found) for found in _found(diagnosed, no_broker.RULE.id)), None),
        "rows": [
            (*_explained(each, lambda rule: rule not in _SAID_APART), _quota_finding(each))
            for each in diagnosed
        ],
        "lines": sparklines({(row.topic_id, row.id): row.backlog_messages for row in rows}),
        "has_more": sum(each.subscriptions for each in counts if each.state <= LAST_LISTED) > len(rows),
        "counts": [(STATE_WORDS[each.state - 1], each) for each in counts if each.subscriptions],
        "counted": COUNTED,
        "judged": any(each.subscriptions for each in counts),
    }


def _decisions(rows: Sequence[WorstRow], rights: Rights) -> Mapping[str, Any]:
    poisoned = _diagnosed(poisoned_subscriptions(rights.scope, [row.id for row in rows]))
    explained = [_explained(each, lambda rule: rule == poison.RULE.id) for each in poisoned]
    return {
        "poisoned": [each for each in explained if each[2] is not None],
        "letters": [(row, _cure_of(row)) for row in unread_letters(rights.scope, limit=UNREAD)],
    }


def _cure_of(row: UnreadLetters) -> str:
    if row.subscription:
        return act_form_url(row.name, row.subscription, "redrive")
    return f"{topic_act_url(row.name, 'subscription')}?name=letters&to=earliest&type=Shared"


def _diagnosed(rows: Sequence[WorstRow]) -> list[_Diagnosed]:
    """Diagnose subscriptions. A subscription that was just deleted has no findings."""
    if not rows:
        return []
    heads = subscription_heads([row.id for row in rows])
    snapshots = read_snapshots(list(heads.values()), now_ms=int(time.time() * 1000))
    return [
        (row, heads.get(row.id), diagnose(snapshots[row.id]) if row.id in snapshots else []) for row in rows
    ]


def _quota_finding(diagnosed: _Diagnosed) -> Finding | None:
    return next((spoken_finding(found) for found in _found([diagnosed], backlog_quota.RULE.id)), None)


def _found(diagnosed: Iterable[_Diagnosed], rule: str) -> Iterator[Finding]:
    return (finding for _row, _head, findings in diagnosed for finding in findings if finding.rule == rule)


def _explained(
    diagnosed: _Diagnosed, is_wanted: Callable[[str], bool]
) -> tuple[WorstRow, SubscriptionHead | None, Finding | None, Cure | None]:
    row, head, findings = diagnosed
    finding = next((spoken_finding(each) for each in findings if is_wanted(each.rule)), None)
    cure = None if finding is None else next((each for each in finding.cures if each.act), None)
    return row, head, finding, cure
