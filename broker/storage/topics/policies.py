"""Policy documents in PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker.core.topic_name import TopicName
from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = ["StoredPolicies", "change", "in_force", "of_namespace", "of_topic", "overriding"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPolicies:
    """The policy document of a namespace or topic. The values in the document are not validated."""

    row_id: int
    document: Mapping[str, object]
    above: Mapping[str, object]  # For a topic, the document of its namespace; for a namespace, empty


async def of_namespace(connection: Connection, tenant: str, namespace: str) -> StoredPolicies | None:
    """Return a namespace's policy document."""
    return await _read(connection, "of_namespace", {"tenant": tenant, "namespace": namespace})


async def of_topic(connection: Connection, name: TopicName) -> StoredPolicies | None:
    """Return the policy documents of a topic and its namespace."""
    return await _read(connection, "of_topic", {"name": name.full})


async def _read(connection: Connection, name: str, parameters: Mapping[str, object]) -> StoredPolicies | None:
    cursor = await connection.execute(query("policies", name), parameters)
    row = await cursor.fetchone()
    return None if row is None else StoredPolicies(row_id=row[0], document=row[1], above=row[2])


async def change(
    connection: Connection,
    *,
    is_topic: bool,
    row_id: int,
    before: Mapping[str, object],
    after: Mapping[str, object],
) -> bool:
    """Replace a policy document. If the stored document differs from `before`, change nothing and return False."""
    cursor = await connection.execute(
        query("policies", "set_topic" if is_topic else "set_namespace"),
        {"id": row_id, "before": json.dumps(dict(before)), "after": json.dumps(dict(after))},
    )
    return await cursor.fetchone() is not None


async def overriding(connection: Connection, namespace_id: int, names: Sequence[str]) -> dict[str, int]:
    """For each policy in `names`, count the namespace's topics that set the policy. Leave out zeros."""
    cursor = await connection.execute(
        query("policies", "overriding"), {"namespace_id": namespace_id, "names": list(names)}
    )
    return {row[0]: row[1] for row in await cursor.fetchall()}


async def in_force(
    connection: Connection, names: Sequence[str]
) -> list[tuple[str, Mapping[str, object], Mapping[str, object]]]:
    """Return the name, namespace policies and topic policies of every existing topic in `names`.

    A partition has the topic policies of its partitioned topic.
    """
    cursor = await connection.execute(query("policies", "in_force"), (list(names),))
    return [(row[0], row[1], row[2]) for row in await cursor.fetchall()]
