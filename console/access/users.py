"""Create, activate and deactivate users, and set their passwords."""

from __future__ import annotations

import secrets
from typing import Final

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from console.access.changes import ChangeRefused, change_of, log_change
from console.access.schedules import delete_lost_schedules
from console.models import Identity

__all__ = ["create_user", "made_password", "set_active", "set_password"]

_PASSWORD_BYTES: Final = 12


def made_password() -> str:
    """Return a new random password."""
    return secrets.token_urlsafe(_PASSWORD_BYTES)


def create_user(name: str, password: str, *, who: str, origin: str) -> None:
    """Create a user without a role. Raises ChangeRefused if the name is taken or the password is too weak."""
    _check_password(password, User(username=name))
    try:
        with transaction.atomic():
            User.objects.create_user(name, password=password)
            log_change("create_user", {"user": name}, who=who, origin=origin)
    except IntegrityError:
        raise ChangeRefused(_("there is already a user {name!r}").format(name=name)) from None


def set_password(name: str, password: str, *, who: str, origin: str) -> None:
    """Set a user's password. This ends the user's sessions.

    Raises ChangeRefused for an unknown user, a user who logs in with OpenID Connect, or a weak password.
    """
    with change_of(name) as user:
        if Identity.objects.filter(user=user).exists():
            raise ChangeRefused(
                _("{name} logs in at the login server, and has no password here").format(name=name)
            )
        _check_password(password, user)
        user.set_password(password)
        user.save(update_fields=["password"])
        log_change("set_password", {"user": name}, who=who, origin=origin)


def set_active(name: str, is_active: bool, *, who: str, origin: str) -> None:
    """Activate or deactivate a user.

    A deactivated user cannot log in, and loses all sessions and schedules. Raises ChangeRefused if the user is unknown,
    if nothing would change, or if the user is the last active one who is a superuser or has the admin role for `*`.
    """
    with change_of(name) as user:
        if user.is_active == is_active:
            already = _("{name} is already active") if is_active else _("{name} is already inactive")
            raise ChangeRefused(already.format(name=name))
        user.is_active = is_active
        user.save(update_fields=["is_active"])
        kind = "activate_user" if is_active else "deactivate_user"
        log_change(kind, {"user": name}, who=who, origin=origin)
        delete_lost_schedules(user, who=who, origin=origin)


def _check_password(password: str, user: User) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise ChangeRefused(" ".join(error.messages)) from None
