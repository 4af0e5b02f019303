"""List, create and delete subscriptions, and move their cursors."""
# ruff: noqa: N815 - the names are Pulsar's

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from ninja import Body, Router
from pydantic import BaseModel

from broker.core.access.permissions import Action, Subject
from broker.core.errors import BrokerError
from broker.core.topic_name import TopicName
from broker.doors.admin.catalogue import Catalogue, named
from broker.doors.admin.operations import operation
from broker.doors.admin.refusals import Refused
from broker.doors.admin.request import AdminRequest, PulsarObject
from broker.doors.admin.topics import TOPIC, find_or_make_topic, opened, require_persistent
from broker.subscription.subscription import Subscription
from broker.topics.topic import Topic

__all__ = ["SUBSCRIPTION", "found_subscription", "router"]

SUBSCRIPTION: Final = f"{TOPIC}/subscription/{{segment:subscription}}"
_EARLIEST: Final = -1
_LATEST: Final = 2**63 - 1
_NEARLY_CAUGHT_UP: Final = 1000

router = Router()


class ResetCursorData(PulsarObject):
    """A place in a topic."""

    ledgerId: int
    entryId: int
    partitionIndex: int = -1
    excluded: bool = False
    isExcluded: bool = False
    batchIndex: int = -1
    properties: dict[str, str] | None = None

    def place(self) -> dict[str, object]:
        """Return the place as parameters for `AdminRequest.act`."""
        if (self.ledgerId, self.entryId) == (_EARLIEST, _EARLIEST):
            return {"to": "earliest"}
        if (self.ledgerId, self.entryId) == (_LATEST, _LATEST):
            return {"to": "latest"}
        return {"to": "id", "id": self.text(), "inclusive": not (self.excluded or self.isExcluded)}

    def text(self) -> str:
        """Return the message id as ledger:entry, or as ledger:entry:partition:index for a message in a batch."""
        text = f"{self.ledgerId}:{self.entryId}"
        return text if self.batchIndex < 0 else f"{text}:{self.partitionIndex}:{self.batchIndex}"


class BacklogAnalysis(BaseModel):
    """A subscription's backlog. Entry filters run only at delivery, so the whole backlog counts as accepted."""

    entries: int
    messages: int
    filterRejectedEntries: int = 0
    filterAcceptedEntries: int = 0
    filterRescheduledEntries: int = 0
    filterRejectedMessages: int = 0
    filterAcceptedMessages: int = 0
    filterRescheduledMessages: int = 0
    aborted: bool = False


def _place(given: ResetCursorData | str | None) -> dict[str, object]:
    if given is None:
        return {"to": "latest"}
    if isinstance(given, str):
        if given not in ("earliest", "latest"):
            raise Refused(400, f'the body is {given!r}: it takes a message id, "earliest" or "latest"')
        return {"to": given}
    return given.place()


async def found_subscription(
    request: AdminRequest, name: TopicName, subscription: str, what: str
) -> tuple[Topic, Subscription]:
    """Return a topic and one of its subscriptions.

    Raises TopicNotFound if the topic does not exist. Raises Refused(404) if the subscription does not exist. Raises
    Refused(405) for a partitioned or non-persistent topic.
    """
    topic = await opened(request, name, what)
    found = topic.subscriptions.get(subscription)
    if found is None:
        raise Refused(404, f"Subscription {subscription} not found for topic {name}")
    return topic, found


async def _require(request: AdminRequest, name: TopicName, subscription: str, what: str) -> None:
    require_persistent(name, what)
    catalogue = Catalogue(request.broker)
    await catalogue.require(name)
    if subscription not in await catalogue.subscriptions(name):
        raise Refused(404, f"Subscription {subscription} not found for topic {name}")


@operation(router, "GET", f"{TOPIC}/subscriptions", Action.CONSUME)
async def get_subscriptions(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str
) -> list[str]:
    """List the subscriptions of a topic, or of all its partitions."""
    name, broker = named(domain, tenant, namespace, topic), request.broker
    await Catalogue(broker).require(name)
    if domain == "persistent":
        return await Catalogue(broker).subscriptions(name)
    in_use = [each for each in broker.non_persistent.all() if name.full in (each.name.full, each.name.base)]
    return sorted({subscription for each in in_use for subscription in each.subscriptions})


