"""List namespaces and their topics, and act on all topics of a namespace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from ninja import Router
from pydantic import BaseModel

from broker.acts.kinds.parameters import NothingToActOn
from broker.core.access.permissions import Action
from broker.core.errors import BrokerError, SubscriptionNotFound, TopicNotFound
from broker.core.topic_name import TopicName
from broker.doors.admin.brokers import BUNDLE
from broker.doors.admin.catalogue import Catalogue
from broker.doors.admin.operations import operation
from broker.doors.admin.refusals import Refused
from broker.doors.admin.request import AdminRequest

__all__ = ["NAMESPACE", "router"]

NAMESPACE: Final = "/admin/v2/namespaces/{segment:tenant}/{segment:namespace}"

router = Router()


class Bundles(BaseModel):
    """The bundles of a namespace."""

    boundaries: list[str]
    numBundles: int  # noqa: N815 - Pulsar's name


@operation(router, "GET", "/admin/v2/namespaces/{segment:tenant}", Action.ADMINISTER)
async def get_namespaces(request: AdminRequest, tenant: str) -> list[str]:
    """List the namespaces of a tenant."""
    return await Catalogue(request.broker).namespaces(tenant)


@operation(router, "GET", f"{NAMESPACE}/topics", Action.LOOK_UP)
async def get_topics_of_namespace(
    request: AdminRequest,
    tenant: str,
    namespace: str,
    mode: Literal["PERSISTENT", "NON_PERSISTENT", "ALL"] = "PERSISTENT",
) -> list[str]:
    """List the topics of a namespace. In place of a partitioned topic, list its partitions."""
    catalogue = Catalogue(request.broker)
    found: list[str] = []
    if mode != "NON_PERSISTENT":
        found += await catalogue.topics(tenant, namespace, domain="persistent")
    if mode != "PERSISTENT":
        found += await catalogue.topics(tenant, namespace, domain="non-persistent")
    return found


@operation(router, "GET", f"{NAMESPACE}/bundles", Action.ADMINISTER)
async def get_bundles(request: AdminRequest, tenant: str, namespace: str) -> Bundles:
    """Return the one bundle, which covers the whole namespace."""
    await Catalogue(request.broker).require_namespace(tenant, namespace)
    return Bundles(boundaries=BUNDLE.split("_"), numBundles=1)


@operation(router, "PUT", f"{NAMESPACE}/unload", Action.RULE)
async def unload_namespace(request: AdminRequest, tenant: str, namespace: str) -> None:
    """Unload the persistent topics of a namespace."""
    full = await Catalogue(request.broker).require_namespace(tenant, namespace)
    names = [each.name for each in request.broker.topics.all()]
    await _act_on_each(request, "unload", [(each.full, "") for each in names if each.namespace_name == full])


@operation(router, "PUT", f"{NAMESPACE}/{{segment:bundle}}/unload", Action.RULE)
async def unload_bundle(request: AdminRequest, tenant: str, namespace: str, bundle: str) -> None:
    """Unload a namespace by the name of its one bundle."""
    _require_bundle(bundle)
    await unload_namespace(request, tenant, namespace)


@operation(router, "POST", f"{NAMESPACE}/clearBacklog", Action.ADMINISTER)
async def clear_backlog(request: AdminRequest, tenant: str, namespace: str) -> None:
    """Skip the backlog of every durable subscription in a namespace."""
    await _act_on_each(request, "clear", await _subscriptions(request, tenant, namespace))


@operation(router, "POST", f"{NAMESPACE}/clearBacklog/{{segment:subscription}}", Action.ADMINISTER)
async def clear_backlog_of(request: AdminRequest, tenant: str, namespace: str, subscription: str) -> None:
    """Skip the backlog of a subscription on every topic of a namespace."""
    found = await _subscriptions(request, tenant, namespace)
    await _act_on_each(request, "clear", [each for each in found if each[1] == subscription])


@operation(router, "POST", f"{NAMESPACE}/unsubscribe/{{segment:subscription}}", Action.ADMINISTER)
async def unsubscribe(request: AdminRequest, tenant: str, namespace: str, subscription: str) -> None:
    """Delete a subscription on every topic of a namespace. A subscription with consumers stays and causes a 412."""
    found = await _subscriptions(request, tenant, namespace)
    await _act_on_each(request, "delete_subscription", [each for each in found if each[1] == subscription])


async def _act_on_each(request: AdminRequest, kind: str, found: Sequence[tuple[str, str]]) -> None:
    refusals: list[BrokerError] = []
    for topic, subscription in found:
        try:
            await request.act(kind, topic=topic, subscription=subscription)
        except (NothingToActOn, SubscriptionNotFound, TopicNotFound):
            continue
        except BrokerError as error:
            refusals.append(error)
    if refusals:
        raise refusals[0]


async def _subscriptions(request: AdminRequest, tenant: str, namespace: str) -> list[tuple[str, str]]:
    catalogue = Catalogue(request.broker)
    return [
        (name, subscription)
        for name in await catalogue.topics(tenant, namespace, domain="persistent")
        for subscription in await catalogue.subscriptions(TopicName.parse(name))
    ]


def _require_bundle(bundle: str) -> None:
    if bundle != BUNDLE:
        raise Refused(412, f"the namespace has one bundle, {BUNDLE}")
