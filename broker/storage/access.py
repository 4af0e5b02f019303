"""Permissions and revoked tokens in PostgreSQL. A subject is what a permission applies to, such as a topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from broker.core.access.permissions import Grants, Permission, Subject
from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = [
    "ADMIN",
    "StoredAccess",
    "load",
    "of_namespace",
    "set_permissions",
    "set_roles",
    "set_tenant_admins",
    "subject_columns",
]

ADMIN: Final = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAccess:
    """The stored permissions and revoked tokens."""

    grants: Grants  # Contains no superusers and no metrics roles
    revoked_tokens: frozenset[str]  # Token ids


async def load(connection: Connection) -> StoredAccess:
    """Read all permissions, and the revoked tokens that have not expired."""
    permissions = await (await connection.execute(query("access", "permissions"))).fetchall()
    revoked = await (await connection.execute(query("access", "revoked"))).fetchall()
    return StoredAccess(grants=_grants(permissions), revoked_tokens=frozenset(row[0] for row in revoked))


async def of_namespace(connection: Connection, namespace: str) -> Grants:
    """Read the permissions on a namespace and on its topics and subscriptions."""
    columns = subject_columns(Subject.of_namespace(*namespace.split("/")))
    rows = await (await connection.execute(query("access", "permissions_of_namespace"), columns)).fetchall()
    return _grants(rows)


async def set_permissions(
    connection: Connection, subject: Subject, roles: Collection[str], permissions: Collection[Permission]
) -> None:
    """Replace the permissions that these roles have on a subject. Safe to repeat."""
    await connection.execute(
        query("access", "set_permissions"),
        {
            **subject_columns(subject),
            "roles": list(roles),
            "permissions": [str(each) for each in permissions],
        },
    )


async def set_roles(connection: Connection, subject: Subject, roles: Collection[str]) -> None:
    """Replace the roles that may use a subscription. Safe to repeat.

    If `roles` is empty, every role that may consume from the topic may use the subscription.
    """
    await connection.execute(
        query("access", "set_roles"),
        {**subject_columns(subject), "permission": str(Permission.CONSUME), "roles": list(roles)},
    )


async def set_tenant_admins(connection: Connection, tenant: str, roles: Collection[str]) -> None:
    """Replace the admins of a tenant. Safe to repeat."""
    await connection.execute(
        query("access", "set_roles"),
        {**subject_columns(Subject(tenant=tenant)), "permission": ADMIN, "roles": list(roles)},
    )


def subject_columns(subject: Subject) -> dict[str, object]:
    """Return the values of a subject's columns in `vela_permission`."""
    return {
        "tenant": subject.tenant,
        "namespace": subject.namespace.partition("/")[2],
        "topic": subject.topic,
        "subscription": subject.subscription,
    }


def _grants(rows: Iterable[tuple[str, ...]]) -> Grants:
    admins: defaultdict[str, set[str]] = defaultdict(set)
    subscriptions: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    namespaces: dict[str, dict[str, set[Permission]]] = {}
    topics: dict[str, dict[str, set[Permission]]] = {}
    for tenant, namespace, topic, subscription, role, permission in rows:
        if permission == ADMIN:
            admins[tenant].add(role)
        elif subscription:
            subscriptions[f"{tenant}/{namespace}", subscription].add(role)
        else:
            place, name = (topics, topic) if topic else (namespaces, f"{tenant}/{namespace}")
            place.setdefault(name, {}).setdefault(role, set()).add(Permission(permission))
    return Grants(
        tenant_admins=dict(admins),
        namespaces=namespaces,
        topics=topics,
        subscriptions=dict(subscriptions),
    )
