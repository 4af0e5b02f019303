"""The non-persistent topics of this broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from broker.core.errors import NotAllowed
from broker.storage.pool import repeat_until_done
from broker.storage.topics import policies as policy_store
from broker.storage.topics import topics as store
from broker.topics.auto_creation import topic_not_found
from broker.topics.policies_in_force import effective_policies

if TYPE_CHECKING:
    from broker.conf import BrokerSettings
    from broker.core.policies import Policies
    from broker.core.topic_name import TopicName
    from broker.storage.pool import ConnectionPool
    from broker.topics.non_persistent.topic import NonPersistentTopic

__all__ = ["NonPersistentTopics"]


class NewNonPersistentTopic(Protocol):
    """A function that makes a non-persistent topic."""

    def __call__(
        self, name: TopicName, *, policies: Policies, on_empty: Callable[[NonPersistentTopic], None]
    ) -> NonPersistentTopic: ...


class NonPersistentTopics:
    """The non-persistent topics in use."""

    def __init__(
        self, new_topic: NewNonPersistentTopic, pool: ConnectionPool, settings: BrokerSettings
    ) -> None:
        self._new_topic = new_topic
        self._pool = pool
        self._settings = settings
        self._topics: dict[str, NonPersistentTopic] = {}

    def all(self) -> list[NonPersistentTopic]:
        """Return the topics in use."""
        return list(self._topics.values())

    async def topic(self, name: TopicName, *, create: bool) -> NonPersistentTopic:
        """Return a topic, and create it in memory if necessary.

        A topic without a row in PostgreSQL is created only if `create` is True and the policies allow auto-creation.
        Otherwise, raises TopicNotFound. Raises NotAllowed for a partitioned topic.
        """
        known = self._topics.get(name.full)
        if known is not None:
            return known
        row = await repeat_until_done(self._pool, lambda c: store.find_topic(c, name), what="finding a topic")
        if row is not None and row.partitions:
            raise NotAllowed(
                f"topic {name} has {row.partitions} partitions; use {name}-partition-0 and so on"
            )
        policies = await self._policies(name, row)
        if row is None and not (create and policies.auto_create_topics):
            raise topic_not_found(name)
        # Another caller may have created the topic meanwhile.
        return self._topics.setdefault(
            name.full,
            self._new_topic(name, policies=policies, on_empty=self._forget),
        )

    async def reload_policies(self, covers: Callable[[TopicName], bool]) -> int:
        """Reload the policies of the topics that `covers` selects. Return the number of these topics."""
        topics = [each for each in self.all() if covers(each.name)]
        for topic in topics:
            name = topic.name
            row = await repeat_until_done(
                self._pool,
                lambda c, name=name: store.find_topic(c, name),  # type: ignore[misc]
                what="finding a topic",
            )
            topic.set_policies(await self._policies(name, row))
        return len(topics)

    async def _policies(self, name: TopicName, row: store.TopicRow | None) -> Policies:
        if row is not None:
            namespace, own = row.namespace_policies, row.topic_policies
        else:
            stored = await repeat_until_done(
                self._pool,
                lambda c: policy_store.of_namespace(c, name.tenant, name.namespace),
                what="reading policies",
            )
            namespace, own = {} if stored is None else stored.document, {}
        return effective_policies(self._settings, namespace, own, where=name.full)

    def close(self) -> None:
        """Close all topics."""
        for topic in self.all():
            topic.close(None)
        self._topics.clear()

    def _forget(self, topic: NonPersistentTopic) -> None:
        if self._topics.get(topic.name.full) is topic:
            del self._topics[topic.name.full]
