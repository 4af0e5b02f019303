"""Permissions of roles on namespaces, topics and subscriptions. A change is in force before the answer is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

from ninja import Body, Router
from pydantic import FailFast

from broker.core.access.permissions import Action, Grants, Permission, Subject, check_grant
from broker.core.errors import NotAllowed
from broker.doors.admin.catalogue import Catalogue, named
from broker.doors.admin.namespaces import NAMESPACE
from broker.doors.admin.operations import operation
from broker.doors.admin.refusals import Refused
from broker.doors.admin.request import ORIGIN, AdminRequest
from broker.doors.admin.topics import TOPIC
from broker.storage import access
from broker.storage.acts import acts
from broker.storage.pool import repeat_until_done

if TYPE_CHECKING:
    from broker.storage.connection import Connection

__all__ = ["auth_policies", "router"]

_OF_NAMESPACE: Final = f"{NAMESPACE}/permissions"
_OF_SUBSCRIPTION: Final = f"{_OF_NAMESPACE}/subscription/{{segment:subscription}}"
_OF_TOPIC: Final = f"{TOPIC}/permissions"

_Roles = dict[str, list[str]]  # Permissions by role, or roles by subscription
# Validation stops at the first wrong item, because lists may be long.
_Permissions = Annotated[list[Permission], FailFast()]

router = Router()


@operation(router, "GET", _OF_NAMESPACE, Action.ADMINISTER)
async def get_namespace_permissions(request: AdminRequest, tenant: str, namespace: str) -> _Roles:
    """Return the permissions of each role on a namespace."""
    subject = await _namespace(request, tenant, namespace)
    return _shown((await _granted(request, f"{tenant}/{namespace}")).namespaces.get(subject.namespace, {}))


@operation(router, "GET", f"{_OF_NAMESPACE}/subscription", Action.ADMINISTER)
async def get_subscription_permissions(request: AdminRequest, tenant: str, namespace: str) -> _Roles:
    """Return the restricted subscriptions of a namespace, each with the roles that may use it."""
    subject = await _namespace(request, tenant, namespace)
    return _of_subscriptions(await _granted(request, f"{tenant}/{namespace}"), subject)


@operation(router, "POST", _OF_SUBSCRIPTION, Action.ADMINISTER)
async def grant_subscription_permission(
    request: AdminRequest, tenant: str, namespace: str, subscription: str, roles: Body[list[str]]
) -> None:
    """Let roles use a subscription. After that, only roles with this permission may use it.

    These roles also need permission to consume from the topic.
    """
    subject = await _namespace(request, tenant, namespace)
    if not roles:
        raise Refused(412, "name at least one role: an empty list changes nothing")
    await _set(request, replace(subject, subscription=subscription), roles, [Permission.CONSUME])


@operation(router, "DELETE", f"{_OF_NAMESPACE}/{{segment:subscription}}/{{segment:role}}", Action.ADMINISTER)
async def revoke_subscription_permission(
    request: AdminRequest, tenant: str, namespace: str, subscription: str, role: str
) -> None:
    """Revoke a role's permission to use a subscription.

    If no role has this permission, all consumers may use the subscription.
    """
    subject = await _namespace(request, tenant, namespace)
    await _set(request, replace(subject, subscription=subscription), [role], [])


@operation(router, "POST", f"{_OF_NAMESPACE}/{{segment:role}}", Action.ADMINISTER)
async def grant_namespace_permission(
    request: AdminRequest, tenant: str, namespace: str, role: str, actions: Body[_Permissions]
) -> None:
    """Replace the permissions of a role on a namespace."""
    await _set(request, await _namespace(request, tenant, namespace), [role], actions)


@operation(router, "DELETE", f"{_OF_NAMESPACE}/{{segment:role}}", Action.ADMINISTER)
async def revoke_namespace_permission(request: AdminRequest, tenant: str, namespace: str, role: str) -> None:
    """Revoke the permissions of a role on a namespace."""
    await _set(request, await _namespace(request, tenant, namespace), [role], [])


@operation(router, "GET", _OF_TOPIC, Action.ADMINISTER)
async def get_topic_permissions(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str
) -> _Roles:
    """Return the permissions of each role on a topic, including permissions on the namespace."""
    subject = await _topic(request, domain, tenant, namespace, topic)
    granted = await _granted(request, f"{tenant}/{namespace}")
    of_namespace = granted.namespaces.get(subject.namespace, {})
    of_topic = granted.topics.get(subject.topic, {})
    nothing: frozenset[Permission] = frozenset()
    roles = of_namespace.keys() | of_topic.keys()
    return _shown({role: of_namespace.get(role, nothing) | of_topic.get(role, nothing) for role in roles})


@operation(router, "POST", f"{_OF_TOPIC}/{{segment:role}}", Action.ADMINISTER)
async def grant_topic_permission(
    request: AdminRequest,
    domain: str,
    tenant: str,
    namespace: str,
    topic: str,
    role: str,
    actions: Body[_Permissions],
) -> None:
    """Replace the permissions of a role on a topic. The topic need not exist."""
    await _set(request, await _topic(request, domain, tenant, namespace, topic), [role], actions)


@operation(router, "DELETE", f"{_OF_TOPIC}/{{segment:role}}", Action.ADMINISTER)
async def revoke_topic_permission(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str, role: str
) -> None:
    """Revoke the permissions of a role on a topic. The role keeps its permissions on the namespace."""
    subject = await _topic(request, domain, tenant, namespace, topic)
    if role not in (await _granted(request, f"{tenant}/{namespace}")).topics.get(subject.topic, {}):
        raise Refused(412, "Permissions are not set at the topic level")
    await _set(request, subject, [role], [])


async def auth_policies(request: AdminRequest, tenant: str, namespace: str) -> dict[str, object]:
    """Return all permissions of a namespace in the shape of Pulsar's `auth_policies`."""
    granted = await _granted(request, f"{tenant}/{namespace}")
    subject = Subject.of_namespace(tenant, namespace)
    return {
        "namespaceAuthentication": _shown(granted.namespaces.get(subject.namespace, {})),
        "topicAuthentication": {
            topic: _shown(roles)
            for topic, roles in granted.topics.items()
            if topic.partition("://")[2].startswith(f"{subject.namespace}/")
        },
        "subscriptionAuthentication": _of_subscriptions(granted, subject),
    }


