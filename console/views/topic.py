"""One topic: its numbers, and a tab with its subscriptions, producers, ledgers or partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from console.access import Rights, viewer
from console.addresses import history_url
from console.blocks import Source, answer
from console.history.series import Level
from console.queries import topic as queries
from console.queries.history import history_of_topic, sparklines
from console.queries.log import Ends, Log, ends_of, log_of
from console.queries.numbers import subscription_sums
from console.views.history import history_sources
from console.views.partitioned_subscription import standing_of

__all__ = ["topic"]

TABS = ("subscriptions", "producers", "ledgers")


@require_safe
@viewer
def topic(request: HttpRequest, rights: Rights, topic: str) -> HttpResponse:
    """Show one topic. `tab` in the query string picks the block below the history. At most twelve queries."""
    head = queries.topic_head(topic)
    if head is None:
        raise Http404(f"There is no topic {topic}.")
    tabs = (*TABS[:2], "partitions") if head.partitions else TABS
    tab = request.GET.get("tab", "")
    tab = tab if tab in tabs else tabs[0]
    log = log_of(head.id)
    window = request.GET.get("range", "")
    now = Level(backlog_messages=head.backlog_messages, stored_bytes=head.stored_bytes)
    # The broker reports on each partition, never on their parent.
    followed = [row.id for row in queries.partitions(head.id)] if head.partitions else [head.id]
    live = tuple(f"topic:{topic_id}" for topic_id in followed)
    sources = [
        Source(
            name="numbers",
            template="console/parts/topic/numbers.html",
            live=live,
            context=lambda: {"head": head, "log": log},
        ),
        *history_sources(
            request,
            window,
            address=history_url(head.name),
            charts=("backlog", "rates", "stored"),
            read=lambda: history_of_topic(head.id, window, now, is_partitioned=bool(head.partitions)),
        ),
        Source(
            name=tab,
            template=f"console/parts/topic/{_template(tab, head)}.html",
            live=live,
            context=lambda: {"head": head, **_rows(tab, head, log)},
        ),
    ]
    context = {"head": head, "tabs": tabs, "tab": tab, "nav": "topics", "body": tab}
    return answer(request, rights, "console/pages/topic.html", sources, context)


def _template(tab: str, head: queries.TopicHead) -> str:
    return "subscription_sums" if head.partitions and tab == "subscriptions" else tab


def _rows(tab: str, head: queries.TopicHead, log: Log) -> Mapping[str, Any]:
    match tab:
        case "subscriptions" if head.partitions:
            sums = subscription_sums(head.id, ends_of(head.id), after="", limit=queries.ROWS)
            return {"rows": [(row, standing_of(row)) for row in sums]}
        case "subscriptions":
            # Logs and stored cursors give exact counts, even if no broker runs.
            rows = queries.subscriptions(head.id, Ends.of(head.id, log))
            lines = sparklines({(row.topic_id, row.id): row.backlog_messages for row in rows})
            return {"rows": rows, "lines": lines}
        case "producers":
            return {"rows": queries.producers(head.id)}
        case "partitions":
            return {"rows": queries.partitions(head.id)}
        case _:
            return {"log": log}
