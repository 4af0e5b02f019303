"""The list of topics. PostgreSQL searches, sorts and pages it."""

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
_STATE_UNIT = 1 << 42
"""A place in the order by worst state is one number: the state times this unit, plus the time (ms) when it began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsAsked:
    """The part of the list that an address asks for."""

    search: str = ""  # part of a name
    namespace: str = ""  # "tenant/namespace", "" = all
    subscription: str = ""  # only topics that have a subscription of this name, "" = all
    only_backlog: bool = False
    state: int = 0  # only topics whose worst subscription has this stored state, 0 = all
    order: str = "name"  # one of ORDERS
    after_name: str = ""  # the last name on the previous page, "" = first page
    after_value: float = 0.0  # the sort value of the last row on the previous page
    limit: int = PAGE_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """One row. Its numbers are those that the broker last reported, None if it never did."""

    id: int
    name: str
    partitions: int  # 0 = not partitioned
    partition_ids: list[int]  # at most 20
    backlog_messages: int | None  # of the worst subscription, summed over partitions
    message_rate_in: float | None  # per second
    byte_rate_in: float | None  # per second
    stored_bytes: int | None
    producers: int | None
    last_append_ms: int | None  # 0 = never
    updated_ms: int | None
    subscriptions: int
    consumers: int | None
    message_rate_acked: float | None  # per second, all durable subscriptions
    worst_subscription: str | None  # the one with the largest backlog on a partition; None = none is known
    state: int | None  # the worst state of its durable subscriptions; None = none is known
    state_since_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPage:
    """The rows in order and where the next page begins."""

    rows: tuple[TopicRow, ...]
    next_name: str | None  # None = this is the last page
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
    """Return one page of the topics in scope.

    Two queries. One more if a namespace is chosen, and up to three more if a subscription is chosen.
    """
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
    """Return the topics of the page in order, and the first one of the next page."""
    query = in_order(order)
    if not values["subscription"]:
        return fetch_text(_Key, query, values)
    any_subscription = {**values, "subscription": ""}
    ids = [row.id for row in fetch(_Id, "topics", "with_subscription", {**values, "limit": _FEW + 1})]
    if len(ids) <= _FEW:
        return fetch_text(_Key, query, {**any_subscription, "topic_ids": ids})
    # Perhaps most topics have the subscription. Then four pages of all topics contain enough of them, and looking up
    # every topic that has the subscription would take several times as long.
    some = fetch_text(_Key, query, {**any_subscription, "limit": 4 * values["limit"]})
    having = {row.id for row in fetch(_Id, "topics", "having", {**values, "ids": [key.id for key in some]})}
    found = [key for key in some if key.id in having][: values["limit"]]
    return found if len(found) == values["limit"] else fetch_text(_Key, query, values)


def _namespace_id(asked: TopicsAsked, scope: Scope) -> int | None:
    """Return the id of the list's only namespace; 0 = it does not exist, None = the list is not limited to one."""
    if asked.namespace:
        tenant, _, namespace = asked.namespace.partition("/")
        found = fetch_one(_Id, "topics", "namespace_id", {"tenant": tenant, "namespace": namespace})
        return found.id if found else 0
    ids = scope.namespace_ids
    return ids[0] if ids is not None and len(ids) == 1 else None


def in_order(order: str) -> str:
    """Return the text of the query that finds a page's topics in one of ORDERS."""
    return statement("topics", f"by_{order}").format(filters=statement("topics", "filters"))


def _worst_place(value: float) -> tuple[int, int]:
    """Return the state and time of a place in the order by worst state.

    A number that is not a place stands for the beginning.
    """
    return divmod(int(value), _STATE_UNIT) if 0 <= value < _STATE_UNIT * 2048 else (0, 0)


def _number(value: float) -> float:
    """Return a number that PostgreSQL can compare with every column. An address may contain any number."""
    return 0.0 if math.isnan(value) else max(-_LARGEST, min(value, _LARGEST))


def topic_rows(ids: Sequence[int]) -> list[TopicRow]:
    """Return the numbers of these topics, in no particular order. One query."""
    return fetch(TopicRow, "topics", "numbers", {"ids": list(ids)})


def namespaces(scope: Scope, *, chosen: str = "") -> tuple[str, ...]:
    """Return the first 200 namespaces in scope, and the chosen one if it is in scope, for a list to choose from."""
    rows = fetch(_Name, "topics", "namespaces", {"chosen": chosen, **scope.of_topics})
    return tuple(row.name for row in rows)
