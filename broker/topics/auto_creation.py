"""Topics made by connecting: whether they may be, with how many partitions, and their rows.

Only an opened producer or consumer makes a topic, or a question for the partitions of one that gets some: the client
connects to these then. Whatever else is asked, and whatever is refused, leaves nothing behind.
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
    """There is no such topic, and what makes one."""
    makers = "`vela topics create` or `manage.py createtopic`"
    if name.domain != "persistent":
        makers = "`manage.py createtopic`"  # the act that the other plans makes persistent ones
    return TopicNotFound(f"topic {name} does not exist{why}; create it with {makers}")


class TopicCreation:
    """What the namespace's policies say of a new topic, and the rows that make one."""

    def __init__(self, pool: ConnectionPool, settings: BrokerSettings) -> None:
        self._pool = pool
        self._settings = settings

    async def partitions_of_new(self, name: TopicName) -> int:
        """How many partitions a topic gets that somebody connects to, 0 = it is not partitioned. Makes nothing.

        Raises TopicNotFound where connecting makes none, and for a partition beyond its topic's count, which nobody
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
        """The topic's rows, and those of its tenant and namespace where they are missing. Safe to repeat."""
        await repeat_until_done(
            self._pool,
            lambda c: store.create_topic(
                c, name, partitions=partitions, policies=self._new_namespace_policies()
            ),
            what="creating a topic",
        )

    async def make_default_namespace(self) -> None:
        """Create public/default, where short topic names lie, unless it exists."""
        await repeat_until_done(
            self._pool,
            lambda c: store.create_namespace(c, "public", "default", self._new_namespace_policies()),
            what="creating public/default",
        )

    async def makes_topics(self, name: TopicName) -> bool:
        """Whether a topic of this name's namespace is made by connecting to it."""
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
