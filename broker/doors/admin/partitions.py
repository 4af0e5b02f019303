"""Operations on partitioned topics."""

from __future__ import annotations

from typing import Final

from ninja import Body, Router

from broker.core.access.permissions import Action
from broker.core.errors import TopicNotFound
from broker.core.topic_name import MOST_PARTITIONS, TopicName
from broker.doors.admin.catalogue import Catalogue, named
from broker.doors.admin.operations import operation
from broker.doors.admin.refusals import Refused
from broker.doors.admin.request import AdminRequest, Number, PulsarObject
from broker.doors.admin.topics import TOPIC, MessageIdData, make_topic, remove_topic

__all__ = ["PartitionedMetadata", "router"]

_PARTITIONS: Final = f"{TOPIC}/partitions"

router = Router()


class PartitionedMetadata(PulsarObject):
    """The number of partitions and the properties of a topic."""

    partitions: Number
    deleted: bool = False
    properties: dict[str, str] | None = None


@operation(router, "GET", _PARTITIONS, Action.LOOK_UP)
async def get_partitions(
    request: AdminRequest,
    domain: str,
    tenant: str,
    namespace: str,
    topic: str,
    checkAllowAutoCreation: bool = False,  # noqa: N803 - Pulsar's name
) -> PartitionedMetadata:
    """Return the number of partitions; 0 for a topic that is not partitioned."""
    name = named(domain, tenant, namespace, topic)
    try:
        found = await Catalogue(request.broker).require(name)
    except TopicNotFound:
        if not checkAllowAutoCreation:
            raise
        # Create the topic if the policies ask for partitions, because the client connects to the partitions next.
        return PartitionedMetadata(partitions=await request.broker.partition_count(name, create=True))
    return PartitionedMetadata(partitions=found.partitions, properties=dict(found.properties))


@operation(router, "PUT", _PARTITIONS, Action.ADMINISTER)
async def create_partitioned_topic(
    request: AdminRequest,
    domain: str,
    tenant: str,
    namespace: str,
    topic: str,
    metadata: Body[Number | PartitionedMetadata],
) -> None:
    """Create a partitioned topic. The body is a number, or an object with partitions and properties."""
    name = named(domain, tenant, namespace, topic)
    if "-partition-" in name.local_name:
        raise Refused(412, "Partitioned topic name should not contain '-partition-'")
    count = metadata if isinstance(metadata, int) else metadata.partitions
    if not 1 <= count <= MOST_PARTITIONS:
        raise Refused(406, f"Number of partitions should be between 1 and {MOST_PARTITIONS}")
    properties = {} if isinstance(metadata, int) else metadata.properties or {}
    await make_topic(request, name, count, properties)


@operation(router, "POST", _PARTITIONS, Action.ADMINISTER)
async def update_partitions(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str, partitions: Body[Number]
) -> None:
    """Add partitions. The body is the new total."""
    name = named(domain, tenant, namespace, topic)
    found = await Catalogue(request.broker).require(name)
    if not found.partitions:
        raise Refused(409, "Topic is not partitioned topic")
    if not found.partitions <= partitions <= MOST_PARTITIONS:
        raise Refused(422, f"Number of partitions should be between {found.partitions} and {MOST_PARTITIONS}")
    await request.act("update_partitions", topic=name.full, parameters={"partitions": partitions})


@operation(router, "DELETE", _PARTITIONS, Action.ADMINISTER)
async def delete_partitioned_topic(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str, force: bool = False
) -> None:
    """Delete a partitioned topic with its partitions. A persistent topic with clients needs force=true.

    A non-persistent topic with clients cannot be deleted, even with force=true.
    """
    name = named(domain, tenant, namespace, topic)
    if name.partition is not None:
        raise Refused(412, f"{name} is a partition: delete {name.base}")
    if not (await Catalogue(request.broker).require(name)).partitions:
        raise Refused(409, f"{name} is not partitioned: delete it without /partitions")
    await remove_topic(request, name, force=force)


@operation(router, "POST", f"{TOPIC}/createMissedPartitions", Action.ADMINISTER)
async def create_missed_partitions(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str
) -> None:
    """Check that the topic is partitioned. Create nothing, because no partition can be missing.

    A topic and its partitions are stored in one transaction.
    """
    name = named(domain, tenant, namespace, topic)
    if not (await Catalogue(request.broker).require(name)).partitions:
        raise Refused(404, "Topic is not partitioned")


@operation(router, "POST", f"{TOPIC}/terminate/partitions", Action.ADMINISTER)
async def terminate_partitions(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str
) -> dict[int, MessageIdData]:
    """Terminate a partitioned topic and return the last message id of each partition."""
    name = named(domain, tenant, namespace, topic)
    count = (await Catalogue(request.broker).require(name)).partitions
    if not count:
        raise Refused(
            405, "Termination of a non-partitioned topic is not allowed using partitioned-terminate"
        )
    await request.act("terminate", topic=name.full)
    ids: dict[int, MessageIdData] = {}
    for index in range(count):
        partition = TopicName.parse(f"{name.full}-partition-{index}")
        ended = await request.broker.topics.open(partition, create=False)
        ids[index] = MessageIdData.of(partition, ended.log.ledgers.last_position())
    return ids
