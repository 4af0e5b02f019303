"""Create topics and namespaces."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from broker.core.errors import TopicNotFound
from broker.core.topic_name import TopicName
from broker.storage.pool import repeat_until_done
from broker.storage.topics import policies as policy_store
from broker.storage.topics import topics as store
from broker.topics.policies_in_force import effective_policies

if TYPE_CHECKING:
    from broker.conf import BrokerSettings
    from broker.core.policies import Policies
    from broker.storage.pool import ConnectionPool

__all__ = ["TopicCreation", "topic_not_found"]


def topic_not_found(name: TopicName, why: str = "") -> TopicNotFound:
    """Return the error for a missing topic."""
    makers = "`vela topics create` or `manage.py createtopic`"
    if name.domain != "persistent":
        makers = "`manage.py createtopic`"
    return TopicNotFound(f"topic {name} does not exist{why}; create it with {makers}")


class TopicCreation:
    """Creates topics and namespaces according to policies."""

    def __init__(self, pool: ConnectionPool, settings: BrokerSettings) -> None:
        self._pool = pool
        self._settings = settings

    async def partitions_of_new(self, name: TopicName) -> int:
        """Return the number of partitions of a new topic, or 0 if the topic is not partitioned.

        Raises TopicNotFound if the namespace does not create topics automatically, or if `name` is a partition that the
        topic does not have.
        """
        in_force = await self._namespace_policies(name.tenant, name.namespace)
        if not in_force.auto_create_topics:
            raise topic_not_found(name, ", and connecting creates none (policy auto_create_topics)")
        if name.partition is None:
            return in_force.auto_create_partitions
        base = TopicName.parse(name.base)
        parent = await repeat_until_done(
            self._pool, lambda c: store.find_topic(c, base), what="finding a topic"
        )
        if parent is not None and parent.partitions and name.partition >= parent.partitions:
            raise TopicNotFound(
                f"topic {base} has {parent.partitions} partitions; there is no {name.partition}"
            )
        return 0

    async def make(
        self, name: TopicName, partitions: int, properties: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Store the topic, and its tenant and namespace if they are missing. Safe to repeat."""
        await repeat_until_done(
            self._pool,
            lambda c: store.create_topic(
                c,
                name,
                partitions=partitions,
                policies=self._new_namespace_policies(),
                properties=properties,
            ),
            what="creating a topic",
        )

    async def make_namespace(self, tenant: str, namespace: str) -> None:
        """Create a namespace and its tenant, unless they exist."""
        await repeat_until_done(
            self._pool,
            lambda c: store.create_namespace(c, tenant, namespace, self._new_namespace_policies()),
            what="creating a namespace",
        )

    async def make_default_namespace(self) -> None:
        """Create public/default, the namespace of short topic names."""
        await self.make_namespace("public", "default")

    def policies_of_new_namespace(self) -> Policies:
        """Return the policies in force in a new namespace."""
        return effective_policies(self._settings, self._new_namespace_policies(), {}, where="new namespace")

    async def makes_topics(self, name: TopicName) -> bool:
        """Return whether this topic's namespace creates missing topics automatically."""
        return await self.namespace_makes_topics(name.tenant, name.namespace)

    async def namespace_makes_topics(self, tenant: str, namespace: str) -> bool:
        """Return whether a namespace creates missing topics automatically."""
        return (await self._namespace_policies(tenant, namespace)).auto_create_topics

    def _new_namespace_policies(self) -> dict[str, object]:
        return {
            "retention_ms": self._settings.default_retention_ms,
            "retention_bytes": self._settings.default_retention_bytes,
        }

    async def _namespace_policies(self, tenant: str, namespace: str) -> Policies:
        stored = await repeat_until_done(
            self._pool,
            lambda c: policy_store.of_namespace(c, tenant, namespace),
            what="reading policies",
        )
        document = {} if stored is None else stored.document
        return effective_policies(self._settings, document, {}, where=f"{tenant}/{namespace}")
