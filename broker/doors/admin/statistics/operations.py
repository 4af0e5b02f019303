"""The operations that answer with statistics."""

from __future__ import annotations

from typing import Annotated, Any

from ninja import Query, Router
from pydantic import BaseModel, ConfigDict, Field

from broker.core.access.permissions import Action
from broker.core.errors import TopicNotFound
from broker.core.topic_name import TopicName
from broker.doors.admin.brokers import BUNDLE
from broker.doors.admin.catalogue import Catalogue, named
from broker.doors.admin.operations import operation
from broker.doors.admin.refusals import Refused
from broker.doors.admin.request import AdminRequest
from broker.doors.admin.statistics.internal import InternalStats, internal_stats
from broker.doors.admin.statistics.merged import merged
from broker.doors.admin.statistics.topic import Asked, non_persistent_stats, topic_stats
from broker.doors.admin.statistics.values import PartitionedMetadata, PartitionedTopicStats, TopicStats
from broker.doors.admin.topics import TOPIC, opened

__all__ = ["router"]

router = Router()


class _Options(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    backlog_size: Annotated[bool | None, Field(alias="subscriptionBacklogSize")] = None
    earliest_time: Annotated[bool, Field(alias="getEarliestTimeInBacklog")] = False
    exclude_publishers: Annotated[bool, Field(alias="excludePublishers")] = False
    exclude_consumers: Annotated[bool, Field(alias="excludeConsumers")] = False
    per_partition: Annotated[bool, Field(alias="perPartition")] = True

    def asked(self, name: TopicName) -> Asked:
        default = name.domain == "persistent"
        return Asked(
            backlog_size=default if self.backlog_size is None else self.backlog_size,
            earliest_time=self.earliest_time,
            publishers=not self.exclude_publishers,
            consumers=not self.exclude_consumers,
        )


@operation(router, "GET", f"{TOPIC}/stats", Action.LOOK_UP)
async def get_stats(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str, options: Query[_Options]
) -> TopicStats:
    """Return the statistics of a topic or partition."""
    name = named(domain, tenant, namespace, topic)
    return await _stats(request, name, options.asked(name))


@operation(router, "GET", f"{TOPIC}/partitioned-stats", Action.LOOK_UP)
async def get_partitioned_stats(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str, options: Query[_Options]
) -> PartitionedTopicStats:
    """Return the statistics of a partitioned topic, merged and for each partition."""
    name = named(domain, tenant, namespace, topic)
    partitions = await _partitions(request, name)
    found = {each.full: await _stats(request, each, options.asked(name)) for each in partitions}
    return PartitionedTopicStats(
        **dict(merged(list(found.values()))),
        metadata=PartitionedMetadata(partitions=len(partitions)),
        partitions=found if options.per_partition else {},
    )


@operation(router, "GET", f"{TOPIC}/internalStats", Action.LOOK_UP)
async def get_internal_stats(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str
) -> InternalStats:
    """Return the ledgers and cursors of a topic or partition."""
    return internal_stats(await opened(request, named(domain, tenant, namespace, topic), "GetInternalStats"))


@operation(router, "GET", f"{TOPIC}/partitioned-internalStats", Action.LOOK_UP)
async def get_partitioned_internal_stats(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str
) -> dict[str, Any]:
    """Return the ledgers and cursors of each partition."""
    partitions = await _partitions(request, named(domain, tenant, namespace, topic))
    found = {}
    for each in partitions:
        stats = internal_stats(await opened(request, each, "GetInternalStats"))
        found[each.full] = stats.model_dump(exclude_none=True)
    return {"metadata": {"partitions": len(partitions), "deleted": False}, "partitions": found}


@operation(router, "GET", "/admin/v2/broker-stats/topics", Action.RULE)
async def get_broker_topic_stats(request: AdminRequest) -> dict[str, Any]:
    """Return the statistics of every topic in memory, by namespace, bundle and domain."""
    broker, asked = request.broker, Asked()
    found: dict[str, Any] = {}

    def of_domain(name: TopicName) -> dict[str, Any]:
        bundles = found.setdefault(name.namespace_name, {BUNDLE: {}})
        domains: dict[str, Any] = bundles[BUNDLE].setdefault(name.domain, {})
        return domains

    for topic in broker.topics.all():
        stats = await topic_stats(broker, topic, asked, created_ms=0)
        of_domain(topic.name)[topic.name.full] = stats.model_dump(exclude_none=True)
    for passing in broker.non_persistent.all():
        stats = non_persistent_stats(broker, passing, asked)
        of_domain(passing.name)[passing.name.full] = stats.model_dump(exclude_none=True)
    return found


async def _stats(request: AdminRequest, name: TopicName, asked: Asked) -> TopicStats:
    broker = request.broker
    details = await Catalogue(broker).require(name)
    if details.partitions:
        raise TopicNotFound(f"{name} is partitioned: ask for its partitioned-stats")
    if name.domain == "persistent":
        topic = await broker.topics.open(name, create=False)
        return await topic_stats(broker, topic, asked, created_ms=details.created_ms)
    passing = next((each for each in broker.non_persistent.all() if each.name == name), None)
    return TopicStats() if passing is None else non_persistent_stats(broker, passing, asked)


async def _partitions(request: AdminRequest, name: TopicName) -> list[TopicName]:
    count = (await Catalogue(request.broker).require(name)).partitions
    if not count:
        raise Refused(404, "Partitioned Topic not found")
    return [name.with_partition(index) for index in range(count)]
