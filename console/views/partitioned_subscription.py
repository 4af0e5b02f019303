"""One subscription of a partitioned topic: its sums, and a row for each partition."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from console.access import Rights
from console.blocks import Source, answer
from console.diagnosis.outliers import outliers
from console.queries import numbers as queries
from console.queries.acts import acts_of_partitioned
from console.queries.clients import consumers_of
from console.queries.topics.list import topic_rows
from console.queries.topics.log import Ends, ends_of
from console.words.subscriptions import Standing, standing

__all__ = ["partitioned_subscription", "standing_of"]


def partitioned_subscription(request: HttpRequest, rights: Rights, topic: str, name: str) -> HttpResponse:
    """Show the subscription. Four blocks; at most nine queries for the whole page.

    Raises Http404 if the topic is not partitioned, or has no such subscription.
    """
    facts = queries.topic_facts(topic)
    if facts is None or not facts.partitions:
        raise Http404(_("There is no subscription {name} on {topic}.").format(name=name, topic=topic))
    ends = ends_of(facts.id)
    rows = queries.cursors_named(facts.id, ends, name, limit=facts.partitions)
    if not rows:
        raise Http404(_("There is no subscription {name} on {topic}.").format(name=name, topic=topic))
    reading = _Reading(facts, ends, rows)
    live = tuple(f"sub:{row.id}" for row in rows)
    sources = [
        Source(
            name=part,
            template=f"console/parts/{place}/{part}.html",
            live=live if part != "acts" else ("acts",),
            context=context,
        )
        for place, part, context in (
            ("partitioned_subscription", "numbers", reading.numbers),
            ("partitioned_subscription", "partitions", reading.partitions),
            ("partitioned_subscription", "consumers", reading.consumers),
            ("subscription", "acts", reading.acts),
        )
    ]
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
    """Put the state of a cursor, or the worst state of a subscription's partitions, into words."""
    return standing(
        state=row.state,
        since_ms=row.state_since_ms,
        drain_s=row.drain_s,
        backlog_messages=row.backlog_messages,
        consumers=row.consumers,
        unacked_messages=row.unacked_messages,
    )


class _Reading:
    """The data of one request. Each part is read at most once."""

    def __init__(self, facts: queries.TopicFacts, ends: Ends, rows: list[queries.CursorRow]) -> None:
        self._facts = facts
        self._topics = ends.topics
        self._rows = rows

    @cached_property
    def _oldest_ms(self) -> dict[tuple[str, int], int]:
        return queries.oldest_unacked_ms(self._facts.id, [self._rows[0].name])

    @cached_property
    def _rates(self) -> dict[str, float | None]:
        """Return the publish rate of each partition in messages per second, by the partition's name."""
        return {row.name: row.message_rate_in for row in topic_rows(self._topics)}

    def numbers(self) -> Mapping[str, Any]:
        known = [rate for rate in self._rates.values() if rate is not None]
        rate_in = sum(known) if known else None
        sums = queries.sums_of(self._rows)
        return {
            "topic": self._facts,
            "sums": sums,
            "rate_in": rate_in,
            "oldest_ms": min(self._oldest_ms.values(), default=None),
            "standing": standing_of(sums),
        }

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
