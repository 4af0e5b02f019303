"""Makes topics when clients connect: decides whether one may be made, with how many partitions, and stores its rows.

Only opening a producer or consumer makes a topic. Asking for the partitions of a topic that gets some makes it too,
since the client then connects to the partitions. Any other question, and any refused request, leaves nothing behind.
"""

from __future__ import annotations

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
    """Return the error for a missing topic, which says how to create it."""
    makers = "`vela topics create` or `manage.py createtopic`"
    if name.domain != "persistent":
        makers = "`manage.py createtopic`"  # `vela topics create` makes only persistent ones
    return TopicNotFound(f"topic {name} does not exist{why}; create it with {makers}")


class TopicCreation:
    """Applies the namespace's policies to a new topic, and stores its rows."""

    def __init__(self, pool: ConnectionPool, settings: BrokerSettings) -> None:
        self._pool = pool
        self._settings = settings

    async def partitions_of_new(self, name: TopicName) -> int:
        """Return how many partitions a new topic gets, 0 = it is not partitioned. Makes nothing.

        Raises TopicNotFound if connecting makes no topics, and for a partition beyond its topic's count, which nobody
        would read.
        """
        in_force = await self._namespace_policies(name)
        if not in_force.auto_create_topics:
            raise topic_not_found(name, ", and connecting makes none (policy auto_create_topics)")
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

    async def make(self, name: TopicName, partitions: int) -> None:
        """Store the topic's rows, and those of its tenant and namespace if they are missing. Safe to repeat."""
        await repeat_until_done(
            self._pool,
            lambda c: store.create_topic(
                c, name, partitions=partitions, policies=self._new_namespace_policies()
            ),
            what="creating a topic",
        )

    async def make_default_namespace(self) -> None:
        """Create public/default, the namespace of short topic names, unless it exists."""
        await repeat_until_done(
            self._pool,
            lambda c: store.create_namespace(c, "public", "default", self._new_namespace_policies()),
            what="creating public/default",
        )

    async def makes_topics(self, name: TopicName) -> bool:
        """Return whether connecting makes topics in this name's namespace."""
        return (await self._namespace_policies(name)).auto_create_topics

    def _new_namespace_policies(self) -> dict[str, object]:
        return {
            "retention_ms": self._settings.default_retention_ms,
            "retention_bytes": self._settings.default_retention_bytes,
        }

    async def _namespace_policies(self, name: TopicName) -> Policies:
        stored = await repeat_until_done(
            self._pool,
            lambda c: policy_store.of_namespace(c, name.tenant, name.namespace),
            what="reading policies",
        )
        document = {} if stored is None else stored.document
        return effective_policies(self._settings, document, {}, where=name.namespace_name)
