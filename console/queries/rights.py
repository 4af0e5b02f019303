"""A user's roles, and the data that the user may see.

An act is a logged change, such as the reset of a cursor. A run is one execution of a Spark job on a topic.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Self

from django.utils.translation import gettext as _

from console.models import Role
from console.queries.database import fetch

__all__ = [
    "EVERYTHING",
    "NAMESPACES_MOST",
    "NOTHING",
    "GrantRow",
    "Scope",
    "grants_of",
    "grants_of_role",
    "keys_in",
]

NAMESPACES_MOST: Final = 5000  # Maximum number of namespaces for one pattern
_TOO_LARGE: Final = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRow:
    """A role of a user in the namespaces that match a pattern."""

    role: int
    pattern: str  # One of *, tenant/* and tenant/namespace
    namespace_ids: list[int]  # Empty for the pattern *

    @property
    def word(self) -> str:
        """The translated name of the role."""
        return str(Role(self.role).label)

    @property
    def covered(self) -> str:
        """The namespaces that the pattern covers, in words."""
        if self.pattern == "*":
            return _("all namespaces")
        return (
            _("all of {pattern}").format(pattern=self.pattern[:-2])
            if self.pattern.endswith("/*")
            else self.pattern
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The data that a user's lists and sums include. The fields are None if the user may see everything."""

    namespace_ids: tuple[int, ...] | None = None
    namespaces: tuple[str, ...] | None = None
    tenants: tuple[str, ...] | None = None  # Tenants whose namespaces are all in scope

    @classmethod
    def of(cls, grants: Iterable[GrantRow]) -> Self:
        """Return the scope of a user with these roles."""
        rows = list(grants)
        patterns = [row.pattern for row in rows]
        if "*" in patterns:
            return cls()
        return cls(
            namespace_ids=tuple(sorted({each for row in rows for each in row.namespace_ids})),
            namespaces=tuple(sorted(patterns)),
            tenants=tuple(sorted({name.removesuffix("/*") for name in patterns if name.endswith("/*")})),
        )

    @property
    def is_everything(self) -> bool:
        """Whether the scope includes all data."""
        return self.namespace_ids is None

    @property
    def of_topics(self) -> dict[str, Any]:
        """The `namespace_ids` parameter of queries over topics. The value None means all namespaces."""
        return {"namespace_ids": None if self.namespace_ids is None else list(self.namespace_ids)}

    def has_acts_of(self, namespace: str) -> bool:
        """Return whether acts on this namespace are in scope."""
        if self.namespaces is None or self.tenants is None:
            return True
        return namespace in self.namespaces or namespace.partition("/")[0] in self.tenants

    @property
    def of_acts(self) -> dict[str, Any]:
        """The parameters of queries over acts or runs: names instead of ids, because a deleted namespace has no id."""
        return {
            "namespaces": None if self.namespaces is None else list(self.namespaces),
            "tenants": None if self.tenants is None else list(self.tenants),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    key: str


EVERYTHING: Final = Scope()
NOTHING: Final = Scope.of(())


def grants_of(user_id: int) -> list[GrantRow]:
    """Return the roles of a user."""
    return fetch(GrantRow, "rights", "grants", {"user_id": user_id, "limit": NAMESPACES_MOST})


def grants_of_role(role: str) -> list[GrantRow]:
    """Return an admin grant for each tenant that clients with this role may administer.

    `role` is the role in a client's token. It is not a role of a user.
    """
    return fetch(
        GrantRow, "rights", "grants_of_role", {"role": role, "admin": Role.ADMIN, "limit": NAMESPACES_MOST}
    )


def keys_in(scope: Scope, keys: Iterable[str]) -> frozenset[str]:
    """Return the keys that are in scope.

    A key names an object, such as `topic:5`, `sub:9` or `act:7`. The key `acts` is in every scope.
    """
    asked = frozenset(keys)
    if scope.is_everything:
        return asked
    ids: dict[str, list[int]] = {"topic": [], "sub": [], "act": []}
    for kind, separator, number in (key.partition(":") for key in asked):
        if separator and int(number) < _TOO_LARGE:
            ids[kind].append(int(number))
    found = fetch(
        _Key,
        "rights",
        "keys",
        {
            "topics": ids["topic"],
            "subscriptions": ids["sub"],
            "acts": ids["act"],
            **scope.of_topics,
            **scope.of_acts,
        },
    )
    return asked & {"acts", *(row.key for row in found)}
