"""Namespaces and their tenants in PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass

from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = ["FoundNamespace", "delete", "find"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundNamespace:
    """What is stored about a namespace, which need not exist."""

    exists: bool
    topics: int  # partitions not counted
    namespaces_of_tenant: int  # 0 = there is no such tenant


async def find(connection: Connection, tenant: str, namespace: str) -> FoundNamespace:
    """Look up a namespace, which need not exist."""
    cursor = await connection.execute(query("namespaces", "find"), {"tenant": tenant, "namespace": namespace})
    row = await cursor.fetchone()
    assert row is not None
    return FoundNamespace(exists=row[0], topics=row[1], namespaces_of_tenant=row[2])


async def delete(connection: Connection, tenant: str, namespace: str) -> None:
    """Delete a namespace without topics, then its tenant if it has no namespace left. Safe to repeat.

    A namespace that has topics stays.
    """
    async with connection.transaction():
        await connection.execute(query("namespaces", "delete"), {"tenant": tenant, "namespace": namespace})
        await connection.execute(query("namespaces", "delete_empty_tenant"), (tenant,))
