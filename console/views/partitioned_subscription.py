"""The page of one subscription of a partitioned topic."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from console.access import Rights
from console.addresses import history_url
from console.blocks import Source, answer
from console.diagnosis.outliers import outliers
from console.diagnosis.partitions import SharedFinding
from console.diagnosis.words import spoken_finding
from console.queries import numbers as queries
from console.queries.acts import acts_of_partitioned
from console.queries.clients import consumers_of
from console.queries.diagnosis.partitions import diagnose_partitions
from console.queries.history import PARTITIONS_CHARTED, History, history_of_partitions
from console.queries.topics.list import topic_rows
from console.queries.topics.log import ends_of
from console.views.history import history_sources
from console.words.subscriptions import Standing, standing

__all__ = ["WHY_EVERY_S", "partitioned_subscription", "standing_of"]

WHY_EVERY_S: Final = 10  # Poll, because an idle consumer causes no event


def partitioned_subscription(request: HttpRequest, rights: Rights, topic: str, name: str) -> HttpResponse:
    """Show the subscription with the totals of its partitions.

    Raises Http404 if the subscription does not exist, or if the topic is not partitioned.
    """
    facts = queries.topic_facts(topic)
    if facts is None or not facts.partitions:
        raise Http404(_("There is no subscription {name} on {topic}.").format(name=name, topic=topic))
    rows = queries.cursors_named(facts.id, ends_of(facts.id), name, limit=facts.partitions)
    if not rows:
        raise Http404(_("There is no subscription {name} on {topic}.").format(name=name, topic=topic))
    reading = _Reading(facts, rows)
    live = tuple(f"sub:{row.id}" for row in rows)
    sources = [
        Source(
            name=part,
            template=f"console/parts/{place}/{part}.html",
            live=live if part != "acts" else ("acts",),
            every_s=WHY_EVERY_S if part == "why" else 0,
            context=context,
        )
        for place, part, context in (
            ("partitioned_subscription", "why", reading.why),
            ("partitioned_subscription", "numbers", reading.numbers),
            ("partitioned_subscription", "partitions", reading.partitions),
            ("partitioned_subscription", "consumers", reading.consumers),
            ("subscription", "acts", reading.acts),
        )
    ]
    if len(rows) <= PARTITIONS_CHARTED:
        window = request.GET.get("range", "")
        sources += history_sources(
            request,
            window,
            address=history_url(facts.name, name),
            charts=("backlog", "rates", "acks"),
            read=lambda: reading.history(window),
        )
    paused = [row.paused for row in rows]
    context = {
        "topic": facts,
        "name": name,
        "may_pause": not all(paused),
        "may_resume": any(paused),
        "nav": "topics",
    }
    return answer(request, rights, "console/pages/partitioned_subscription.html", sources, context)


def standing_of(row: queries.CursorRow | queries.SubscriptionSums) -> Standing:
    """Describe the state of a cursor, or the worst state of a subscription's partitions."""
    return standing(
        state=row.state,
        since_ms=row.state_since_ms,
        drain_s=row.drain_s,
        backlog_messages=row.backlog_messages,
        consumers=row.consumers,
        unacked_messages=row.unacked_messages,
    )


class _Reading:
    def __init__(self, facts: queries.TopicFacts, rows: list[queries.CursorRow]) -> None:
        self._facts = facts
        self._rows = rows

    @cached_property
    def _oldest_ms(self) -> dict[tuple[str, int], int]:
        return queries.oldest_unacked_ms(self._facts.id, [self._rows[0].name])

    def numbers(self) -> Mapping[str, Any]:
        topic = topic_rows([self._facts.id])
        sums = queries.sums_of(self._rows)
        return {
            "topic": self._facts,
            "sums": sums,
            "rate_in": topic[0].message_rate_in if topic else None,
            "oldest_ms": min(self._oldest_ms.values(), default=None),
            "standing": standing_of(sums),
        }

    def history(self, window: str) -> History:
        return history_of_partitions(self._facts.id, self._rows, window)

    def why(self) -> Mapping[str, Any]:
        found = diagnose_partitions(self._rows, now_ms=int(time.time() * 1000))
        return {
            "findings": [
                (spoken_finding(each.finding), found.heads[each.partition], self._where(each))
                for each in found.findings
            ],
            "left_out": len(self._rows) - len(found.heads),
        }

    def _where(self, shared: SharedFinding) -> str:
        if len(shared.partitions) == 1:
            return _("On partition {partition}.").format(partition=shared.partition)
        if len(shared.partitions) == self._facts.partitions:
            words = _("On all partitions. The numbers are those of partition {partition}.")
        else:
            words = _("On partitions {partitions}. The numbers are those of partition {partition}.")
        return words.format(partitions=", ".join(map(str, shared.partitions)), partition=shared.partition)

    def consumers(self) -> Mapping[str, Any]:
        found = consumers_of([row.id for row in self._rows])
        now_ms = int(time.time() * 1000)
        return {"topic": self._facts, "rows": found, "outliers": outliers(found, now_ms=now_ms)}

    def acts(self) -> Mapping[str, Any]:
        ids = [row.id for row in self._rows]
        rows = acts_of_partitioned(self._facts.id, self._rows[0].name, ids)
        return {"rows": rows, "partitions_of": self._facts.name}

    def partitions(self) -> Mapping[str, Any]:
        return {
            "topic": self._facts,
            "rows": [
                (
                    row,
                    standing_of(row),
                    self._oldest_ms.get((row.name, row.partition)),
                )
                for row in self._rows
            ],
        }
