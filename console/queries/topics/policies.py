"""The policies set on a namespace or a topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from console.queries.database import fetch_one

__all__ = ["TopicDocuments", "namespace_policies", "topic_policies"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    policies: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDocuments:
    """The policies of a topic and its namespace."""

    namespace: dict[str, Any]
    own: dict[str, Any]  # A partition has the policies of its partitioned topic
    parent_name: str | None


def topic_policies(name: str) -> TopicDocuments | None:
    """Return the policies of a topic and its namespace, if the topic exists."""
    return fetch_one(TopicDocuments, "policies", "of_topic", {"name": name})


def namespace_policies(tenant: str, namespace: str) -> dict[str, Any] | None:
    """Return the policies of a namespace, if it exists."""
    row = fetch_one(_Document, "policies", "of_namespace", {"tenant": tenant, "namespace": namespace})
    return None if row is None else row.policies
