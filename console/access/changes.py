"""Change users, keep at least one admin of everything, and write changes into the audit log.

An admin of everything is a superuser, or a user with the admin role for the pattern `*`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from broker.models import Act
from console.access.roles import EVERYTHING
from console.models import Role

__all__ = ["ChangeRefused", "change_of", "keeping_an_admin", "log_change"]

# Key of an advisory lock. Without the lock, the last two admins could remove each other's role.
_LOCK: Final = 0x56454C41_4752


class ChangeRefused(Exception):
    """A change to a user was refused. The message says why."""


@contextmanager
def change_of(name: str) -> Iterator[User]:
    """Let a `with` block change a user.

    Raises ChangeRefused if the user is unknown, or if the block removes the last admin of everything.
    """
    with keeping_an_admin():
        user = User.objects.filter(username=name).first()
        if user is None:
            raise ChangeRefused(_("there is no user {name!r}").format(name=name))
        yield user


@contextmanager
def keeping_an_admin() -> Iterator[None]:
    """Run a block of changes to users in one transaction. Two such blocks never run at the same time.

    Undoes the changes and raises ChangeRefused if the block removes the last admin of everything.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        before = _an_admin()
        yield
        if before is not None and _an_admin() is None:
            raise ChangeRefused(
                _(
                    "{name} is the last admin of {everything}: make another user admin first, so that"
                    " somebody can still give roles"
                ).format(name=before, everything=EVERYTHING)
            )


def _an_admin() -> str | None:
    of_everything = Q(grant__pattern=EVERYTHING, grant__role=Role.ADMIN)
    admins = User.objects.filter(Q(is_superuser=True) | of_everything, is_active=True)
    return admins.order_by("pk").values_list("username", flat=True).first()


def log_change(
    kind: str, parameters: Mapping[str, Any], *, pattern: str = EVERYTHING, who: str, origin: str
) -> None:
    """Write a change into the audit log. Only users with a role that covers `pattern` see the entry."""
    now = timezone.now()
    Act.objects.create(
        kind=kind,
        state=Act.State.APPLIED,
        topic_name=pattern,
        subscription_name="",
        parameters=dict(parameters),
        who=who,
        origin=origin,
        requested_at=now,
        finished_at=now,
    )
