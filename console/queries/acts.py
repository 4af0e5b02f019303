"""Queries of the act log. An act is a logged change, such as a cursor reset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from broker.acts.second_person import PEOPLE
from console.queries.database import containing, fetch_text, statement
from console.queries.rights import Scope

__all__ = [
    "LOG_ROWS",
    "ActRow",
    "ActsAsked",
    "act_log",
    "acts_of",
    "acts_of_partitioned",
    "acts_page",
    "latest_acts",
    "plans_for_second_person",
]

LOG_ROWS = 50
RECENT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ActRow:
    """One act with its plan and its result."""

    id: int
    kind: str
    state: str
    topic_name: str
    subscription_name: str
    parameters: dict[str, Any]
    plan: dict[str, Any] | None
    result: dict[str, Any] | None
    error: str
    who: str
    origin: str
    reason: str
    undo_of_id: int | None
    undo_until: datetime | None
    created_at: datetime
    finished_at: datetime | None
    undoable: bool
    undone_by_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActsAsked:
    """The filters of the act log, and the start of the page. An empty string means no filter."""

    search: str = ""
    kind: str = ""
    state: str = ""
    before: int | None = None  # Id of the last act on the previous page


def acts_of(subscription_id: int) -> list[ActRow]:
    """Return the latest 8 acts on one subscription."""
    return _acts("of_subscription", {"subscription_id": subscription_id, "limit": RECENT})


def acts_of_partitioned(topic_id: int, subscription: str, ids: list[int]) -> list[ActRow]:
    """Return the latest 8 acts on a subscription of a partitioned topic.

    `ids` are the subscription's ids on the partitions.
    """
    asked = {"topic_id": topic_id, "subscription": subscription, "subscription_ids": ids, "limit": RECENT}
    return _acts("of_partitioned", asked)


def latest_acts(scope: Scope) -> list[ActRow]:
    """Return the latest 8 acts that the user may see."""
    return _log(ActsAsked(), scope, None, RECENT)


def plans_for_second_person(scope: Scope) -> list[ActRow]:
    """Return the latest 8 acts in scope that wait for a second person's approval.

    Searches only the latest 500 acts of each namespace that requires this approval.
    """
    return _acts("for_second_person", {"people": list(PEOPLE), "limit": RECENT, **scope.of_acts})


def act_log(asked: ActsAsked, scope: Scope) -> tuple[list[ActRow], int | None]:
    """Return a page of the log, newest first. Also return `before` for the next page, or None on the last page."""
    return acts_page(asked, scope, before=asked.before, limit=LOG_ROWS)


def acts_page(
    asked: ActsAsked, scope: Scope, *, before: int | None, limit: int
) -> tuple[list[ActRow], int | None]:
    """Return a page of acts whose ids are below `before`, newest first.

    Also return `before` for the next page, or None on the last page.
    """
    rows = _log(asked, scope, before, limit + 1)
    return rows[:limit], rows[limit - 1].id if len(rows) > limit else None


def _log(asked: ActsAsked, scope: Scope, before: int | None, limit: int) -> list[ActRow]:
    return _acts(
        "log",
        {
            "pattern": containing(asked.search),
            "kind": asked.kind,
            "state": asked.state,
            "before": before,
            "limit": limit,
            **scope.of_acts,
        },
    )


def _acts(name: str, parameters: Mapping[str, Any]) -> list[ActRow]:
    text = statement("acts", name).format(columns=statement("acts", "columns"))
    return fetch_text(ActRow, text, parameters)
