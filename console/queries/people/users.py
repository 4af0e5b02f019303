"""Users and their roles.

This module reads Django's tables on Django's connection, because the PostgreSQL role of `VELA_READ_ROLE` may read only
Vela's tables. The login server is an OpenID Connect provider.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import User
from django.db.models import Exists, F, OuterRef, Prefetch, Q, QuerySet

from console.models import Grant, Role

__all__ = ["PAGE_ROWS", "UserGrant", "UserRow", "others_with", "user_named", "users_page"]

PAGE_ROWS = 100
_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class UserGrant:
    """A role of a user."""

    word: str
    pattern: str
    from_login: bool  # The role comes from a group at the login server


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRow:
    """A user and the roles that the user has."""

    name: str
    is_active: bool
    is_superuser: bool
    last_login: datetime | None
    is_from_server: bool  # The user logs in at the login server
    factor_since: datetime | None
    grants: tuple[UserGrant, ...]


def users_page(search: str, after: str) -> tuple[list[UserRow], str]:
    """Return a page of users, sorted by name, and the `after` argument for the next page.

    The argument is "" if there is no next page.
    """
    found = User.objects.filter(username__icontains=search) if search else User.objects.all()
    if after:
        found = found.filter(username__gt=after)
    rows = [_row(each) for each in _with_grants(found.order_by("username")[: PAGE_ROWS + 1])]
    return rows[:PAGE_ROWS], rows[PAGE_ROWS - 1].name if len(rows) > PAGE_ROWS else ""


def user_named(name: str) -> UserRow | None:
    """Return the user with this name, or None."""
    return next((_row(each) for each in _with_grants(User.objects.filter(username=name))), None)


def others_with(role: Role, namespaces: Iterable[str], *, without: str) -> list[str]:
    """Return the names of at most 5 active users who have at least this role in all these namespaces.

    The argument `without` is the name of a user to leave out.
    """
    found = User.objects.filter(is_active=True).exclude(username=without)
    for namespace in set(namespaces):
        patterns = ("*", f"{namespace.partition('/')[0]}/*", namespace)
        granted = Grant.objects.filter(user=OuterRef("pk"), role__gte=role, pattern__in=patterns)
        found = found.filter(Q(is_superuser=True) | Exists(granted))
    return list(found.order_by("username").values_list("username", flat=True)[:_NAMED])


def _with_grants(users: QuerySet[User]) -> Iterable[User]:
    grants = Prefetch("grant_set", Grant.objects.order_by("pattern"), to_attr="granted")
    return users.annotate(
        factor_since=F("second_factor__created_at"), is_from_server=Q(identity__isnull=False)
    ).prefetch_related(grants)


def _row(user: User) -> UserRow:
    granted: list[Grant] = user.granted  # type: ignore[attr-defined]  # Set by the prefetch
    return UserRow(
        name=user.get_username(),
        is_active=user.is_active,
        is_superuser=user.is_superuser,
        last_login=user.last_login,
        is_from_server=user.is_from_server,  # type: ignore[attr-defined]  # Set by annotate
        factor_since=user.factor_since,  # type: ignore[attr-defined]  # Set by annotate
        grants=tuple(
            UserGrant(word=str(Role(each.role).label), pattern=each.pattern, from_login=each.from_login)
            for each in granted
        ),
    )
