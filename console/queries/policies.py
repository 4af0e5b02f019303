"""The policies set on a namespace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from console.queries.database import fetch_one

__all__ = ["namespace_policies"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    policies: dict[str, Any]


def namespace_policies(tenant: str, namespace: str) -> dict[str, Any] | None:
    """Return the policies set on a namespace, None if there is no such namespace. One query."""
    row = fetch_one(_Document, "policies", "of_namespace", {"tenant": tenant, "namespace": namespace})
    return None if row is None else row.policies
