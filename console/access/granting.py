"""Add and remove roles of users."""

from __future__ import annotations

from collections.abc import Mapping

from django.contrib.auth.models import User
from django.utils.translation import gettext as _

from broker.login_settings import is_role_pattern
from console.access.changes import ChangeRefused, change_of, log_change
from console.access.schedules import delete_lost_schedules
from console.models import Grant, Role

__all__ = ["set_login_roles", "set_role"]


def set_role(name: str, pattern: str, role: Role | None, *, who: str, origin: str) -> None:
    """Give a user a role for a pattern. If `role` is None, remove the user's role for the pattern.

    Does not change roles from the login server. Deletes the user's job schedules that are no longer allowed. Raises
    ChangeRefused if the user is unknown, if there is no role to remove, if the pattern is wrong, or if no admin for `*`
    would remain.
    """
    if not is_role_pattern(pattern):
        raise ChangeRefused(
            _("{pattern!r} is not a pattern: write *, tenant/* or tenant/namespace").format(pattern=pattern)
        )
    with change_of(name) as user:
        if role is not None:
            Grant.objects.update_or_create(
                user=user, pattern=pattern, from_login=False, defaults={"role": role}
            )
        elif not Grant.objects.filter(user=user, pattern=pattern, from_login=False).delete()[0]:
            raise ChangeRefused(_("{name} has no role for {pattern}").format(name=name, pattern=pattern))
        _log(name, pattern, role, who, origin)
        delete_lost_schedules(user, who=who, origin=origin)


def set_login_roles(user: User, roles: Mapping[str, Role], *, who: str, origin: str) -> None:
    """Replace the roles that the last login gave a user. `roles` maps patterns to roles.

    Deletes the user's job schedules that are no longer allowed. Call this function in a transaction.
    """
    of_login = Grant.objects.filter(user=user, from_login=True)
    had = {each.pattern: Role(each.role) for each in of_login}
    for pattern in [*had, *(pattern for pattern in roles if pattern not in had)]:
        role = roles.get(pattern)
        if role == had.get(pattern):
            continue
        if role is None:
            of_login.filter(pattern=pattern).delete()
        else:
            Grant.objects.update_or_create(
                user=user, pattern=pattern, from_login=True, defaults={"role": role}
            )
        _log(user.get_username(), pattern, role, who, origin)
    delete_lost_schedules(user, who=who, origin=origin)


def _log(name: str, pattern: str, role: Role | None, who: str, origin: str) -> None:
    given = None if role is None else role.word
    log_change("set_role", {"user": name, "role": given}, pattern=pattern, who=who, origin=origin)
