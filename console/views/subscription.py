"""The page of one subscription."""

from __future__ import annotations

import json
import time
from functools import cached_property
from itertools import islice
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from broker.models import SubscriptionState
from console.access import Rights, viewer
from console.addresses import history_url, past_url
from console.blocks import Source, answer
from console.cursor_map.counting import Flight
from console.cursor_map.positions import placed_parts
from console.cursor_map.strip import cursor_map
from console.diagnosis.diagnose import diagnose
from console.diagnosis.findings import Finding, Severity
from console.diagnosis.outliers import outliers
from console.diagnosis.what_if import what_if
from console.diagnosis.words import severity_word, spoken_finding
from console.history.series import Level
from console.messages.peek import PEEK_MESSAGES, PeekedMessage, peek
from console.queries import subscription as queries
from console.queries.acts import acts_of
from console.queries.clients import ConsumerRow, consumers_of
from console.queries.cursor import AckedBeyond, acked_beyond
from console.queries.diagnosis.snapshots import PENDING_READ, Parts, snapshots_of
from console.queries.history import history_of_subscription
from console.queries.topics.log import EntryAt, Log, Place, entries_at, log_of
from console.views.clients.asked import key_of
from console.views.history import history_sources
from console.views.partitioned_subscription import WHY_EVERY_S, partitioned_subscription
from console.words.said import Said, spoken
from console.words.subscriptions import Standing, standing
from pipeline.errors import OffloadUnavailable

__all__ = ["subscription"]

PENDING_MAPPED = PENDING_READ
RANGES_SHOWN = 12
_ALARMING = (Severity.STOPPED, Severity.SLOW)
_NOTHING_TO_DRAIN = ("keeping up", "paused", "idle")


@require_safe
@viewer
def subscription(request: HttpRequest, rights: Rights, topic: str, name: str) -> HttpResponse:
    """Show one subscription."""
    head = queries.subscription_head(topic, name)
    if head is None:
        return partitioned_subscription(request, rights, topic, name)
    is_long = request.GET.get("pending") == str(queries.PENDING_MOST)
    reading = _Reading(
        head,
        pending_shown=queries.PENDING_MOST if is_long else queries.PENDING_SHOWN,
        consumer_key=key_of(request.GET.get("consumer", "")),
        what_if_consumers=key_of(request.GET.get("with", "")),
    )
    live = (f"sub:{head.id}",)
    sources = [
        Source(
            name=part,
            template=f"console/parts/subscription/{part}.html",
            live=live if part != "acts" else ("acts",),
            every_s=WHY_EVERY_S if part == "why" or (part == "standing" and reading.is_watching) else 0,
            context=context,
        )
        for part, context in (
            ("standing", reading.badge),
            ("why", reading.why),
            ("numbers", reading.numbers),
            ("what_if", reading.what_if),
            ("cursor", reading.cursor),
            ("consumers", reading.consumers),
            ("pending", reading.pending_acks),
            ("next", reading.next_messages if rights.may_see_payloads else reading.nothing),
            ("acts", reading.acts),
        )
    ]
    window = request.GET.get("range", "")
    sources += history_sources(
        request,
        window,
        address=history_url(head.topic_name, head.name),
        charts=("backlog", "rates", "acks"),
        past=past_url(head.topic_name, head.name),
        read=lambda: history_of_subscription(
            head.topic_id,
            head.id,
            window,
            Level(backlog_messages=reading.backlog_messages),
            created_at=head.created_at,
        ),
    )
    context = {"head": head, "nav": "topics"}
    return answer(request, rights, "console/pages/subscription.html", sources, context)


