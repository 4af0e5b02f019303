"""A topic's last reported statistics, in total and for each partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker.core.errors import TopicNotFound
from broker.storage.pool import repeat_until_done
from broker.storage.topics import partitions as store

if TYPE_CHECKING:
    from broker.core.topic_name import TopicName
    from broker.storage.pool import ConnectionPool

__all__ = [
    "PartitionedStatistics",
    "SubscriptionStatistics",
    "TopicStatistics",
    "partitioned_statistics",
    "summed",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionStatistics:
    """A subscription's statistics on one partition, or summed over all partitions."""

    name: str
    type: str
    consumers: int  # A consumer of a partitioned topic counts once for each partition
    backlog_messages: int
    backlog_bytes: int
    unacked_messages: int
    message_rate_out: float  # Messages per second
    message_rate_acked: float
    messages_redelivered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatistics:
    """The statistics of one partition, or of a whole topic."""

    name: str
    messages_in: int
    bytes_in: int
    stored_bytes: int
    producers: int
    message_rate_in: float  # Messages per second
    byte_rate_in: float
    last_append_ms: int  # 0 means never
    updated_ms: int  # 0 means never
    subscriptions: tuple[SubscriptionStatistics, ...]

    @property
    def consumers(self) -> int:
        """The number of attached consumers."""
        return sum(each.consumers for each in self.subscriptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionedStatistics:
    """A topic's statistics, in total and for each partition."""

    total: TopicStatistics
    parts: tuple[TopicStatistics, ...]


async def partitioned_statistics(pool: ConnectionPool, name: TopicName) -> PartitionedStatistics:
    """Read the statistics of a topic. Raises TopicNotFound."""
    rows = await repeat_until_done(pool, lambda c: store.statistics(c, name.full), what="reading statistics")
    if not rows:
        raise TopicNotFound(f"topic {name} does not exist")
    found = await repeat_until_done(
        pool, lambda c: store.subscription_statistics(c, name.full), what="reading statistics"
    )
    by_topic: dict[str, list[SubscriptionStatistics]] = {}
    for topic, *values in found:
        by_topic.setdefault(topic, []).append(_subscription(values))
    parts = tuple(
        TopicStatistics(
            name=row[0],
            messages_in=row[1],
            bytes_in=row[2],
            stored_bytes=row[3],
            producers=row[4],
            message_rate_in=row[5],
            byte_rate_in=row[6],
            last_append_ms=row[7],
            updated_ms=row[8],
            subscriptions=tuple(by_topic.get(row[0], ())),
        )
        for row in rows
    )
    return PartitionedStatistics(total=summed(name.full, parts), parts=parts)


def _subscription(values: Sequence[Any]) -> SubscriptionStatistics:
    return SubscriptionStatistics(
        **dict(zip(SubscriptionStatistics.__dataclass_fields__, values, strict=True))
    )


def summed(name: str, parts: Sequence[TopicStatistics]) -> TopicStatistics:
    """Add up the statistics of all partitions. `parts` must not be empty."""
    by_name: dict[str, list[SubscriptionStatistics]] = {}
    for part in parts:
        for each in part.subscriptions:
            by_name.setdefault(each.name, []).append(each)
    return TopicStatistics(
        name=name,
        messages_in=sum(part.messages_in for part in parts),
        bytes_in=sum(part.bytes_in for part in parts),
        stored_bytes=sum(part.stored_bytes for part in parts),
        producers=sum(part.producers for part in parts),
        message_rate_in=sum(part.message_rate_in for part in parts),
        byte_rate_in=sum(part.byte_rate_in for part in parts),
        last_append_ms=max(part.last_append_ms for part in parts),
        updated_ms=_oldest(part.updated_ms for part in parts),
        subscriptions=tuple(_summed_subscription(by_name[each]) for each in sorted(by_name)),
    )


def _oldest(times_ms: Iterable[int]) -> int:
    return min((each for each in times_ms if each), default=0)


def _summed_subscription(parts: Sequence[SubscriptionStatistics]) -> SubscriptionStatistics:
    return SubscriptionStatistics(
        name=parts[0].name,
        type=parts[0].type,
        consumers=sum(part.consumers for part in parts),
        backlog_messages=sum(part.backlog_messages for part in parts),
        backlog_bytes=sum(part.backlog_bytes for part in parts),
        unacked_messages=sum(part.unacked_messages for part in parts),
        message_rate_out=sum(part.message_rate_out for part in parts),
        message_rate_acked=sum(part.message_rate_acked for part in parts),
        messages_redelivered=sum(part.messages_redelivered for part in parts),
    )
