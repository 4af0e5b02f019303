"""The list of topics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from console.queries.database import containing, fetch, fetch_one, fetch_text, statement
from console.queries.rights import Scope

__all__ = [
    "ORDERS",
    "PAGE_ROWS",
    "TopicPage",
    "TopicRow",
    "TopicsAsked",
    "in_order",
    "namespaces",
    "topic_rows",
    "topics",
]

PAGE_ROWS = 50
ORDERS = ("name", "worst", "backlog", "rate", "last")
_FEW = 500
_LARGEST = 2.0**53
# For the sort order "worst", topics.sql computes the sort value as state * _STATE_UNIT + state_since_ms.
_STATE_UNIT = 1 << 42


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsAsked:
    """The filters, order and page of the list. "" and 0 mean no filter."""

    search: str = ""
    namespace: str = ""  # Written as tenant/namespace
    subscription: str = ""
    only_backlog: bool = False
    state: int = 0  # Worst state among the topic's durable subscriptions
    order: str = "name"
    after_name: str = ""  # Name of the last topic on the previous page; "" means the first page
    after_value: float = 0.0  # Sort value of the previous page's last row
    limit: int = PAGE_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """A topic with the numbers that the broker last reported. An unreported number is None."""

    id: int
    name: str
    partitions: int  # 0 means not partitioned
    partition_ids: list[int]  # At most 20 ids
    # Largest backlog of a durable subscription. For a partitioned topic, the sum of each partition's largest backlog.
    backlog_messages: int | None
    message_rate_in: float | None
    byte_rate_in: float | None
    stored_bytes: int | None
    producers: int | None
    last_append_ms: int | None  # 0 means never
    updated_ms: int | None
    subscriptions: int
    consumers: int | None
    message_rate_acked: float | None  # Sum over all durable subscriptions
    worst_subscription: str | None  # Subscription with the largest backlog on any partition
    state: int | None  # Worst state among the topic's durable subscriptions
    state_since_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPage:
    """A page of the list, and the place where the next page begins."""

    rows: tuple[TopicRow, ...]
    next_name: str | None
    next_value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    id: int
    value: float
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Id:
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Name:
    name: str


def topics(asked: TopicsAsked, scope: Scope) -> TopicPage:
    """Return a page of the topics in scope."""
    after_state, after_since_ms = _worst_place(asked.after_value)
    keys = _keys(
        asked.order,
        {
            "pattern": containing(asked.search),
            "namespace_id": _namespace_id(asked, scope),
            "subscription": asked.subscription,
            "topic_ids": None,
            "only_backlog": asked.only_backlog,
            "state": asked.state,
            "after_state": after_state,
            "after_since_ms": after_since_ms,
            "after_name": asked.after_name,
            "after_value": _number(asked.after_value),
            "limit": asked.limit + 1,
            **scope.of_topics,
        },
    )
    shown = keys[: asked.limit]
    numbers = {row.id: row for row in topic_rows([key.id for key in shown])}
    return TopicPage(
        rows=tuple(numbers[key.id] for key in shown if key.id in numbers),
        next_name=shown[-1].name if len(keys) > asked.limit else None,
        next_value=shown[-1].value if shown else 0.0,
    )


def _keys(order: str, values: dict[str, Any]) -> list[_Key]:
    query = in_order(order)
    if not values["subscription"]:
        return fetch_text(_Key, query, values)
    any_subscription = {**values, "subscription": ""}
    ids = [row.id for row in fetch(_Id, "topics", "with_subscription", {**values, "limit": _FEW + 1})]
    if len(ids) <= _FEW:
        return fetch_text(_Key, query, {**any_subscription, "topic_ids": ids})
    # Try four pages of topics first. Looking up every topic that has the subscription takes several times as long.
    some = fetch_text(_Key, query, {**any_subscription, "limit": 4 * values["limit"]})
    having = {row.id for row in fetch(_Id, "topics", "having", {**values, "ids": [key.id for key in some]})}
    found = [key for key in some if key.id in having][: values["limit"]]
    return found if len(found) == values["limit"] else fetch_text(_Key, query, values)


def _namespace_id(asked: TopicsAsked, scope: Scope) -> int | None:
    """Return the id of the list's only namespace, or 0 if this namespace does not exist.

    Returns None if the list is not limited to one namespace.
    """
    if asked.namespace:
        tenant, _, namespace = asked.namespace.partition("/")
        found = fetch_one(_Id, "topics", "namespace_id", {"tenant": tenant, "namespace": namespace})
        return found.id if found else 0
    ids = scope.namespace_ids
    return ids[0] if ids is not None and len(ids) == 1 else None


def in_order(order: str) -> str:
    """Return the SQL query that finds a page of topics in this order."""
    return statement("topics", f"by_{order}").format(filters=statement("topics", "filters"))


def _worst_place(value: float) -> tuple[int, int]:
    return divmod(int(value), _STATE_UNIT) if 0 <= value < _STATE_UNIT * 2048 else (0, 0)


def _number(value: float) -> float:
    """Limit a number from a URL, so that PostgreSQL can cast it to bigint."""
    return 0.0 if math.isnan(value) else max(-_LARGEST, min(value, _LARGEST))


def topic_rows(ids: Sequence[int]) -> list[TopicRow]:
    """Return the rows of these topics, in no particular order."""
    return fetch(TopicRow, "topics", "numbers", {"ids": list(ids)})


def namespaces(scope: Scope, *, chosen: str = "") -> tuple[str, ...]:
    """Return the first 200 namespaces in scope, and `chosen` if it is in scope."""
    rows = fetch(_Name, "topics", "namespaces", {"chosen": chosen, **scope.of_topics})
    return tuple(row.name for row in rows)