class _Reading:
    def __init__(
        self,
        head: queries.SubscriptionHead,
        *,
        pending_shown: int,
        consumer_key: int,
        what_if_consumers: int,  # If 0, the page chooses a number
    ) -> None:
        self.head = head
        self.pending_shown = pending_shown
        self.consumer_key = consumer_key
        self.what_if_consumers = what_if_consumers
        self._trouble = ""

    @cached_property
    def log(self) -> Log:
        return log_of(self.head.topic_id)

    @cached_property
    def mark_delete(self) -> int:
        return self.log.index_of(self.head.mark_delete_ledger, self.head.mark_delete_entry)

    @cached_property
    def acked(self) -> AckedBeyond:
        return acked_beyond(self.head.id, self.log, self.mark_delete)

    @cached_property
    def pending(self) -> list[queries.PendingRow]:
        return queries.pending(self.head.id, PENDING_MAPPED)

    @cached_property
    def backlog_messages(self) -> int:
        return self.log.total_messages - self.head.acked_messages

    @cached_property
    def next_places(self) -> list[Place]:
        indexes = islice(self.acked.next_unacked(self.mark_delete + 1, self.log.end), PEEK_MESSAGES)
        return [place for index in indexes if (place := self.log.place_at(index)) is not None]

    @cached_property
    def known(self) -> dict[Place, EntryAt]:
        head = self.head
        places = [(head.mark_delete_ledger, head.mark_delete_entry), *self.next_places[:1]]
        if head.read_ledger is not None and head.read_entry is not None:
            places.append((head.read_ledger, head.read_entry))
        try:
            return entries_at(self.log, places)
        except OffloadUnavailable as error:
            self._trouble = str(error)
            return {}

    @cached_property
    def connected(self) -> list[ConsumerRow]:
        return consumers_of([self.head.id])

    @cached_property
    def findings(self) -> list[Finding]:
        first = self.known.get(self.next_places[0]) if self.next_places else None
        parts = Parts(
            log=self.log,
            mark_delete=self.mark_delete,
            acked=self.acked,
            pending=self.pending,
            consumers=self.connected,
            first=first,
        )
        snapshots = snapshots_of([(self.head, parts)], now_ms=int(time.time() * 1000))
        return [spoken_finding(each) for one in snapshots.values() for each in diagnose(one)]

    def why(self) -> dict[str, Any]:
        return {"head": self.head, "findings": self.findings}

    def badge(self) -> dict[str, Any]:
        judged = self.standing
        tone: str = judged.tone
        if self.is_watching and self.findings and self.findings[0].severity in _ALARMING:
            tone = severity_word(self.findings[0].severity)[1]
        return {"word": judged.state, "tone": tone, "since_ms": judged.since_ms}

    @property
    def is_watching(self) -> bool:
        return self.head.state == SubscriptionState.WATCHING

    @cached_property
    def standing(self) -> Standing:
        head = self.head
        return standing(
            state=head.state,
            since_ms=head.state_since_ms,
            drain_s=head.drain_s,
            backlog_messages=self.backlog_messages,
            consumers=head.consumers,
            unacked_messages=head.unacked_messages,
        )

    def numbers(self) -> dict[str, Any]:
        head = self.head
        first = self.known.get(self.next_places[0]) if self.next_places else None
        return {
            "head": head,
            "backlog_messages": self.backlog_messages,
            "backlog_bytes": self.log.total_bytes - head.acked_bytes,
            "oldest": first,
            "standing": self.standing,
        }

    def what_if(self) -> dict[str, Any]:
        head = self.head
        if not self.backlog_messages or self.standing.state in _NOTHING_TO_DRAIN:
            return {}
        found = what_if(
            type_=head.type,
            backlog_messages=self.backlog_messages,
            rate_in=head.message_rate_in,
            rate_acked=head.message_rate_acked,
            drain_s=self.standing.drain_s,
            connected=head.consumers or 0,
            consumers=self.connected,
            now_ms=int(time.time() * 1000),
        )
        if isinstance(found, Said):
            return {"why_not": spoken(found)}
        chosen = found.chosen(self.what_if_consumers or None)
        return {
            "head": head,
            "found": found,
            "last": found.choices[-1].consumers,
            "chosen": chosen,
            "answer": spoken(chosen.words),
            "answers": json.dumps([spoken(each.words) for each in found.choices], ensure_ascii=False),
        }

    def cursor(self) -> dict[str, Any]:
        head, log = self.head, self.log
        at_mark_delete = self.known.get((head.mark_delete_ledger, head.mark_delete_entry))
        read_known = head.read_ledger is not None and head.read_entry is not None
        read_place = (head.read_ledger or 0, head.read_entry or 0)
        ranges = [
            (log.place_at(first), log.place_at(last), last - first + 1)
            for first, last in self.acked.runs[:RANGES_SHOWN]
        ]
        drawn = cursor_map(
            begin=log.begin,
            end=log.end,
            mark_delete=self.mark_delete,
            # Retention may have trimmed the ledger of the read position.
            read=max(self.mark_delete + 1, log.index_of(*read_place)) if read_known else None,
            acked=self.acked.runs,
            in_flight=[
                Flight(
                    consumer=row.consumer_name,
                    first=log.index_of(row.ledger_id, row.first_entry),
                    last=log.index_of(row.ledger_id, row.last_entry),
                )
                for row in self.pending
            ],
        )
        return {
            "head": head,
            "at_mark_delete": at_mark_delete,
            "at_read": self.known.get(read_place) if read_known else None,
            "acked": self.acked,
            "ranges": ranges,
            "more_ranges": max(len(self.acked.runs) - RANGES_SHOWN, 0),
            "map": drawn,
            "all_in_flight": len(self.pending) < PENDING_MAPPED,
            "parts": placed_parts(drawn, log),
            "trouble": self._trouble,
        }

    def consumers(self) -> dict[str, Any]:
        now_ms = int(time.time() * 1000)
        return {
            "rows": self.connected,
            "head": self.head,
            "outliers": outliers(self.connected, now_ms=now_ms),
        }

    def pending_acks(self) -> dict[str, Any]:
        if self.consumer_key:
            return self._pending_of_one()
        return {
            "head": self.head,
            "rows": self.pending[: self.pending_shown],
            "all_query": f"pending={queries.PENDING_MOST}"
            if self.pending_shown < queries.PENDING_MOST
            else "",
            "rows_found": len(self.pending),
            "is_all": len(self.pending) < PENDING_MAPPED,
        }

    def _pending_of_one(self) -> dict[str, Any]:
        rows = queries.pending(self.head.id, queries.PENDING_MOST + 1, consumer_key=self.consumer_key)
        return {
            "head": self.head,
            "rows": rows[: queries.PENDING_MOST],
            "rows_found": len(rows),
            "is_all": len(rows) <= queries.PENDING_MOST,
            "consumer_key": self.consumer_key,
            "consumer": next((each for each in self.connected if each.key == self.consumer_key), None),
        }

    def next_messages(self) -> dict[str, Any]:
        log, unacked = self.log, self.acked.ack_sets
        messages: list[PeekedMessage] = []
        if self.known or not self._trouble:  # Reading `known` may set `_trouble`
            try:
                messages = peek(
                    log,
                    self.next_places,
                    unacked={
                        place: unacked[index]
                        for place in self.next_places
                        if (index := log.index_of(*place)) in unacked
                    },
                )
            except OffloadUnavailable as error:
                self._trouble = str(error)
        return {
            "head": self.head,
            "trouble": self._trouble,
            "rows": [(message, self._holder(message.ledger_id, message.entry_id)) for message in messages],
        }

    def _holder(self, ledger_id: int, entry_id: int) -> queries.PendingRow | None:
        for row in self.pending:
            if row.ledger_id == ledger_id and row.first_entry <= entry_id <= row.last_entry:
                return row
        return None

    def nothing(self) -> dict[str, Any]:
        return {"rows": []}

    def acts(self) -> dict[str, Any]:
        return {"rows": acts_of(self.head.id)}