async def _namespace(request: AdminRequest, tenant: str, namespace: str) -> Subject:
    await Catalogue(request.broker).require_namespace(tenant, namespace)
    return Subject.of_namespace(tenant, namespace)


async def _topic(request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str) -> Subject:
    name = named(domain, tenant, namespace, topic)
    await Catalogue(request.broker).require_namespace(tenant, namespace)
    return Subject.of_topic(name)


async def _granted(request: AdminRequest, namespace: str) -> Grants:
    """Read permissions from PostgreSQL. Without VELA_AUTHENTICATION, the broker does not load them into memory."""
    return await repeat_until_done(
        request.broker.pool, lambda c: access.of_namespace(c, namespace), what="reading permissions"
    )


async def _set(
    request: AdminRequest, subject: Subject, roles: Sequence[str], permissions: Sequence[Permission]
) -> None:
    try:
        check_grant(subject, roles)
    except NotAllowed as error:
        raise Refused(412, str(error)) from error

    async def store(connection: Connection) -> None:
        async with connection.transaction():
            await access.set_permissions(connection, subject, roles, permissions)
            await acts.record_change(
                connection,
                kind="set_permissions",
                topic=subject.topic or subject.namespace,
                subscription=subject.subscription,
                parameters={"role": ", ".join(sorted(set(roles))), "permissions": sorted(permissions)},
                who=request.principal.role,
                origin=ORIGIN,
                reason=request.reason,
            )

    await repeat_until_done(request.broker.pool, store, what="storing permissions")
    await request.broker.access.load()


def _of_subscriptions(granted: Grants, subject: Subject) -> _Roles:
    return {
        subscription: sorted(roles)
        for (namespace, subscription), roles in sorted(granted.subscriptions.items())
        if namespace == subject.namespace
    }


def _shown(roles: Mapping[str, AbstractSet[Permission]]) -> _Roles:
    return {role: sorted(permissions) for role, permissions in sorted(roles.items())}
