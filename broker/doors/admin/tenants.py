"""Tenants, and the roles that administer them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ninja import Router

from broker.core.access.permissions import Action
from broker.doors.admin.catalogue import Catalogue, require_name
from broker.doors.admin.operations import operation
from broker.doors.admin.refusals import Refused
from broker.doors.admin.request import AdminRequest, PulsarObject

__all__ = ["CLUSTER", "TenantInfo", "router"]

CLUSTER: Final = "vela"  # /metrics uses the same name.
_TENANT: Final = "/admin/v2/tenants/{segment:tenant}"
_CLUSTERS: Final = frozenset({CLUSTER, "global"})

router = Router()


class TenantInfo(PulsarObject):
    """A tenant in Pulsar's JSON format."""

    adminRoles: list[str] | None = None  # noqa: N815 - Pulsar's names
    allowedClusters: list[str] | None = None  # noqa: N815


@operation(router, "GET", "/admin/v2/tenants", Action.RULE)
async def get_tenants(request: AdminRequest) -> list[str]:
    """List the tenants."""
    return await Catalogue(request.broker).tenants()


@operation(router, "GET", _TENANT, Action.RULE)
async def get_tenant(request: AdminRequest, tenant: str) -> TenantInfo:
    """Return a tenant's admin roles and clusters."""
    roles = await Catalogue(request.broker).admin_roles(tenant)
    return TenantInfo(adminRoles=roles, allowedClusters=[CLUSTER])


@operation(router, "PUT", _TENANT, Action.RULE)
async def create_tenant(request: AdminRequest, tenant: str, info: TenantInfo) -> None:
    """Create a tenant. Roles that already have permission to administer it keep this permission.

    Roles can get the permission before the tenant exists. The request need not name them.
    """
    require_name("Tenant", tenant)
    catalogue = Catalogue(request.broker)
    if await catalogue.has_tenant(tenant):
        raise Refused(409, "Tenant already exists")
    await _set(request, tenant, info, keep=await catalogue.granted_admins(tenant))


@operation(router, "POST", _TENANT, Action.RULE)
async def update_tenant(request: AdminRequest, tenant: str, info: TenantInfo) -> None:
    """Replace the roles that administer a tenant."""
    await Catalogue(request.broker).admin_roles(tenant)
    await _set(request, tenant, info)


@operation(router, "DELETE", _TENANT, Action.RULE)
async def delete_tenant(request: AdminRequest, tenant: str, force: bool = False) -> None:
    """Delete a tenant that has no namespace."""
    if force:
        raise Refused(405, "Forced deletion of tenants is not enabled: delete the namespaces first")
    if await Catalogue(request.broker).namespaces(tenant):
        raise Refused(409, "The tenant still has active namespaces")
    await request.act("delete_tenant", topic=f"{tenant}/*")


async def _set(request: AdminRequest, tenant: str, info: TenantInfo, *, keep: Sequence[str] = ()) -> None:
    clusters = info.allowedClusters or []
    if not clusters:
        raise Refused(412, "Clusters can not be empty")
    if unknown := sorted(set(clusters) - _CLUSTERS):
        raise Refused(412, f"Clusters do not exist: {', '.join(unknown)}; the only one is {CLUSTER}")
    roles = info.adminRoles or []
    if any(not each.strip() or "," in each for each in roles):
        raise Refused(412, "a role in adminRoles is empty or has a comma")
    await request.act(
        "set_tenant",
        topic=f"{tenant}/*",
        parameters={"admin_roles": ",".join(dict.fromkeys([*roles, *keep]))},
    )
    await request.broker.access.load()
