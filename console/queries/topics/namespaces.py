"""Namespaces with totals of their topics.

An act is a logged change, such as a cursor reset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from console.queries.database import containing, fetch, fetch_one
from console.queries.rights import Scope

__all__ = [
    "NamespaceNumbers",
    "NamespacePage",
    "NamespaceRow",
    "NamespacesAsked",
    "namespace",
    "namespace_numbers",
    "namespaces",
]

PAGE_ROWS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespacesAsked:
    """The search and page of a list of namespaces."""

    search: str = ""  # Part of tenant/namespace
    after: str = ""  # Last tenant/namespace of the previous page
    limit: int = PAGE_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceRow:
    """A namespace without its numbers."""

    id: int
    tenant: str
    name: str
    policies: dict[str, Any]
    created_at: datetime

    @property
    def full_name(self) -> str:
        """The name as tenant/namespace."""
        return f"{self.tenant}/{self.name}"

    @property
    def is_protected(self) -> bool:
        """Whether a user who applies an act must give a reason."""
        return self.policies.get("protected") is True

    @property
    def needs_second_person(self) -> bool:
        """Whether one user must plan an act and another user must apply it."""
        return self.policies.get("second_person") is True


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceNumbers:
    """Sums over the topics of a namespace. None means the broker never reported the number."""

    id: int
    topics: int  # A partitioned topic counts once
    subscriptions: int  # A durable subscription counts once on each partition
    backlog_messages: int | None  # Each topic adds the largest backlog of its durable subscriptions
    stored_bytes: int | None
    message_rate_in: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespacePage:
    """One page of namespaces, sorted by name."""

    rows: tuple[tuple[NamespaceRow, NamespaceNumbers], ...]
    next_name: str | None


def namespaces(asked: NamespacesAsked, scope: Scope) -> NamespacePage:
    """Return one page of namespaces."""
    tenant, _, name = asked.after.partition("/")
    found = fetch(
        NamespaceRow,
        "namespaces",
        "page",
        {
            "after_tenant": tenant,
            "after_name": name,
            "pattern": containing(asked.search),
            "limit": asked.limit + 1,
            **scope.of_topics,
        },
    )
    shown = found[: asked.limit]
    numbers = namespace_numbers([row.id for row in shown])
    return NamespacePage(
        rows=tuple((row, numbers[row.id]) for row in shown),
        next_name=shown[-1].full_name if len(found) > asked.limit else None,
    )


def namespace(tenant: str, name: str) -> NamespaceRow | None:
    """Return a namespace, if it exists."""
    return fetch_one(NamespaceRow, "namespaces", "one", {"tenant": tenant, "namespace": name})


def namespace_numbers(ids: Sequence[int]) -> dict[int, NamespaceNumbers]:
    """Return the sums over the topics of each namespace."""
    rows = fetch(NamespaceNumbers, "namespaces", "numbers", {"ids": list(ids)})
    return {row.id: row for row in rows}
