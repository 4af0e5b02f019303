"""Topics, their subscriptions and the numbers of both; nothing of what is in messages."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.utils.timezone import now

from console.access import Rights
from console.api.access import api
from console.api.conditional import conditional
from console.api.found import found_subscription, found_topic
from console.api.pages import next_token, read_token
from console.api.problems import Problem
from console.api.query import choice, flag, number, text
from console.queries import numbers as queries
from console.queries.chrome import chrome
from console.queries.log import ends_of, log_of
from console.queries.subscription import PENDING_SHOWN, consumers, pending
from console.queries.topic import partitions, producers
from console.queries.topics import ORDERS, PAGE_ROWS, TopicRow, TopicsAsked, topic_rows
from console.queries.topics import topics as read_topics
from console.words.subscriptions import standing

__all__ = ["stats", "subscription", "subscriptions", "topic", "topic_stats", "topics"]

MOST_ROWS = 500


@api("GET", "HEAD")
def topics(request: HttpRequest, rights: Rights) -> HttpResponseBase:
    """A page of the list. Two queries."""
    after_value, after_name = read_token(request, 0.0, "")
    page = read_topics(
        TopicsAsked(
            search=text(request, "q"),
            namespace=text(request, "namespace"),
            only_backlog=flag(request, "backlog"),
            order=choice(request, "sort", ORDERS),
            after_name=after_name,
            after_value=after_value,
            limit=_limit(request),
        )
    )
    following = None if page.next_name is None else next_token(float(page.next_value), page.next_name)
    return conditional(request, {"topics": [_without_id(row) for row in page.rows], "next_after": following})


@api("GET", "HEAD")
def topic(request: HttpRequest, rights: Rights, topic: str) -> HttpResponseBase:
    """What it is, its numbers, who produces, its partitions and bookmarks. Five queries."""
    facts = found_topic(topic)
    return conditional(
        request,
        _without_id(_row(facts))
        | _without_id(facts)
        | {
            "producing": [asdict(row) for row in producers(facts.id)],
            "partition_topics": [_without_id(row) for row in partitions(facts.id)],
            "bookmarks": [asdict(row) for row in queries.bookmarks(facts.id)],
        },
    )


@api("GET", "HEAD")
def subscriptions(request: HttpRequest, rights: Rights, topic: str) -> HttpResponseBase:
    """A page of its cursors; a partitioned topic has one a partition. Six queries."""
    facts, limit = found_topic(topic), _limit(request)
    after, after_partition = read_token(request, "", -2)
    rows = queries.cursors(
        facts.id, ends_of(facts.id), after=after, after_partition=after_partition, limit=limit + 1
    )
    shown = rows[:limit]
    oldest = queries.oldest_unacked_ms(facts.id, {row.name for row in shown})
    return conditional(
        request,
        {
            "subscriptions": [
                _without_id(row) | {"oldest_unacked_ms": oldest.get((row.name, row.partition))}
                for row in shown
            ],
            "next_after": next_token(shown[-1].name, shown[-1].partition) if len(rows) > limit else None,
        },
    )


@api("GET", "HEAD")
def subscription(request: HttpRequest, rights: Rights, topic: str, name: str) -> HttpResponseBase:
    """One cursor with its consumers and first pending acks. Eight queries."""
    head = found_subscription(topic, name)
    log = log_of(head.topic_id)
    backlog = log.total_messages - head.acked_messages
    shown = asdict(head)
    for field in ("id", "topic_id", "mark_delete_ledger", "mark_delete_entry", "read_ledger", "read_entry"):
        del shown[field]
    read = None if head.read_ledger is None else f"{head.read_ledger}:{head.read_entry}"
    return conditional(
        request,
        shown
        | {
            "mark_delete": f"{head.mark_delete_ledger}:{head.mark_delete_entry}",
            "read_position": read,
            "backlog_messages": backlog,
            "backlog_bytes": log.total_bytes - head.acked_bytes,
            "oldest_unacked_ms": queries.oldest_unacked_ms(head.topic_id, [name]).get((name, head.partition)),
            "standing": asdict(
                standing(
                    paused=head.paused,
                    backlog_messages=backlog,
                    consumers=head.consumers,
                    rate_in=head.message_rate_in,
                    rate_acked=head.message_rate_acked,
                    unacked_messages=head.unacked_messages,
                )
            ),
            "connected": [asdict(row) for row in consumers(head.id)],
            "pending": [asdict(row) for row in pending(head.id, PENDING_SHOWN)],
        },
    )


@api("GET", "HEAD")
def topic_stats(request: HttpRequest, rights: Rights, topic: str) -> HttpResponseBase:
    """Its numbers and those of its subscriptions, summed over partitions. Seven queries."""
    facts, limit = found_topic(topic), _limit(request)
    (after,) = read_token(request, "")
    row = _row(facts)
    rows = queries.subscription_sums(facts.id, ends_of(facts.id), after=after, limit=limit + 1)
    shown = rows[:limit]
    oldest = _oldest_by_name(facts.id, {each.name for each in shown})
    return conditional(
        request,
        {
            "topic": _without_id(row),
            "subscriptions": [_sums(each, row, oldest.get(each.name)) for each in shown],
            "next_after": next_token(shown[-1].name) if len(rows) > limit else None,
        },
    )


@api("GET", "HEAD")
def stats(request: HttpRequest, rights: Rights) -> HttpResponseBase:
    """The sums over everything, and whether a broker runs. Two queries."""
    state = chrome()
    return conditional(
        request,
        asdict(queries.totals())
        | {
            "broker": {
                "is_running": state.is_running(now()),
                "host": state.host,
                "pid": state.pid,
                "seen_at": state.seen_at,
            },
            "waiting_acts": state.waiting_acts,
        },
    )


def _sums(sums: queries.SubscriptionSums, topic: TopicRow, oldest_ms: int | None) -> dict[str, Any]:
    words = standing(
        paused=sums.paused,
        backlog_messages=sums.backlog_messages,
        consumers=sums.consumers,
        rate_in=topic.message_rate_in,
        rate_acked=sums.message_rate_acked,
        unacked_messages=sums.unacked_messages,
    )
    return asdict(sums) | {"oldest_unacked_ms": oldest_ms, "standing": asdict(words)}


def _oldest_by_name(topic_id: int, names: Collection[str]) -> dict[str, int]:
    """The oldest over all partitions."""
    oldest: dict[str, int] = {}
    for (name, _), append_ms in queries.oldest_unacked_ms(topic_id, names).items():
        oldest[name] = min(oldest.get(name, append_ms), append_ms)
    return oldest


def _without_id(row: Any) -> dict[str, Any]:
    """A row as callers see it: names are what identifies things outside."""
    shown = asdict(row)
    del shown["id"]
    return shown


def _row(facts: queries.TopicFacts) -> TopicRow:
    rows = topic_rows([facts.id])
    if not rows:
        raise Problem(404, "TopicNotFound", f"{facts.name} was just deleted")
    return rows[0]


def _limit(request: HttpRequest) -> int:
    return number(request, "limit", default=PAGE_ROWS, least=1, most=MOST_ROWS)
