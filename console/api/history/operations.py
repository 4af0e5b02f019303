"""Operations that return history for charts."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from ninja import Path, Query, Router
from ninja.decorators import decorate_view
from pydantic import BaseModel, Field

from console.access.roles import EVERYTHING
from console.api.access import AuthorizedRequest
from console.api.app import read
from console.api.conditional import with_etag
from console.api.found import found_cursors, found_topic
from console.api.history.answers import History
from console.api.parameters import TopicPath
from console.api.problems import Problem
from console.api.topics.topics import TOPIC
from console.history.series import Level
from console.queries import history as queries
from console.queries.subscription import subscription_head
from console.queries.topics.list import topic_rows
from console.queries.topics.log import log_of
from console.words.acts import asked as in_words

__all__ = ["router"]

router = Router()


class Asked(BaseModel):
    """The time range to show."""

    window: Annotated[Literal["1h", "6h", "24h", "30d"], Field(alias="range", description="up to now")] = "1h"


@read(router, "/history", response=History)
@decorate_view(with_etag)
def history(request: AuthorizedRequest, asked: Query[Asked]) -> dict[str, Any]:
    """Show the rates, the backlog and the size over time.

    The numbers are sums over all topics and subscriptions.
    """
    if not request.auth.scope.is_everything:
        raise Problem(
            403, "AuthorizationError", f"this requires a role of {EVERYTHING}: ask for the history of a topic"
        )
    return _answer(queries.history_of_everything(asked.window))


@read(router, f"{TOPIC}/history", response=History)
@decorate_view(with_etag)
def topic_history(request: AuthorizedRequest, topic: Path[TopicPath], asked: Query[Asked]) -> dict[str, Any]:
    """Show the rates, the backlog and the size of a topic over time.

    The numbers are sums over the partitions.
    """
    facts = found_topic(topic.full_name)
    rows = topic_rows([facts.id])
    now = (
        Level(backlog_messages=rows[0].backlog_messages, stored_bytes=rows[0].stored_bytes)
        if rows
        else Level()
    )
    return _answer(
        queries.history_of_topic(
            facts.id, asked.window, now, created_at=facts.created_at, is_partitioned=bool(facts.partitions)
        )
    )


@read(router, f"{TOPIC}/subscriptions/{{name:subscription}}/history", response=History)
@decorate_view(with_etag)
def subscription_history(
    request: AuthorizedRequest, topic: Path[TopicPath], subscription: str, asked: Query[Asked]
) -> dict[str, Any]:
    """Show the rates and the backlog of a subscription over time.

    The numbers are sums over the partitions. If more than 100 partitions have the subscription, name one partition.
    """
    head = subscription_head(topic.full_name, subscription)
    if head is None:
        return _answer(_of_partitions(topic.full_name, subscription, asked.window))
    now = Level(backlog_messages=log_of(head.topic_id).total_messages - head.acked_messages)
    return _answer(
        queries.history_of_subscription(head.topic_id, head.id, asked.window, now, created_at=head.created_at)
    )


def _of_partitions(topic: str, subscription: str, window: str) -> queries.History:
    facts, rows = found_cursors(topic, subscription)
    if len(rows) > queries.PARTITIONS_CHARTED:
        raise Problem(
            400,
            "TooManyPartitions",
            f"{topic} has more than {queries.PARTITIONS_CHARTED} partitions: name one of them",
        )
    return queries.history_of_partitions(facts.id, rows, window)


def _answer(found: queries.History) -> dict[str, Any]:
    return {
        "range": found.window.name,
        "step_s": found.window.step_s,
        "from_ms": found.from_ms,
        "to_ms": found.to_ms,
        "steps": found.steps,
        "acts": [
            {
                "id": act.id,
                "kind": act.kind,
                "asked": in_words(act.kind, act.parameters, act.undo_of_id),
                "topic": act.topic_name,
                "subscription": act.subscription_name,
                "who": act.who,
                "at_ms": int(act.finished_at.timestamp() * 1000),
            }
            for act in found.acts
        ],
    }
