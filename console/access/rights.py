"""The rights of a user, or of a token that a client sends to `/api/v1`.

An act is a change that the broker makes on request.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, cast

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User

from broker.conf import broker_settings
from console.access.roles import EVERYTHING, covers, namespace_of, role_for
from console.models import Role
from console.queries.rights import GrantRow, Scope, grants_of

__all__ = ["OF_A_SUPERUSER", "Rights", "rights_of"]


@dataclass(frozen=True, kw_only=True)
class Rights:
    """The roles of one user or token, and the namespace that a request is about."""

    name: str
    grants: tuple[GrantRow, ...]
    is_superuser: bool = False
    is_read_only: bool = False  # Whether the console refuses all changes
    place: str = ""  # `tenant/namespace` from the request's URL

    def at(self, name: str) -> Rights:
        """Return the same rights for a request about this topic or namespace."""
        return replace(self, place=namespace_of(name) or "/" if name else "")

    def role_in(self, name: str) -> Role | None:
        """Return the user's highest role for this topic or namespace. Return None if the user has no role there."""
        namespace = namespace_of(name)
        found = [Role(each.role) for each in self.grants if covers(each.pattern, namespace)]
        return max(found, default=None)

    @cached_property
    def here(self) -> Role | None:
        """The highest role in `place`. If `place` is empty, the highest role in any namespace."""
        if self.place:
            return self.role_in(self.place)
        return max((Role(each.role) for each in self.grants), default=None)

    def may_see(self, name: str) -> bool:
        """Return whether the user may see this topic or namespace."""
        return self.role_in(name) is not None

    def may_read_payloads(self, name: str) -> bool:
        """Return whether the user may read the bodies, keys and properties of this topic's messages."""
        return (self.role_in(name) or 0) >= Role.READER

    def may_act_on(self, name: str, kind: str = "") -> bool:
        """Return whether the user may plan, apply and undo acts of this kind on this topic or namespace.

        Without a kind, the operator role is enough.
        """
        return not self.is_read_only and (self.role_in(name) or 0) >= role_for(kind)

    def may_see_act(self, name: str) -> bool:
        """Return whether the user may see acts on this topic, namespace or `tenant/*`.

        Every other act, such as the creation of a token, has the name `*`. Only users with a role for `*` see it.
        """
        return self.may_see(name) if "/" in name else self.role_in(EVERYTHING) is not None

    def is_admin(self, name: str = EVERYTHING) -> bool:
        """Return whether the user has the admin role for this topic, namespace or pattern."""
        return (self.role_in(name) or 0) >= Role.ADMIN

    @property
    def sees_anything(self) -> bool:
        """Whether the user has any role."""
        return bool(self.grants)

    @property
    def may_act(self) -> bool:
        """Whether the role in `here` lets the user request acts."""
        return not self.is_read_only and (self.here or 0) >= Role.OPERATOR

    @property
    def may_administer(self) -> bool:
        """Whether the role in `here` lets the user change a namespace."""
        return not self.is_read_only and (self.here or 0) >= Role.ADMIN

    @property
    def may_see_payloads(self) -> bool:
        """Whether the role in `here` lets the user read messages."""
        return (self.here or 0) >= Role.READER

    @property
    def role(self) -> str:
        """The untranslated name of the role in `here`, or "nobody"."""
        return self.here.word if self.here is not None else "nobody"

    @cached_property
    def scope(self) -> Scope:
        """The namespaces in which the user has a role."""
        return Scope.of(self.grants)


OF_A_SUPERUSER: Final = GrantRow(role=Role.ADMIN, pattern=EVERYTHING, namespace_ids=[])


def rights_of(user: AbstractBaseUser | AnonymousUser) -> Rights:
    """Return the rights of a logged-in user. Makes at most one query."""
    person = cast("User", user)
    is_superuser = person.is_superuser
    return Rights(
        name=person.get_username(),
        grants=(OF_A_SUPERUSER,) if is_superuser else tuple(grants_of(person.pk)),
        is_superuser=is_superuser,
        is_read_only=broker_settings().console_read_only,
    )
