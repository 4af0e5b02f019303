"""Decide which namespaces a pattern covers, and which role an act needs.

A pattern is `*`, `tenant/*` or `tenant/namespace`. An act is a change that the broker makes on request.
"""

from __future__ import annotations

from typing import Final

from broker.acts.requests import KINDS
from console.models import Role

__all__ = ["EVERYTHING", "covers", "namespace_of", "role_for"]

EVERYTHING: Final = "*"
_FOR_ADMINS: Final = frozenset(("delete_topic",))
_CHANGING_NAMESPACES: Final = ("namespace", "new namespace")
_FOR_OPERATORS: Final = frozenset(("create_topic",))


def namespace_of(name: str) -> str:
    """Return the `tenant/namespace` of a full topic name. Return any other name unchanged."""
    domain, separator, rest = name.partition("://")
    return "/".join(rest.split("/", 2)[:2]) if separator else domain


def covers(pattern: str, namespace: str) -> bool:
    """Return whether a pattern covers a namespace or another pattern."""
    if pattern == EVERYTHING:
        return True
    tenant, _, local = namespace.partition("/")
    if not tenant or not local or "/" in local:
        return False
    return pattern in (namespace, f"{tenant}/*")


def role_for(kind: str) -> Role:
    """Return the role that an act of this kind needs."""
    known = KINDS.get(kind)
    if kind in _FOR_OPERATORS or known is None:
        return Role.OPERATOR
    return Role.ADMIN if kind in _FOR_ADMINS or known.scope in _CHANGING_NAMESPACES else Role.OPERATOR
