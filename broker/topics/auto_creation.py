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
    from broker.core.policies import Policies
    from broker.process.services import Services

__all__ = ["make_default_namespace", "make_topic", "makes_topics", "partitions_of_new", "topic_not_found"]


def topic_not_found(name: TopicName, why: str = "") -> TopicNotFound:
    """There is no such topic, and what makes one."""
    makers = "`vela topics create` or `manage.py createtopic`"
    if name.domain != "persistent":
        makers = "`manage.py createtopic`"  # the act that the other plans makes persistent ones
    return TopicNotFound(f"topic {name} does not exist{why}; create it with {makers}")


async def partitions_of_new(services: Services, name: TopicName) -> int:
    """How many partitions a topic gets that somebody connects to, 0 = it is not partitioned. Makes nothing.

    Raises TopicNotFound where connecting makes none, and for a partition beyond its topic's count, which nobody would
    read.
    """
    in_force = await _namespace_policies(services, name)
    if not in_force.auto_create_topics:
        raise topic_not_found(name, ", and connecting makes none (policy auto_create_topics)")
    if name.partition is None:
        return in_force.auto_create_partitions
    base = TopicName.parse(name.base)
    parent = await repeat_until_done(
        services.pool, lambda c: store.find_topic(c, base), what="finding a topic"
    )
    if parent is not None and parent.partitions and name.partition >= parent.partitions:
        raise TopicNotFound(f"topic {base} has {parent.partitions} partitions; there is no {name.partition}")
    return 0


async def make_topic(services: Services, name: TopicName, partitions: int) -> None:
    """The topic's rows, and those of its tenant and namespace where they are missing. Safe to repeat."""
    policies = _new_namespace_policies(services)
    await repeat_until_done(
        services.pool,
        lambda c: store.create_topic(c, name, partitions=partitions, policies=policies),
        what="creating a topic",
    )


async def make_default_namespace(services: Services) -> None:
    """Create public/default, where short topic names lie, unless it exists."""
    policies = _new_namespace_policies(services)
    await repeat_until_done(
        services.pool,
        lambda c: store.create_namespace(c, "public", "default", policies),
        what="creating public/default",
    )


def _new_namespace_policies(services: Services) -> dict[str, object]:
    return {
        "retention_ms": services.settings.default_retention_ms,
        "retention_bytes": services.settings.default_retention_bytes,
    }


async def makes_topics(services: Services, name: TopicName) -> bool:
    """Whether a topic of this name's namespace is made by connecting to it."""
    return (await _namespace_policies(services, name)).auto_create_topics


async def _namespace_policies(services: Services, name: TopicName) -> Policies:
    stored = await repeat_until_done(
        services.pool,
        lambda c: policy_store.of_namespace(c, name.tenant, name.namespace),
        what="reading policies",
    )
    document = {} if stored is None else stored.document
    return effective_policies(services.settings, document, {}, where=name.namespace_name)
