"""Add partitions to a topic."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker.core.client_identity import JSON_FACE
from broker.core.errors import MetadataInvalid, NotAllowed, ServiceNotReady, TopicNotFound
from broker.core.topic_name import MOST_PARTITIONS
from broker.storage.pool import repeat_until_done
from broker.storage.topics import partitions as store
from broker.storage.topics import topics as topic_store

if TYPE_CHECKING:
    from broker.core.topic_name import TopicName
    from broker.storage.pool import ConnectionPool
    from broker.storage.topics.partitions import Growth
    from broker.subscription.subscription import Subscription
    from broker.topics.non_persistent.subscription import NonPersistentSubscription
    from broker.topics.non_persistent.topic import NonPersistentTopic
    from broker.topics.topic import Topic

__all__ = ["check_growth", "close_json_sockets", "grow"]

logger = logging.getLogger(__name__)


async def check_growth(pool: ConnectionPool, name: TopicName, partitions: int) -> int:
    """Check that a topic may grow to this number of partitions. Return the current number.

    Raises MetadataInvalid, TopicNotFound or NotAllowed.
    """
    if not 1 <= partitions <= MOST_PARTITIONS:
        raise MetadataInvalid(
            f"the parameter partitions is {partitions}: it takes a number from 1 to {MOST_PARTITIONS}"
        )
    row = await repeat_until_done(pool, lambda c: topic_store.find_topic(c, name), what="finding a topic")
    if row is None:
        raise TopicNotFound(f"topic {name} does not exist")
    if not row.partitions:
        raise NotAllowed(f"{name} is not partitioned, and an existing topic cannot become partitioned")
    if partitions < row.partitions:
        raise NotAllowed(f"{name} has {row.partitions} partitions; a topic never gets fewer")
    return row.partitions


async def grow(pool: ConnectionPool, name: TopicName, partitions: int) -> Growth:
    """Increase a topic's number of partitions to `partitions`. Safe to repeat.

    Raises the errors of `check_growth`. Raises InvalidTopicName if a partition's name is too long, and NotAllowed if
    another topic has the name of a new partition.
    """
    await check_growth(pool, name, partitions)
    growth = await repeat_until_done(
        pool, lambda c: store.grow(c, name, partitions), what="adding partitions"
    )
    if growth is None:
        raise TopicNotFound(f"topic {name} does not exist any more")
    if growth.taken:
        raise NotAllowed(
            f"{growth.taken[0]} already exists and is not a partition of {name}: delete it first"
        )
    if growth.after > growth.before:
        logger.info("%s has %s partitions now, it had %s", name, growth.after, growth.before)
    return growth


def close_json_sockets(topics: Iterable[Topic | NonPersistentTopic], reason: str) -> None:
    """Close the JSON WebSockets of these topics, so that their clients connect again.

    A JSON WebSocket serves only the partitions that existed when the socket was opened.
    """
    for topic in topics:
        for producer in list(topic.producers.values()):
            if producer.identity.face == JSON_FACE:
                producer.closed_by_broker(ServiceNotReady(reason))
        subscriptions: list[Subscription | NonPersistentSubscription] = [*topic.subscriptions.values()]
        for subscription in subscriptions:
            for consumer in list(subscription.consumers.values()):
                if consumer.identity.face == JSON_FACE:
                    consumer.closed_by_broker(reason)
                    subscription.remove_consumer(consumer)
