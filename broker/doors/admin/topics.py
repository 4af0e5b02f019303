"""List, create, delete and maintain topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ninja import Body, Router
from pydantic import BaseModel

from broker.core.access.permissions import Action
from broker.core.errors import TopicNotFound
from broker.core.position import Position
from broker.core.topic_name import TopicName
from broker.doors.admin.catalogue import Catalogue, named
from broker.doors.admin.operations import operation
from broker.doors.admin.refusals import Refused
from broker.doors.admin.request import AdminRequest, PulsarObject
from broker.topics.topic import Topic

__all__ = [
    "NAMESPACE",
    "TOPIC",
    "MessageIdData",
    "find_or_make_topic",
    "opened",
    "require_persistent",
    "router",
]

NAMESPACE: Final = "/admin/v2/{domain:domain}/{segment:tenant}/{segment:namespace}"
TOPIC: Final = f"{NAMESPACE}/{{segment:topic}}"

_UNENDED: Final = ("waiting", "running")

router = Router()


class MessageIdData(PulsarObject):
    """A message id in Pulsar's JSON format."""

    ledgerId: int  # noqa: N815 - Pulsar's names, here and below
    entryId: int  # noqa: N815
    partitionIndex: int = -1  # noqa: N815
    batchIndex: int | None = None  # noqa: N815
    batchSize: int | None = None  # noqa: N815

    @classmethod
    def of(cls, name: TopicName, position: Position) -> MessageIdData:
        """Return the message id of an entry."""
        partition = -1 if name.partition is None else name.partition
        return cls(ledgerId=position.ledger_id, entryId=position.entry_id, partitionIndex=partition)


class LongRunningStatus(BaseModel):
    """The state of long-running work: NOT_RUN, RUNNING, SUCCESS or ERROR."""

    status: str
    lastError: str = ""  # noqa: N815


class OffloadStatus(LongRunningStatus):
    """The state of the latest offload."""

    firstUnoffloadedMessage: MessageIdData | None = None  # noqa: N815


async def opened(request: AdminRequest, name: TopicName, what: str) -> Topic:
    """Return a topic, and load it into memory if necessary.

    Raises TopicNotFound, or Refused(405) for a partitioned or non-persistent topic.
    """
    require_persistent(name, what)
    if (await Catalogue(request.broker).require(name)).partitions:
        raise Refused(
            405, f"{what} is not allowed on a partitioned topic: name a partition, such as {name}-partition-0"
        )
    return await request.broker.topics.open(name, create=False)


def require_persistent(name: TopicName, what: str, status: int = 405) -> None:
    """Raise Refused for a non-persistent topic. `what` names the operation in the error."""
    if name.domain != "persistent":
        raise Refused(status, f"{what} on a non-persistent topic is not allowed: such a topic stores nothing")


@operation(router, "GET", NAMESPACE, Action.ADMINISTER)
async def get_topics(request: AdminRequest, domain: str, tenant: str, namespace: str) -> list[str]:
    """List the topics of a namespace. Instead of a partitioned topic, list its partitions."""
    return await Catalogue(request.broker).topics(tenant, namespace, domain=domain)


@operation(router, "GET", f"{NAMESPACE}/partitioned", Action.ADMINISTER)
async def get_partitioned_topics(
    request: AdminRequest, domain: str, tenant: str, namespace: str
) -> list[str]:
    """List the partitioned topics of a namespace."""
    return await Catalogue(request.broker).topics(tenant, namespace, domain=domain, partitioned=True)


@operation(router, "PUT", TOPIC, Action.ADMINISTER)
async def create_topic(
    request: AdminRequest,
    domain: str,
    tenant: str,
    namespace: str,
    topic: str,
    properties: Body[dict[str, str] | None] = None,
) -> None:
    """Create a topic that is not partitioned."""
    await make_topic(request, named(domain, tenant, namespace, topic), 0, properties or {})


async def make_topic(
    request: AdminRequest, name: TopicName, partitions: int, properties: Mapping[str, str]
) -> None:
    """Create a topic. Raises Refused(404) if its namespace does not exist, and Refused(409) if the topic exists."""
    catalogue = Catalogue(request.broker)
    full = await catalogue.require_namespace(name.tenant, name.namespace)
    if await catalogue.details(name) is not None:
        raise Refused(409, "This topic already exists")
    parameters = {
        "name": name.local_name,
        "partitions": partitions,
        "domain": name.domain,
        "properties": dict(properties),
    }
    await request.act("create_topic", topic=full, parameters=parameters)


async def find_or_make_topic(request: AdminRequest, name: TopicName) -> None:
    """Create the topic if it does not exist.

    Raises Refused(404) if the namespace does not exist, and Refused(412) if policies forbid new topics.
    """
    catalogue, broker = Catalogue(request.broker), request.broker
    if await catalogue.details(name) is not None:
        return
    await catalogue.require_namespace(name.tenant, name.namespace)
    try:
        if not await broker.partition_count(name, create=True):
            await broker.topics.open(name, create=True)
    except TopicNotFound as error:
        raise Refused(412, f"Topic does not exist: {error}") from None


