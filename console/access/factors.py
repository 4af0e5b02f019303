"""Add and remove second factors, and renew recovery codes. The audit log records each change."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction
from django.utils.translation import gettext as _

from console.access.changes import ChangeRefused, change_of, log_change
from console.people import second_factor

__all__ = ["add_factor", "remove_factor", "renew_codes"]


def add_factor(user: User, secret: str, code: str, *, origin: str) -> list[str]:
    """Give a user a second factor, and return the recovery codes.

    Raises FactorRefused if `code` does not match `secret`, or if the user already has a second factor.
    """
    with transaction.atomic():
        codes = second_factor.switch_on(user, secret, code)
        _log("add_second_factor", user, user.get_username(), origin)
    return codes


def renew_codes(user: User, *, origin: str) -> list[str]:
    """Replace a user's recovery codes, and return the new codes."""
    with transaction.atomic():
        codes = second_factor.renew_recovery_codes(user)
        _log("renew_recovery_codes", user, user.get_username(), origin)
    return codes


def remove_factor(name: str, *, who: str, origin: str) -> None:
    """Remove a user's second factor. Raises ChangeRefused if the user is unknown or has no second factor."""
    with change_of(name) as user:
        if not second_factor.remove(user):
            raise ChangeRefused(_("{name} has no second factor").format(name=name))
        _log("remove_second_factor", user, who, origin)


def _log(kind: str, user: User, who: str, origin: str) -> None:
    log_change(kind, {"user": user.get_username()}, who=who, origin=origin)
