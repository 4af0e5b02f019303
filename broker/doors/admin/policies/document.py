"""Read, create and delete a namespace with its policies as one object."""

from __future__ import annotations

from typing import Any

from ninja import Body, Router
from pydantic import BaseModel, TypeAdapter, ValidationError

from broker.core.access.permissions import Action
from broker.core.policies import PolicyLevel, checked
from broker.core.topic_name import parse_namespace
from broker.doors.admin.brokers import BUNDLE
from broker.doors.admin.catalogue import Catalogue
from broker.doors.admin.namespaces import NAMESPACE
from broker.doors.admin.operations import operation
from broker.doors.admin.policies.backlog_quotas import quota_map, write_map
from broker.doors.admin.policies.changes import change, of_namespace, values
from broker.doors.admin.policies.permissions import auth_policies
from broker.doors.admin.policies.table import POLICIES, AdminPolicy
from broker.doors.admin.refusals import Refused
from broker.doors.admin.request import AdminRequest
from broker.doors.admin.tenants import CLUSTER

__all__ = ["router"]

router = Router()


@operation(router, "GET", NAMESPACE, Action.ADMINISTER)
async def get_policies(request: AdminRequest, tenant: str, namespace: str) -> dict[str, Any]:
    """Return the policies that are set on a namespace, and Pulsar's defaults for policies that Vela lacks."""
    found = await values(request, await of_namespace(request, tenant, namespace), applied=False)
    document: dict[str, Any] = {
        "auth_policies": await auth_policies(request, tenant, namespace),
        "replication_clusters": [CLUSTER],
        "bundles": {"boundaries": BUNDLE.split("_"), "numBundles": 1},
        "backlog_quota_map": {
            kind: quota.model_dump(exclude_none=True) for kind, quota in quota_map(found).items()
        },
        "deleted": False,
        "encryption_required": False,
        "subscription_auth_mode": "None",
        "offload_threshold": -1,
        "is_allow_auto_update_schema": True,
        "properties": {},
        "subscription_types_enabled": [],
    }
    for policy in POLICIES:
        if policy.member and any(name in found for name in policy.names):
            value = policy.read(found)
            shown = value.model_dump(exclude_none=True) if isinstance(value, BaseModel) else value
            document[policy.member] = {CLUSTER: shown} if policy.by_cluster else shown
    return document


@operation(router, "PUT", NAMESPACE, Action.ADMINISTER)
async def create_namespace(
    request: AdminRequest, tenant: str, namespace: str, policies: Body[dict[str, Any] | None] = None
) -> None:
    """Create a namespace with policies. Ignores policies that are unknown, empty, false, 0, -1 or UNDEFINED."""
    parse_namespace(f"{tenant}/{namespace}")
    catalogue = Catalogue(request.broker)
    await catalogue.admin_roles(tenant)
    if await catalogue.has_namespace(tenant, namespace):
        raise Refused(409, "Namespace already exists")
    clusters = (policies or {}).get("replication_clusters") or [CLUSTER]
    if clusters != [CLUSTER]:
        raise Refused(412, f"Vela does not replicate: the only cluster is {CLUSTER}")
    to_set: dict[str, object] = {}
    for policy in POLICIES:
        if (value := _given(policy, policies or {})) is not None:
            to_set.update(policy.write(value))
    to_set.update(write_map((policies or {}).get("backlog_quota_map") or {}))
    # Check before creating, so that an invalid policy leaves no namespace behind.
    checked(to_set, PolicyLevel.NAMESPACE)
    await request.act("create_namespace", topic=f"{tenant}/{namespace}")
    await change(request, await of_namespace(request, tenant, namespace), to_set=to_set)


@operation(router, "DELETE", NAMESPACE, Action.ADMINISTER)
async def delete_namespace(request: AdminRequest, tenant: str, namespace: str, force: bool = False) -> None:
    """Delete a namespace that has no topics."""
    if force:
        raise Refused(405, "Forced deletion of namespaces is not enabled: delete the topics first")
    full = await Catalogue(request.broker).require_namespace(tenant, namespace)
    if await _all_topics(request, tenant, namespace):
        raise Refused(409, "Cannot delete non empty namespace")
    await request.act("delete_namespace", topic=full)


async def _all_topics(request: AdminRequest, tenant: str, namespace: str) -> list[str]:
    catalogue = Catalogue(request.broker)
    return [
        name
        for domain in ("persistent", "non-persistent")
        for is_partitioned in (True, False)
        for name in await catalogue.topics(tenant, namespace, domain=domain, partitioned=is_partitioned)
    ]


def _given(policy: AdminPolicy, document: dict[str, Any]) -> Any:
    raw = document.get(policy.member) if policy.member else None
    if policy.by_cluster and isinstance(raw, dict):
        raw = raw.get(CLUSTER)
    if not raw or raw in (-1, "UNDEFINED"):
        return None
    try:
        return TypeAdapter(policy.body).validate_python(raw)
    except ValidationError as error:
        raise Refused(400, f"{policy.member}: {error.errors()[0]['msg']}") from error
