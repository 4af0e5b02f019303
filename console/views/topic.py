"""The page of one topic."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_safe

from broker.conf import broker_settings
from broker.topics.policies_in_force import effective_policies
from console.access import Rights, viewer
from console.addresses import history_url, past_url
from console.blocks import Source, answer
from console.diagnosis.rules.limits import backlog_quota
from console.history.bars import BARS_HEIGHT, BARS_WIDTH, bars
from console.history.series import Level
from console.queries.clients import ClientsAsked, producers
from console.queries.history import history_of_topic, sparklines
from console.queries.numbers import oldest_of_each_ms, subscription_sums
from console.queries.pipeline import insights
from console.queries.rights import EVERYTHING
from console.queries.topics import topic as queries
from console.queries.topics.compaction import compactions
from console.queries.topics.log import Ends, Log, ends_of, log_of
from console.queries.topics.policies import topic_policies
from console.topic_forms.offers import offers
from console.views.history import history_sources
from console.views.namespaces.described import policies_of_topic
from console.views.partitioned_subscription import standing_of
from console.views.topic_acts.bookmarks import bookmark_rows
from console.words.said import said, spoken

__all__ = ["topic"]

TABS = (
    gettext_noop("subscriptions"),
    gettext_noop("producers"),
    gettext_noop("pulls"),
    gettext_noop("ledgers"),
    gettext_noop("bookmarks"),
    gettext_noop("compaction"),
    gettext_noop("policies"),
    gettext_noop("insights"),
)
_PARTITIONS = gettext_noop("partitions")  # A partitioned topic has this tab instead of "ledgers"
_INSIGHT_HOURS = 48
_HOUR_MS = 3_600_000


@require_safe
@viewer
def topic(request: HttpRequest, rights: Rights, topic: str) -> HttpResponse:
    """Show one topic."""
    head = queries.topic_head(topic)
    if head is None:
        raise Http404(_("There is no topic {name}.").format(name=topic))
    tabs = (*TABS[:3], _PARTITIONS, *TABS[4:]) if head.partitions else TABS
    tab = request.GET.get("tab", "")
    tab = tab if tab in tabs else tabs[0]
    log = log_of(head.id)
    window = request.GET.get("range", "")
    now = Level(backlog_messages=head.backlog_messages, stored_bytes=head.stored_bytes)
    # The broker reports on each partition, not on the topic as a whole.
    followed = [row.id for row in queries.partitions(head.id)] if head.partitions else [head.id]
    live = tuple(f"topic:{topic_id}" for topic_id in followed)
    sources = [
        Source(
            name="numbers",
            template="console/parts/topic/numbers.html",
            live=(*live, "acts"),  # Deleting the topic sends the event "acts"
            context=lambda: {"head": head, "log": log},
        ),
        *history_sources(
            request,
            window,
            address=history_url(head.name),
            charts=("backlog", "rates", "stored"),
            past=past_url(head.name),
            read=lambda: history_of_topic(
                head.id, window, now, created_at=head.created_at, is_partitioned=bool(head.partitions)
            ),
        ),
        Source(
            name=tab,
            template=f"console/parts/{_template(tab, head)}.html",
            live=live,
            context=lambda: {"head": head, **_rows(tab, head, log, request.GET)},
        ),
    ]
    context = {
        "head": head,
        "tabs": tabs,
        "tab": tab,
        "nav": "topics",
        "body": tab,
        "offers": offers(head, rights),
    }
    return answer(request, rights, "console/pages/topic.html", sources, context)


def _template(tab: str, head: queries.TopicHead) -> str:
    if tab == "bookmarks":
        return "bookmarks/rows"
    return f"topic/{'subscription_sums' if head.partitions and tab == 'subscriptions' else tab}"


def _rows(tab: str, head: queries.TopicHead, log: Log, query: QueryDict) -> Mapping[str, Any]:
    match tab:
        case "subscriptions" if head.partitions:
            sums = subscription_sums(head.id, ends_of(head.id), after="", limit=queries.ROWS)
            return {"rows": [(row, standing_of(row)) for row in sums], "most": queries.ROWS}
        case "subscriptions":
            rows = queries.subscriptions(head.id, Ends.of(head.id, log))
            lines = sparklines({(row.topic_id, row.id): row.backlog_messages for row in rows})
            return {"rows": rows, "lines": lines, "quota": _quota(head, rows), "most": queries.ROWS}
        case "producers":
            return {"rows": producers(ClientsAsked(topic=head.name, limit=queries.ROWS), EVERYTHING).rows}
        case "pulls":
            return {"rows": queries.parked_queues(head.id)}
        case "insights":
            return _insights(head.id)
        case "bookmarks":
            return bookmark_rows(query, head.id)
        case "compaction":
            ends = ends_of(head.id) if head.partitions else Ends.of(head.id, log)
            return {"rows": compactions(head.id, ends)}
        case "partitions":
            return {"rows": queries.partitions(head.id)}
        case "policies":
            return policies_of_topic(head.name)
        case _:
            return {"log": log}


def _quota(head: queries.TopicHead, rows: Sequence[queries.SubscriptionRow]) -> str:
    documents = topic_policies(head.name)
    if documents is None or not rows:
        return ""
    policies = effective_policies(broker_settings(), documents.namespace, documents.own, where=head.name)
    largest = max(rows, key=lambda row: row.backlog_bytes)
    name = largest.name if 0 <= policies.backlog_quota_bytes < largest.backlog_bytes else None
    if name is None and policies.backlog_quota_ms >= 0:
        name = _older_than(policies.backlog_quota_ms, head.id, rows)
    if name is None:
        return ""
    whose = said("The backlog of {name}", name=name)
    return spoken(backlog_quota.sentence_of(policies.backlog_quota_policy.value, whose))


def _older_than(age_ms: int, topic_id: int, rows: Sequence[queries.SubscriptionRow]) -> str | None:
    stored_ms = oldest_of_each_ms(topic_id, {row.name for row in rows})
    oldest = min(stored_ms, key=lambda name: stored_ms[name], default=None)
    if oldest is None or time.time_ns() // 1_000_000 - stored_ms[oldest] <= age_ms:
        return None
    return oldest


def _insights(topic_id: int) -> Mapping[str, Any]:
    now_ms = time.time_ns() // 1_000_000
    first_ms = now_ms - now_ms % _HOUR_MS - (_INSIGHT_HOURS - 1) * _HOUR_MS
    rows = insights(topic_id, from_ms=first_ms)
    drawn = bars(
        {row.hour_ms: row.messages for row in rows}, first=first_ms, places=_INSIGHT_HOURS, step=_HOUR_MS
    )
    return {
        "rows": rows,
        "bars": drawn,
        "width": BARS_WIDTH,
        "height": BARS_HEIGHT,
        "latest": rows[0] if rows else None,
        # `subscriptions` is set after the hour ends, so the latest row often lacks it.
        "active": next((row for row in rows if row.subscriptions), None),
    }
