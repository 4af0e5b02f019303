"""The page of one dead-letter topic."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.access import Rights, viewer
from console.blocks import Source, answer
from console.letters.browse import FoundLetters, find_letters
from console.messages.asked import AskedInvalid
from console.queries.letters.origins import origins_of
from console.queries.numbers import (
    SubscriptionSums,
    cursors_named,
    oldest_of_each_ms,
    subscription_sums,
    sums_of,
)
from console.queries.topics.log import ends_of
from console.queries.topics.topic import ROWS, TopicHead, partitions, topic_head
from console.saved_views.found import views_of
from console.words.messages import looked_at, stopped

__all__ = ["dead_letter_topic"]

_SEARCH_EVERY_S = 30  # A search may take nearly a second
_MOST_TEXT = 300


@require_safe
@viewer
def dead_letter_topic(request: HttpRequest, rights: Rights, topic: str) -> HttpResponse:
    """Show one dead-letter topic."""
    head = topic_head(topic)
    if head is None:
        raise Http404(_("There is no topic {name}.").format(name=topic))
    views = views_of(request, rights)
    if views is not None and views.goes_to:
        return redirect(views.goes_to)
    given = {name: request.GET.get(name, "")[:_MOST_TEXT] for name in ("sub", "by")}
    reading = _Reading(head, rights, wanted=given["sub"], by=given["by"])
    # The broker reports on each partition, never on the partitioned topic.
    followed = [row.id for row in partitions(head.id)] if head.partitions else [head.id]
    sources = [
        Source(
            name="readers",
            template="console/parts/dead_letters/readers.html",
            live=tuple(f"topic:{topic_id}" for topic_id in followed),
            context=reading.readers,
        ),
        Source(
            name="letters",
            template="console/parts/dead_letters/letters.html",
            live=(),
            every_s=_SEARCH_EVERY_S,
            context=reading.letters,
        ),
    ]
    context = {
        "head": head,
        "origins": origins_of([head.name]).get(head.name, ()),
        "views": views,
        "nav": "dead_letters",
    }
    return answer(request, rights, "console/pages/dead_letter_topic.html", sources, context)


class _Reading:
    def __init__(self, head: TopicHead, rights: Rights, *, wanted: str, by: str) -> None:
        self.head = head
        self.rights = rights
        self.wanted = wanted
        self.by = by if rights.may_see_payloads else ""

    @cached_property
    def subscriptions(self) -> list[SubscriptionSums]:
        ends = ends_of(self.head.id)
        rows = subscription_sums(self.head.id, ends, after="", limit=ROWS)
        if self.wanted and len(rows) == ROWS and all(row.name != self.wanted for row in rows):
            wanted = cursors_named(self.head.id, ends, self.wanted, limit=max(1, self.head.partitions))
            rows += [sums_of(wanted)] if wanted else []
        return rows

    @cached_property
    def chosen(self) -> str:
        if any(row.name == self.wanted for row in self.subscriptions):
            return self.wanted
        worst = max(self.subscriptions, key=lambda row: row.backlog_messages or 0, default=None)
        return "" if worst is None else worst.name

    def readers(self) -> dict[str, Any]:
        oldest = oldest_of_each_ms(self.head.id, [row.name for row in self.subscriptions])
        return {
            "head": self.head,
            "rows": [(row, oldest.get(row.name)) for row in self.subscriptions],
            "chosen": self.chosen,
        }

    def letters(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"head": self.head, "chosen": self.chosen, "by": self.by}
        try:
            found = find_letters(self.head, self.rights.scope, subscription=self.chosen, by=self.by)
        except AskedInvalid as error:
            return {**shown, "refusal": str(error)}
        return {**shown, "found": found, **_words(found)}


def _words(found: FoundLetters) -> dict[str, str]:
    looked = found.looked
    return {
        "looked_words": looked_at(
            entries=looked.entries,
            stored=found.stored,
            matched=looked.matched,
            is_filtered=False,
            is_narrowed=False,
            unjudged={},
            gone=looked.gone,
        ),
        "stopped_words": stopped(
            looked.stopped_by, rows=looked.matched, opened=looked.opened, read_bytes=looked.bytes
        ),
    }