@operation(router, "PUT", SUBSCRIPTION, Action.CONSUME)
async def create_subscription(
    request: AdminRequest,
    domain: str,
    tenant: str,
    namespace: str,
    topic: str,
    subscription: str,
    at: Body[ResetCursorData | str | None] = None,
    replicated: bool = False,
) -> None:
    """Create a subscription at "earliest", "latest" (the default) or a message id. Create a missing topic if allowed.

    The answer is 412 if policies forbid new topics.
    """
    name = named(domain, tenant, namespace, topic)
    require_persistent(name, "Create subscription", 400)
    if replicated:
        raise Refused(412, "subscriptions are not replicated: Vela has one cluster")
    await find_or_make_topic(request, name)
    parameters = {**_place(at), "name": subscription}
    if isinstance(at, ResetCursorData) and at.properties:
        parameters["properties"] = at.properties
    await request.act("create_subscription", topic=name.full, parameters=parameters)


@operation(router, "DELETE", SUBSCRIPTION, Action.CONSUME)
async def delete_subscription(
    request: AdminRequest,
    domain: str,
    tenant: str,
    namespace: str,
    topic: str,
    subscription: str,
    force: bool = False,
) -> None:
    """Delete a subscription. If consumers are connected, this needs force=true."""
    name = named(domain, tenant, namespace, topic)
    await _require(request, name, subscription, "Delete subscription")
    await request.act(
        "delete_subscription", topic=name.full, subscription=subscription, parameters={"force": force}
    )


@operation(router, "POST", f"{SUBSCRIPTION}/skip_all", Action.CONSUME)
async def skip_all(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str, subscription: str
) -> None:
    """Skip the whole backlog."""
    name = named(domain, tenant, namespace, topic)
    await _require(request, name, subscription, "Skip all messages")
    await request.act("clear", topic=name.full, subscription=subscription)


@operation(router, "POST", f"{SUBSCRIPTION}/skip/{{number:entries}}", Action.CONSUME)
async def skip(
    request: AdminRequest,
    domain: str,
    tenant: str,
    namespace: str,
    topic: str,
    subscription: str,
    entries: int,
) -> None:
    """Skip this many entries of the backlog."""
    name = named(domain, tenant, namespace, topic)
    await found_subscription(request, name, subscription, "Skip messages")
    await request.act(
        "skip_entries", topic=name.full, subscription=subscription, parameters={"entries": entries}
    )


@operation(router, "POST", f"{SUBSCRIPTION}/expireMessages/{{number:seconds}}", Action.CONSUME)
async def expire_older(
    request: AdminRequest,
    domain: str,
    tenant: str,
    namespace: str,
    topic: str,
    subscription: str,
    seconds: int,
) -> None:
    """Skip the messages that are older than this many seconds, on each partition.

    The answer is 409 if the subscription has nothing to skip on some partition: either it has no backlog there, or it
    has fewer than _NEARLY_CAUGHT_UP unacked entries, none of them old, and its consumers are connected. The old
    messages on all other partitions are still skipped.
    """
    name = named(domain, tenant, namespace, topic)
    await _require(request, name, subscription, "Expire messages")
    await _expire_older(request, name, (subscription,), seconds)


@operation(router, "POST", f"{SUBSCRIPTION}/expireMessages", Action.CONSUME)
async def expire_through(
    request: AdminRequest,
    domain: str,
    tenant: str,
    namespace: str,
    topic: str,
    subscription: str,
    through: Body[ResetCursorData],
) -> None:
    """Skip the messages up to and including a message id."""
    name = named(domain, tenant, namespace, topic)
    await found_subscription(request, name, subscription, "Expire message at position")
    index = -1 if name.partition is None else name.partition
    if through.partitionIndex != index:
        raise Refused(412, f"partitionIndex is {through.partitionIndex}; that of {name} is {index}")
    await request.act(
        "expire",
        topic=name.full,
        subscription=subscription,
        parameters={"to": "id", "id": through.text()},
    )


@operation(router, "POST", f"{TOPIC}/all_subscription/expireMessages/{{number:seconds}}", Action.CONSUME)
async def expire_all(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str, seconds: int
) -> None:
    """Skip messages older than this many seconds on all durable subscriptions. The caller needs permission for each.

    The answer is 409 if a subscription has nothing to skip on some partition, as in `expire_older`. The old messages of
    all other subscriptions and partitions are still skipped.
    """
    name = named(domain, tenant, namespace, topic)
    require_persistent(name, "Expire messages")
    await Catalogue(request.broker).require(name)
    subscriptions = await Catalogue(request.broker).subscriptions(name)
    for subscription in subscriptions:
        request.broker.access.check(request.principal, Action.CONSUME, Subject.of_topic(name, subscription))
    await _expire_older(request, name, subscriptions, seconds)


