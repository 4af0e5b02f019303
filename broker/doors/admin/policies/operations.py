"""The operations that get, set and remove single policies."""

from __future__ import annotations

from typing import Any

from ninja import Body, Router

from broker.core.access.permissions import Action
from broker.doors.admin.catalogue import named
from broker.doors.admin.namespaces import NAMESPACE
from broker.doors.admin.operations import operation
from broker.doors.admin.policies.backlog_quotas import QuotaType, names_of, quota_map, write_quota
from broker.doors.admin.policies.changes import change, of_namespace, of_topic, values
from broker.doors.admin.policies.shapes import BacklogQuota
from broker.doors.admin.policies.table import POLICIES, AdminPolicy, Values
from broker.doors.admin.refusals import Refused
from broker.doors.admin.request import AdminRequest
from broker.doors.admin.tenants import CLUSTER
from broker.doors.admin.topics import TOPIC
from broker.topics.policies import Holder

__all__ = ["router"]

router = Router()


def _shown(policy: AdminPolicy, found: Values) -> Any:
    return policy.read(found) if any(name in found for name in policy.names) else policy.unset


def _add_to_namespaces(policy: AdminPolicy) -> None:
    path = f"{NAMESPACE}/{policy.namespace}"

    async def get(request: AdminRequest, tenant: str, namespace: str) -> Any:
        return _shown(
            policy, await values(request, await of_namespace(request, tenant, namespace), applied=False)
        )

    async def set_(request: AdminRequest, tenant: str, namespace: str, value: Any) -> None:
        await change(request, await of_namespace(request, tenant, namespace), to_set=policy.write(value))

    async def remove(request: AdminRequest, tenant: str, namespace: str) -> None:
        await change(request, await of_namespace(request, tenant, namespace), to_unset=policy.names)

    _register("namespace", policy.namespace, path, policy, policy.namespace_verb, get, set_, remove)


def _add_to_topics(policy: AdminPolicy) -> None:
    path = f"{TOPIC}/{policy.topic}"

    async def get(
        request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str, applied: bool = False
    ) -> Any:
        holder = await of_topic(request, named(domain, tenant, namespace, topic))
        return _shown(policy, await values(request, holder, applied=applied))

    async def set_(
        request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str, value: Any
    ) -> None:
        holder = await of_topic(request, named(domain, tenant, namespace, topic))
        await change(request, holder, to_set=policy.write(value))

    async def remove(request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str) -> None:
        holder = await of_topic(request, named(domain, tenant, namespace, topic))
        await change(request, holder, to_unset=policy.names)

    # Clients send messageTTL in the query, not in the body.
    if policy.topic == "messageTTL":

        async def set_ttl(
            request: AdminRequest,
            domain: str,
            tenant: str,
            namespace: str,
            topic: str,
            messageTTL: int,  # noqa: N803
        ) -> None:
            await set_(request, domain, tenant, namespace, topic, messageTTL)

        _register("topic", policy.topic, path, policy, policy.topic_verb, get, set_ttl, remove)
    else:
        _register("topic", policy.topic, path, policy, policy.topic_verb, get, set_, remove)


def _register(
    level: str, name: str, path: str, policy: AdminPolicy, verb: str, get: Any, set_: Any, remove: Any
) -> None:
    *first, last = policy.names
    vela = f"{', '.join(first)} and {last}" if first else last
    applied = ".\n\nWith applied=true, return the value in force there" if level == "topic" else ""
    get.__annotations__["return"] = policy.body | None
    if "value" in set_.__annotations__:
        set_.__annotations__["value"] = Body[policy.body]  # type: ignore[misc, name-defined]  # known at run time
    for view, method, does in (
        (get, "GET", f"Return the policy {name} of a {level}, if one is set{applied}"),
        (set_, verb, f"Set {vela} on a {level}"),
        (remove, "DELETE", f"Remove {vela} from a {level}"),
    ):
        view.__name__ = f"{method.lower()}_{level}_{name}"
        view.__doc__ = f"{does}."
        operation(router, method, path, Action.ADMINISTER)(view)


for each in POLICIES:
    if each.namespace:
        _add_to_namespaces(each)
    if each.topic:
        _add_to_topics(each)


