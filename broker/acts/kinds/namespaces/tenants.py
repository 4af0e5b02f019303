"""Create, change and delete tenants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from broker.acts.kinds.base import ActContext, Scope
from broker.acts.kinds.direct import DirectKind, Effect
from broker.acts.kinds.parameters import ActInvalid, NoParameters, Rule
from broker.storage.pool import repeat_until_done
from broker.storage.topics import namespaces as store

__all__ = ["DeleteTenant", "SetTenant", "TenantRoles"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRoles:
    """The roles that administer a tenant."""

    admin_roles: Annotated[str, Rule("roles that administer the tenant, separated by commas")] = ""

    @property
    def roles(self) -> list[str]:
        """Return each role once, in the given order."""
        return list(dict.fromkeys(each.strip() for each in self.admin_roles.split(",") if each.strip()))


def _tenant(context: ActContext) -> str:
    return context.act.topic_name.partition("/")[0]


class SetTenant(DirectKind[TenantRoles]):
    """Create a tenant, or change its roles."""

    name = "set_tenant"
    summary = "Create a tenant, or change the roles that administer it."
    scope = Scope.TENANT
    can_be_requested = False  # Only the admin API creates this act, so `requests.plan` refuses it
    no_undo = "to undo it, set the earlier roles or delete the tenant"
    parameters = TenantRoles

    async def measure(self, context: ActContext, given: TenantRoles) -> Effect:
        return Effect(
            words=(f"the roles that administer tenant {_tenant(context)}: {given.admin_roles or 'none'}",)
        )

    async def carry_out(self, context: ActContext, given: TenantRoles) -> None:
        await repeat_until_done(
            context.pool,
            lambda c: store.set_tenant(c, _tenant(context), given.roles),
            what="storing a tenant",
        )


class DeleteTenant(DirectKind[NoParameters]):
    """Delete a tenant that has no namespaces."""

    name = "delete_tenant"
    summary = "Delete a tenant that has no namespace."
    scope = Scope.TENANT
    can_be_requested = False
    no_undo = "to undo it, create the tenant again"
    parameters = NoParameters

    async def measure(self, context: ActContext, given: NoParameters) -> Effect:
        return Effect(words=(f"tenant {_tenant(context)} is deleted",))

    async def carry_out(self, context: ActContext, given: NoParameters) -> None:
        name = _tenant(context)
        # This call deletes nothing if the tenant has namespaces.
        await repeat_until_done(
            context.pool, lambda c: store.delete_tenant(c, name), what="deleting a tenant"
        )
        if await repeat_until_done(
            context.pool, lambda c: store.of_tenant(c, name), what="finding namespaces"
        ):
            raise ActInvalid(f"tenant {name} has namespaces: delete them first")