@operation(router, "POST", f"{SUBSCRIPTION}/resetcursor/{{number:time_ms}}", Action.CONSUME)
async def reset_to_time(
    request: AdminRequest,
    domain: str,
    tenant: str,
    namespace: str,
    topic: str,
    subscription: str,
    time_ms: int,
) -> None:
    """Move the cursor to the first message stored at or after this time, in ms since 1970."""
    name = named(domain, tenant, namespace, topic)
    await _require(request, name, subscription, "Reset cursor")
    await request.act(
        "reset",
        topic=name.full,
        subscription=subscription,
        parameters={"to": "time", "time_ms": max(0, time_ms)},
    )


@operation(router, "POST", f"{SUBSCRIPTION}/resetcursor", Action.CONSUME)
async def reset_to_id(
    request: AdminRequest,
    domain: str,
    tenant: str,
    namespace: str,
    topic: str,
    subscription: str,
    at: Body[ResetCursorData | str | None] = None,
) -> None:
    """Move the cursor to "earliest", "latest" (the default) or a message id."""
    name = named(domain, tenant, namespace, topic)
    await found_subscription(request, name, subscription, "Reset cursor on position")
    await request.act("reset", topic=name.full, subscription=subscription, parameters=_place(at))


@operation(router, "GET", f"{SUBSCRIPTION}/properties", Action.CONSUME)
async def get_subscription_properties(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str, subscription: str
) -> dict[str, str]:
    """Return the properties of a subscription."""
    name = named(domain, tenant, namespace, topic)
    await _require(request, name, subscription, "Get subscription properties")
    return await Catalogue(request.broker).subscription_properties(name, subscription)


@operation(router, "PUT", f"{SUBSCRIPTION}/properties", Action.CONSUME)
async def set_subscription_properties(
    request: AdminRequest,
    domain: str,
    tenant: str,
    namespace: str,
    topic: str,
    subscription: str,
    properties: Body[dict[str, str]],
) -> None:
    """Replace the properties of a subscription."""
    name = named(domain, tenant, namespace, topic)
    await _require(request, name, subscription, "Update subscription properties")
    await request.act(
        "set_subscription_properties",
        topic=name.full,
        subscription=subscription,
        parameters={"properties": properties},
    )


@operation(router, "POST", f"{SUBSCRIPTION}/analyzeBacklog", Action.CONSUME)
async def analyze_backlog(
    request: AdminRequest,
    domain: str,
    tenant: str,
    namespace: str,
    topic: str,
    subscription: str,
    at: Body[ResetCursorData | None] = None,
) -> BacklogAnalysis:
    """Count the entries and messages of the whole backlog. A message id in the body is ignored."""
    name = named(domain, tenant, namespace, topic)
    _, found = await found_subscription(request, name, subscription, "Analyze backlog")
    entries, messages = found.cursor.backlog_entries, found.cursor.backlog_messages
    return BacklogAnalysis(
        entries=entries,
        messages=messages,
        filterAcceptedEntries=entries,
        filterAcceptedMessages=messages,
    )


async def _expire_older(
    request: AdminRequest, name: TopicName, subscriptions: Sequence[str], seconds: int
) -> None:
    if seconds < 0:
        raise Refused(412, f"expireMessages is {seconds}: it takes at least 0 seconds")
    count = (await Catalogue(request.broker).require(name)).partitions
    names = [name.with_partition(index) for index in range(count)] if count else [name]
    before_ms = request.broker.clock.now_ms() - seconds * 1000
    refusals: list[Refused | BrokerError] = []
    for subscription, each in itertools.product(subscriptions, names):
        try:
            await _expire_before(request, each, subscription, before_ms)
        except (Refused, BrokerError) as error:
            refusals.append(error)
    if refusals:
        raise refusals[0]


async def _expire_before(request: AdminRequest, name: TopicName, subscription: str, before_ms: int) -> None:
    topic = await request.broker.topics.open(name, create=False)
    found = topic.subscriptions.get(subscription)
    if found is None:
        return
    if await _has_nothing_to_expire(topic, found, before_ms):
        raise Refused(
            409,
            f"Expire message by timestamp not issued on topic {name} for subscription {subscription}"
            " due to ongoing message expiration not finished or subscription almost catch up",
        )
    await request.act(
        "expire",
        topic=name.full,
        subscription=subscription,
        parameters={"to": "time", "time_ms": max(0, before_ms)},
    )


async def _has_nothing_to_expire(topic: Topic, found: Subscription, before_ms: int) -> bool:
    backlog = found.cursor.backlog_entries
    if not backlog:
        return True
    if not found.consumers or backlog >= _NEARLY_CAUGHT_UP:
        return False
    oldest_ms = await topic.reader.append_ms(found.cursor.read_from())
    return oldest_ms is not None and oldest_ms >= before_ms