async def _set_quota(request: AdminRequest, holder: Holder, given: BacklogQuota, kind: QuotaType) -> None:
    found = await values(request, holder, applied=False)
    await change(request, holder, to_set=write_quota(given, kind, found))


async def _remove_quota(request: AdminRequest, holder: Holder, kind: QuotaType) -> None:
    await change(request, holder, to_unset=names_of(kind, await values(request, holder, applied=False)))


@operation(router, "GET", f"{NAMESPACE}/backlogQuotaMap", Action.ADMINISTER)
async def get_namespace_backlog_quotas(
    request: AdminRequest, tenant: str, namespace: str
) -> dict[str, BacklogQuota]:
    """Return the backlog quotas that are set on a namespace."""
    return quota_map(await values(request, await of_namespace(request, tenant, namespace), applied=False))


@operation(router, "POST", f"{NAMESPACE}/backlogQuota", Action.ADMINISTER)
async def set_namespace_backlog_quota(
    request: AdminRequest,
    tenant: str,
    namespace: str,
    quota: BacklogQuota,
    backlogQuotaType: QuotaType = "destination_storage",  # noqa: N803 - Pulsar's name, here and below
) -> None:
    """Set a backlog quota on a namespace."""
    await _set_quota(request, await of_namespace(request, tenant, namespace), quota, backlogQuotaType)


@operation(router, "DELETE", f"{NAMESPACE}/backlogQuota", Action.ADMINISTER)
async def remove_namespace_backlog_quota(
    request: AdminRequest,
    tenant: str,
    namespace: str,
    backlogQuotaType: QuotaType = "destination_storage",  # noqa: N803
) -> None:
    """Remove a backlog quota from a namespace."""
    await _remove_quota(request, await of_namespace(request, tenant, namespace), backlogQuotaType)


@operation(router, "GET", f"{TOPIC}/backlogQuotaMap", Action.ADMINISTER)
async def get_topic_backlog_quotas(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str, applied: bool = False
) -> dict[str, BacklogQuota]:
    """Return the backlog quotas that are set on a topic.

    With applied=true, return the quotas in force.
    """
    holder = await of_topic(request, named(domain, tenant, namespace, topic))
    return quota_map(await values(request, holder, applied=applied))


@operation(router, "POST", f"{TOPIC}/backlogQuota", Action.ADMINISTER)
async def set_topic_backlog_quota(
    request: AdminRequest,
    domain: str,
    tenant: str,
    namespace: str,
    topic: str,
    quota: BacklogQuota,
    backlogQuotaType: QuotaType = "destination_storage",  # noqa: N803
) -> None:
    """Set a backlog quota on a topic."""
    holder = await of_topic(request, named(domain, tenant, namespace, topic))
    await _set_quota(request, holder, quota, backlogQuotaType)


@operation(router, "DELETE", f"{TOPIC}/backlogQuota", Action.ADMINISTER)
async def remove_topic_backlog_quota(
    request: AdminRequest,
    domain: str,
    tenant: str,
    namespace: str,
    topic: str,
    backlogQuotaType: QuotaType = "destination_storage",  # noqa: N803
) -> None:
    """Remove a backlog quota from a topic."""
    holder = await of_topic(request, named(domain, tenant, namespace, topic))
    await _remove_quota(request, holder, backlogQuotaType)


@operation(router, "GET", f"{NAMESPACE}/replication", Action.ADMINISTER)
async def get_replication_clusters(request: AdminRequest, tenant: str, namespace: str) -> list[str]:
    """List the clusters of a namespace. Vela has one cluster."""
    await of_namespace(request, tenant, namespace)
    return [CLUSTER]


@operation(router, "POST", f"{NAMESPACE}/replication", Action.ADMINISTER)
async def set_replication_clusters(
    request: AdminRequest, tenant: str, namespace: str, clusters: Body[list[str]]
) -> None:
    """Accept the list with Vela's one cluster, and refuse any other list."""
    await of_namespace(request, tenant, namespace)
    if clusters != [CLUSTER]:
        raise Refused(412, f"Vela does not replicate: the only cluster is {CLUSTER}")
