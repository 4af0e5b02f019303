"""Pulsar's permissions. They decide what a role may do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

from broker.core.errors import NotAllowed
from broker.core.subscription.types import check_storable

if TYPE_CHECKING:
    from broker.core.access.principal import Principal
    from broker.core.topic_name import TopicName

__all__ = ["CLUSTER", "Action", "Grants", "Permission", "Subject", "allows", "check_grant"]


class Permission(StrEnum):
    """A right that can be granted to a role. The names are Pulsar's."""

    PRODUCE = "produce"
    CONSUME = "consume"
    FUNCTIONS = "functions"
    SOURCES = "sources"
    SINKS = "sinks"
    PACKAGES = "packages"


class Action(StrEnum):
    """An action that a role may be allowed to perform."""

    PRODUCE = "produce to"
    CONSUME = "consume from"
    LOOK_UP = "look up"
    ADMINISTER = "administer"  # Needs a tenant admin or a superuser
    MEASURE = "read the metrics of"
    RULE = "manage"  # Needs a superuser


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The target of an action, such as a topic or the broker. Fields that do not apply are empty."""

    tenant: str = ""
    namespace: str = ""  # tenant/namespace
    topic: str = ""  # Full name of the topic, without a partition suffix
    subscription: str = ""

    @classmethod
    def of_namespace(cls, tenant: str, namespace: str) -> Self:
        """Return the subject for a namespace."""
        return cls(tenant=tenant, namespace=f"{tenant}/{namespace}")

    @classmethod
    def of_topic(cls, topic: TopicName, subscription: str = "") -> Self:
        """Return the subject for a topic or a subscription."""
        return cls(
            tenant=topic.tenant, namespace=topic.namespace_name, topic=topic.base, subscription=subscription
        )

    def __str__(self) -> str:
        place = self.topic or self.namespace or self.tenant or "this broker"
        return f"{place}, subscription {self.subscription}" if self.subscription else place


def check_grant(subject: Subject, roles: Iterable[str]) -> None:
    """Raise NotAllowed if the name of the subscription or of a role is not valid."""
    check_storable("subscription", subject.subscription)
    for role in roles:
        if not role.strip():
            raise NotAllowed("the name of a role is empty")
        check_storable("role", role)


CLUSTER: Final = Subject()
"""The broker itself, as the target of an action."""

_Permissions = Mapping[str, AbstractSet[Permission]]  # Keyed by role


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """The roles that have permissions."""

    superusers: frozenset[str] = frozenset()
    metrics_roles: frozenset[str] = frozenset()
    tenant_admins: Mapping[str, AbstractSet[str]] = field(default_factory=dict)  # Keyed by tenant
    namespaces: Mapping[str, _Permissions] = field(default_factory=dict)  # Keyed by tenant/namespace
    topics: Mapping[str, _Permissions] = field(default_factory=dict)  # Keyed by full topic name
    subscriptions: Mapping[tuple[str, str], AbstractSet[str]] = field(default_factory=dict)
    """The roles for which a subscription is reserved, keyed by namespace and subscription."""


_WANTED: Final = {
    Action.PRODUCE: frozenset({Permission.PRODUCE}),
    Action.CONSUME: frozenset({Permission.CONSUME}),
    Action.LOOK_UP: frozenset({Permission.PRODUCE, Permission.CONSUME}),
}
_NOTHING: Final[_Permissions] = {}
_NONE: Final[AbstractSet[Permission]] = frozenset()


def allows(grants: Grants, principal: Principal, action: Action, subject: Subject) -> bool:
    """Return whether the principal may perform the action on the subject.

    If the principal connects through a proxy, the proxy needs the permission too.
    """
    proxy = principal.proxy_role
    return _allows(grants, principal.role, action, subject) and (
        not proxy or _allows(grants, proxy, action, subject)
    )


def _allows(grants: Grants, role: str, action: Action, subject: Subject) -> bool:
    if role in grants.superusers:
        return True
    if action is Action.MEASURE:
        return role in grants.metrics_roles
    if action is not Action.RULE and role in grants.tenant_admins.get(subject.tenant, ()):
        return True
    wanted = _WANTED.get(action)
    if wanted is None:
        return False
    if action is Action.CONSUME and subject.subscription:
        roles = grants.subscriptions.get((subject.namespace, subject.subscription))
        if roles and role not in roles:
            return False
    of_namespace = grants.namespaces.get(subject.namespace, _NOTHING).get(role, _NONE)
    of_topic = grants.topics.get(subject.topic, _NOTHING).get(role, _NONE)
    return not (wanted.isdisjoint(of_namespace) and wanted.isdisjoint(of_topic))
