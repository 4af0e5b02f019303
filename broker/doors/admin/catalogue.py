"""Look up tenants, namespaces, topics and subscriptions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from broker.core.errors import TopicNotFound
from broker.core.topic_name import TopicName, parse_namespace
from broker.doors.admin.refusals import Refused
from broker.storage.pool import repeat_until_done
from broker.storage.topics import catalogue as store
from broker.storage.topics import namespaces

if TYPE_CHECKING:
    from broker.doors.ports import AdminPort

__all__ = ["Catalogue", "named", "require_name"]

_NAME: Final = re.compile(r"(?!\.+\Z)[-=:.\w]{1,255}", re.ASCII)


def require_name(what: str, name: str) -> None:
    """Raise Refused(412) if a name is not valid."""
    if not _NAME.fullmatch(name):
        raise Refused(
            412, f"{what} name is not valid: use letters, digits and -=:._, but not only dots, 255 at most"
        )


def named(domain: str, tenant: str, namespace: str, topic: str) -> TopicName:
    """Build a topic's name from the parts of a path. Raises InvalidTopicName if the name is not valid."""
    return TopicName.parse(f"{domain}://{tenant}/{namespace}/{topic}")


class Catalogue:
    """Looks up names for one request.

    `admin_roles`, `namespaces`, `require_namespace` and `topics` raise Refused(404) if the tenant or the namespace does
    not exist.
    """

    def __init__(self, broker: AdminPort) -> None:
        self._broker = broker

    async def tenants(self) -> list[str]:
        """Return the names of all tenants."""
        return await repeat_until_done(self._broker.pool, namespaces.tenants, what="listing tenants")

    async def admin_roles(self, tenant: str) -> list[str]:
        """Return the roles that administer a tenant."""
        if not _NAME.fullmatch(tenant):  # Some invalid names make PostgreSQL fail
            raise Refused(404, "Tenant does not exist")
        roles = await repeat_until_done(
            self._broker.pool, lambda c: namespaces.admin_roles(c, tenant), what="reading a tenant"
        )
        if roles is None:
            raise Refused(404, await self._no_tenant(tenant))
        return roles

    async def granted_admins(self, tenant: str) -> list[str]:
        """Return the roles with permission to administer a tenant, even if the tenant does not exist."""
        return await repeat_until_done(
            self._broker.pool, lambda c: namespaces.granted_admins(c, tenant), what="reading permissions"
        )

    async def _no_tenant(self, tenant: str) -> str:
        granted = await self.granted_admins(tenant)
        if not granted:
            return "Tenant does not exist"
        return (
            f"Tenant does not exist, but these roles have permission to administer it: {', '.join(granted)}."
            f" PUT /admin/v2/tenants/{tenant} creates the tenant and keeps the permissions"
        )

    async def has_tenant(self, tenant: str) -> bool:
        """Return whether the tenant exists."""
        return tenant in await self.tenants()

    async def namespaces(self, tenant: str) -> list[str]:
        """Return the full names of a tenant's namespaces, such as tenant/namespace."""
        await self.admin_roles(tenant)
        names = await repeat_until_done(
            self._broker.pool, lambda c: namespaces.of_tenant(c, tenant), what="listing namespaces"
        )
        return [f"{tenant}/{name}" for name in names]

    async def has_namespace(self, tenant: str, namespace: str) -> bool:
        """Return whether the namespace exists. Raises InvalidTopicName if the name is not valid."""
        parse_namespace(f"{tenant}/{namespace}")
        found = await repeat_until_done(
            self._broker.pool, lambda c: namespaces.find(c, tenant, namespace), what="finding a namespace"
        )
        return found.exists

    async def require_namespace(self, tenant: str, namespace: str) -> str:
        """Return the full name of a namespace, such as tenant/namespace."""
        if not await self.has_namespace(tenant, namespace):
            raise Refused(404, "Namespace does not exist")
        return f"{tenant}/{namespace}"

    async def topics(
        self, tenant: str, namespace: str, *, domain: str, partitioned: bool = False
    ) -> list[str]:
        """Return the full names of a namespace's topics.

        If `partitioned` is True, return only partitioned topics. Otherwise return partitions and unpartitioned topics.
        """
        full = await self.require_namespace(tenant, namespace)
        stored = await repeat_until_done(
            self._broker.pool,
            lambda c: store.topics_of(c, tenant, namespace, domain=domain, partitioned=partitioned),
            what="listing topics",
        )
        if partitioned or domain == "persistent":
            return stored
        in_use = {
            each.name.full for each in self._broker.non_persistent.all() if each.name.namespace_name == full
        }
        return sorted(in_use.union(stored))

    async def details(self, name: TopicName) -> store.TopicDetails | None:
        """Return the details of a topic from PostgreSQL, or None if the topic is not there."""
        return await repeat_until_done(
            self._broker.pool, lambda c: store.details(c, name.full), what="finding a topic"
        )

    async def require(self, name: TopicName) -> store.TopicDetails:
        """Return a topic's details. Raises TopicNotFound."""
        found = await self.details(name)
        if found is None:
            if any(each.name == name for each in self._broker.non_persistent.all()):
                return store.TopicDetails(partitions=0, properties={}, created_ms=0)
            raise TopicNotFound(f"Topic {name} not found")
        return found

    async def subscriptions(self, name: TopicName) -> list[str]:
        """Return the names of the durable subscriptions of a topic and of its partitions."""
        return await repeat_until_done(
            self._broker.pool, lambda c: store.subscriptions_of(c, name.full), what="listing subscriptions"
        )

    async def subscription_properties(self, name: TopicName, subscription: str) -> dict[str, str]:
        """Return a subscription's properties."""
        found = await repeat_until_done(
            self._broker.pool,
            lambda c: store.properties_of(c, name.full, subscription),
            what="reading properties",
        )
        return dict(found)

    async def last_offload_run(self, topic_id: int) -> store.OffloadRun | None:
        """Return the latest run of the job `offload` for a topic."""
        return await repeat_until_done(
            self._broker.pool, lambda c: store.last_offload_run(c, topic_id), what="reading runs"
        )

    async def last_compaction(self, topic_id: int) -> store.LastCompaction | None:
        """Return the state of a topic's compaction, or None if no compaction has begun."""
        return await repeat_until_done(
            self._broker.pool, lambda c: store.last_compaction(c, topic_id), what="reading a compaction"
        )