@operation(router, "DELETE", TOPIC, Action.ADMINISTER)
async def delete_topic(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str, force: bool = False
) -> None:
    """Delete a topic with its subscriptions and messages. A persistent topic with clients needs force=true."""
    name = named(domain, tenant, namespace, topic)
    if (await Catalogue(request.broker).require(name)).partitions:
        raise Refused(409, f"{name} is a partitioned topic: delete it with {name.local_name}/partitions")
    await remove_topic(request, name, force=force)


async def remove_topic(request: AdminRequest, name: TopicName, *, force: bool) -> None:
    """Delete a topic with its subscriptions. `force` first disconnects the clients of a persistent topic.

    Raises TopicBusy if a persistent topic has clients and `force` is False. Raises Refused(412) if a non-persistent
    topic has clients.
    """
    for each in request.broker.non_persistent.all():
        if name.full in (each.name.full, each.name.base):
            raise Refused(412, f"{each.name} has clients connected: disconnect them first")
    await request.act("delete_topic", topic=name.full, parameters={"force": force, "subscriptions": True})


@operation(router, "GET", f"{TOPIC}/properties", Action.ADMINISTER)
async def get_properties(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str
) -> dict[str, str]:
    """Return the properties of a topic."""
    found = await Catalogue(request.broker).require(named(domain, tenant, namespace, topic))
    return dict(found.properties)


@operation(router, "PUT", f"{TOPIC}/unload", Action.ADMINISTER)
async def unload_topic(request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str) -> None:
    """Remove a topic from memory. Its clients reconnect."""
    name = named(domain, tenant, namespace, topic)
    await Catalogue(request.broker).require(name)
    require_persistent(name, "Unload", 412)
    await request.act("unload", topic=name.full)


@operation(router, "POST", f"{TOPIC}/terminate", Action.ADMINISTER)
async def terminate_topic(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str
) -> MessageIdData:
    """Terminate a topic, and return the id of its last message."""
    name = named(domain, tenant, namespace, topic)
    await opened(request, name, "Termination")
    await request.act("terminate", topic=name.full)
    ended = await opened(request, name, "Termination")
    return MessageIdData.of(name, ended.log.ledgers.last_position())


@operation(router, "PUT", f"{TOPIC}/compaction", Action.ADMINISTER)
async def compact_topic(request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str) -> None:
    """Start compacting a topic, or each of its partitions."""
    name = named(domain, tenant, namespace, topic)
    require_persistent(name, "Compaction")
    await Catalogue(request.broker).require(name)
    await request.act("compact", topic=name.full)


@operation(router, "GET", f"{TOPIC}/compaction", Action.ADMINISTER)
async def get_compaction(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str
) -> LongRunningStatus:
    """Return the state of the latest compaction of a topic or partition."""
    found = await opened(request, named(domain, tenant, namespace, topic), "Compaction status")
    # A waiting compaction counts as running, but is not in the database yet.
    if found.compacted.is_running:
        return LongRunningStatus(status="RUNNING")
    last = await Catalogue(request.broker).last_compaction(found.topic_id)
    if last is None:
        return LongRunningStatus(status="NOT_RUN")
    return LongRunningStatus(status=last.state, lastError=last.last_error)


@operation(router, "PUT", f"{TOPIC}/offload", Action.ADMINISTER)
async def offload_topic(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str, before: MessageIdData
) -> None:
    """Start to offload the ledgers that are older than the ledger of the given message."""
    found = await opened(request, named(domain, tenant, namespace, topic), "Offload")
    last = await Catalogue(request.broker).last_offload_run(found.topic_id)
    if last is not None and last.state in _UNENDED:
        raise Refused(409, f"Offload of {found.name} is already in progress")
    options = {"before_ledger": str(max(0, before.ledgerId))}
    await request.act("run_job", topic=found.name.full, parameters={"job": "offload", "options": options})


@operation(router, "GET", f"{TOPIC}/offload", Action.ADMINISTER)
async def get_offload(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str
) -> OffloadStatus:
    """Return the state of the latest offload of a topic or partition."""
    name = named(domain, tenant, namespace, topic)
    found = await opened(request, name, "Offload status")
    last = await Catalogue(request.broker).last_offload_run(found.topic_id)
    if last is None:
        return OffloadStatus(status="NOT_RUN")
    if last.state in _UNENDED:
        return OffloadStatus(status="RUNNING")
    if last.state != "done":
        return OffloadStatus(status="ERROR", lastError=last.error or f"the run was {last.state}")
    kept = (each.ledger_id for each in found.log.ledgers.infos() if each.ledger_id not in found.log.files)
    first = next(kept, None)
    return OffloadStatus(
        status="SUCCESS",
        firstUnoffloadedMessage=None if first is None else MessageIdData.of(name, Position(first, 0)),
    )


@operation(router, "DELETE", f"{TOPIC}/truncate", Action.ADMINISTER)
async def truncate_topic(request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str) -> None:
    """Empty a topic. Every durable subscription skips the stored messages."""
    name = named(domain, tenant, namespace, topic)
    require_persistent(name, "Truncation", 412)
    await Catalogue(request.broker).require(name)
    await request.act("truncate", topic=name.full)


@operation(router, "POST", f"{TOPIC}/trim", Action.ADMINISTER)
async def trim_topic(request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str) -> None:
    """Delete acknowledged messages that retention no longer keeps."""
    name = named(domain, tenant, namespace, topic)
    require_persistent(name, "Trim")
    await Catalogue(request.broker).require(name)
    await request.act("trim", topic=name.full)
