"""Namespaces and their tenants in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.storage import access
from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = [
    "FoundNamespace",
    "admin_roles",
    "delete",
    "delete_tenant",
    "find",
    "granted_admins",
    "of_tenant",
    "set_tenant",
    "tenants",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundNamespace:
    """The result of looking up a namespace."""

    exists: bool
    topics: int  # Partitions are not counted
    namespaces_of_tenant: int
    is_tenant_kept: bool  # The tenant stays even without namespaces


async def find(connection: Connection, tenant: str, namespace: str) -> FoundNamespace:
    """Look up a namespace, which need not exist."""
    cursor = await connection.execute(query("namespaces", "find"), {"tenant": tenant, "namespace": namespace})
    row = await cursor.fetchone()
    assert row is not None
    return FoundNamespace(exists=row[0], topics=row[1], namespaces_of_tenant=row[2], is_tenant_kept=row[3])


async def delete(connection: Connection, tenant: str, namespace: str) -> None:
    """Delete an empty namespace, and then its tenant if no other namespace is left. Safe to repeat.

    The tenant stays if `set_tenant` has created or changed it.
    """
    async with connection.transaction():
        await connection.execute(query("namespaces", "delete"), {"tenant": tenant, "namespace": namespace})
        await connection.execute(
            query("namespaces", "delete_tenant"), {"name": tenant, "even_if_kept": False}
        )


async def set_tenant(connection: Connection, name: str, admin_roles: Sequence[str]) -> None:
    """Create a tenant, or replace its admin roles. Safe to repeat."""
    async with connection.transaction():
        await connection.execute(query("namespaces", "make_tenant"), (name,))
        await access.set_tenant_admins(connection, name, admin_roles)


async def delete_tenant(connection: Connection, name: str) -> bool:
    """Delete a tenant. Return False if the tenant has a namespace or does not exist."""
    cursor = await connection.execute(
        query("namespaces", "delete_tenant"), {"name": name, "even_if_kept": True}
    )
    return await cursor.fetchone() is not None


async def tenants(connection: Connection) -> list[str]:
    """Return the sorted names of all tenants."""
    cursor = await connection.execute(query("namespaces", "tenants"))
    return [row[0] for row in await cursor.fetchall()]


async def admin_roles(connection: Connection, name: str) -> list[str] | None:
    """Return the roles that administer a tenant, or None if there is no such tenant."""
    cursor = await connection.execute(query("namespaces", "tenant"), (name,))
    row = await cursor.fetchone()
    return None if row is None else list(row[0])


async def granted_admins(connection: Connection, name: str) -> list[str]:
    """Return the roles with permission to administer a tenant, even if the tenant does not exist."""
    cursor = await connection.execute(query("namespaces", "granted_admins"), (name,))
    return [row[0] for row in await cursor.fetchall()]


async def of_tenant(connection: Connection, name: str) -> list[str]:
    """Return the sorted names of a tenant's namespaces, without the tenant prefix."""
    cursor = await connection.execute(query("namespaces", "of_tenant"), (name,))
    return [row[0] for row in await cursor.fetchall()]
