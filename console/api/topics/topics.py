"""Operations that show topics and subscriptions, but not the content of messages."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from ninja import Path, Query, Router
from ninja.decorators import decorate_view
from pydantic import Field

from console.api.access import AuthorizedRequest
from console.api.answers import (
    Compactions,
    Cursors,
    OneSubscription,
    OneTopic,
    Stats,
    Topics,
    TopicStats,
)
from console.api.app import read
from console.api.conditional import with_etag
from console.api.found import found_subscription, found_topic, require_namespace
from console.api.pages import next_token, read_token
from console.api.parameters import Page, SearchText, TopicPath
from console.api.problems import Problem
from console.queries import numbers as queries
from console.queries.chrome import chrome
from console.queries.clients import ClientsAsked, consumers_of, producers
from console.queries.rights import EVERYTHING
from console.queries.subscription import PENDING_SHOWN, SubscriptionHead, pending
from console.queries.topics.compaction import compactions
from console.queries.topics.list import TopicRow, TopicsAsked, topic_rows
from console.queries.topics.list import topics as read_topics
from console.queries.topics.log import ends_of, log_of
from console.queries.topics.topic import ROWS, partitions
from console.words.subscriptions import Standing, standing, state_numbered

__all__ = ["TOPIC", "router"]

TOPIC = "/topics/{domain}/{name:tenant}/{name:namespace}/{name:local_name}"
router = Router()


class ListedTopics(Page):
    """Filters for topics."""

    q: Annotated[SearchText, Field(description="part of a name")] = ""
    namespace: Annotated[SearchText, Field(description="tenant/namespace")] = ""
    subscription: Annotated[
        SearchText, Field(description="only topics with a subscription of exactly this name")
    ] = ""
    backlog: Annotated[Literal["false", "true"], Field(description="true: only topics with a backlog")] = (
        "false"
    )
    state: Annotated[
        Literal["", "stuck", "falling behind", "paused", "draining", "watching", "keeping up", "idle"],
        Field(description="only topics whose worst subscription has this state"),
    ] = ""
    sort: Literal["name", "worst", "backlog", "rate", "last"] = "name"


@read(router, "/topics", response=Topics)
@decorate_view(with_etag)
def topics(request: AuthorizedRequest, asked: Query[ListedTopics]) -> dict[str, Any]:
    """List topics. A partitioned topic counts as one row."""
    after_value, after_name = read_token(asked.after, 0.0, "")
    page = read_topics(
        TopicsAsked(
            search=asked.q,
            namespace=asked.namespace,
            subscription=asked.subscription,
            only_backlog=asked.backlog == "true",
            state=state_numbered(asked.state),
            order=asked.sort,
            after_name=after_name,
            after_value=after_value,
            limit=asked.limit,
        ),
        request.auth.scope,
    )
    if asked.namespace and not page.rows:
        require_namespace(asked.namespace, request.auth.scope)
    following = None if page.next_name is None else next_token(float(page.next_value), page.next_name)
    return {"topics": page.rows, "next_after": following}


@read(router, TOPIC, response=OneTopic)
@decorate_view(with_etag)
def topic(request: AuthorizedRequest, topic: Path[TopicPath]) -> dict[str, Any]:
    """Show a topic with its numbers, policies, producers, partitions and bookmarks."""
    facts = found_topic(topic.full_name)
    return {
        **asdict(_row(facts)),
        **asdict(facts),
        "producing": producers(ClientsAsked(topic=facts.name, limit=ROWS), EVERYTHING).rows,
        "partition_topics": partitions(facts.id),
        "bookmarks": queries.bookmarks(facts.id),
    }


@read(router, f"{TOPIC}/compaction", response=Compactions)
@decorate_view(with_etag)
def compaction(request: AuthorizedRequest, topic: Path[TopicPath]) -> dict[str, Any]:
    """Show how far a topic, or each of its partitions, is compacted."""
    facts = found_topic(topic.full_name)
    return {"compactions": compactions(facts.id, ends_of(facts.id))}


@read(router, f"{TOPIC}/subscriptions", response=Cursors)
@decorate_view(with_etag)
def subscriptions(request: AuthorizedRequest, topic: Path[TopicPath], page: Query[Page]) -> dict[str, Any]:
    """List the cursors of a topic. Each partition has its own cursors."""
    facts = found_topic(topic.full_name)
    after, after_partition = read_token(page.after, "", -2)
    rows = queries.cursors(
        facts.id, ends_of(facts.id), after=after, after_partition=after_partition, limit=page.limit + 1
    )
    shown = rows[: page.limit]
    oldest = queries.oldest_unacked_ms(facts.id, {row.name for row in shown})
    return {
        "subscriptions": [
            asdict(row)
            | {"oldest_unacked_ms": oldest.get((row.name, row.partition))}
            | {"standing": _standing(row, row.backlog_messages)}
            for row in shown
        ],
        "next_after": next_token(shown[-1].name, shown[-1].partition) if len(rows) > page.limit else None,
    }


@read(router, f"{TOPIC}/subscriptions/{{name:subscription}}", response=OneSubscription)
@decorate_view(with_etag)
def subscription(request: AuthorizedRequest, topic: Path[TopicPath], subscription: str) -> dict[str, Any]:
    """Show one cursor with its consumers and its first pending acks."""
    head = found_subscription(topic.full_name, subscription)
    log = log_of(head.topic_id)
    backlog = log.total_messages - head.acked_messages
    read = None if head.read_ledger is None else f"{head.read_ledger}:{head.read_entry}"
    oldest = queries.oldest_unacked_ms(head.topic_id, [head.name])
    return {
        **asdict(head),
        "mark_delete": f"{head.mark_delete_ledger}:{head.mark_delete_entry}",
        "read_position": read,
        "backlog_messages": backlog,
        "backlog_bytes": log.total_bytes - head.acked_bytes,
        "oldest_unacked_ms": oldest.get((head.name, head.partition)),
        "standing": _standing(head, backlog),
        "connected": consumers_of([head.id]),
        "pending": pending(head.id, PENDING_SHOWN),
    }


@read(router, f"{TOPIC}/stats", response=TopicStats)
@decorate_view(with_etag)
def topic_stats(request: AuthorizedRequest, topic: Path[TopicPath], page: Query[Page]) -> dict[str, Any]:
    """Show the numbers of a topic and of its subscriptions, summed over partitions."""
    facts = found_topic(topic.full_name)
    (after,) = read_token(page.after, "")
    row = _row(facts)
    rows = queries.subscription_sums(facts.id, ends_of(facts.id), after=after, limit=page.limit + 1)
    shown = rows[: page.limit]
    oldest = queries.oldest_of_each_ms(facts.id, {each.name for each in shown})
    return {
        "topic": row,
        "subscriptions": [
            asdict(each)
            | {"oldest_unacked_ms": oldest.get(each.name)}
            | {"standing": _standing(each, each.backlog_messages)}
            for each in shown
        ],
        "next_after": next_token(shown[-1].name) if len(rows) > page.limit else None,
    }


@read(router, "/stats", response=Stats)
@decorate_view(with_etag)
def stats(request: AuthorizedRequest) -> dict[str, Any]:
    """Show totals over all topics that you may see, and whether a broker is running."""
    state = chrome()
    return {
        **asdict(queries.totals(request.auth.scope)),
        "broker": {
            "is_running": state.broker_runs,
            "host": state.host,
            "pid": state.pid,
            "seen_at": _time_of(state.seen_ms),
            "stopped_at": _time_of(state.stopped_ms),
        },
        "troubles": list(state.troubles),
        "waiting_acts": state.waiting_in(request.auth.scope),
    }


def _time_of(time_ms: int | None) -> datetime | None:
    return None if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC)


def _standing(
    row: SubscriptionHead | queries.CursorRow | queries.SubscriptionSums, backlog_messages: int
) -> Standing:
    return standing(
        state=row.state,
        since_ms=row.state_since_ms,
        drain_s=row.drain_s,
        backlog_messages=backlog_messages,
        consumers=row.consumers,
        unacked_messages=row.unacked_messages,
    )


def _row(facts: queries.TopicFacts) -> TopicRow:
    rows = topic_rows([facts.id])
    if not rows:
        raise Problem(404, "TopicNotFound", f"{facts.name} was just deleted")
    return rows[0]
