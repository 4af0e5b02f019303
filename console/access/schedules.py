"""Delete the schedules of users who lost the required role.

A schedule runs a job on a topic at intervals.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.auth.models import User

from broker.models import PipelineSchedule
from console.access.acting import named_by
from console.access.changes import log_change
from console.access.rights import OF_A_SUPERUSER, Rights
from console.access.roles import role_for
from console.models import Grant
from console.queries.rights import GrantRow

__all__ = ["delete_lost_schedules", "deleting_lost_schedules"]

_KIND = "schedule_job"


def delete_lost_schedules(user: User, *, who: str, origin: str) -> None:
    """Delete this user's schedules that are no longer allowed.

    Call this function after changing the user, in the same transaction.
    """
    rights = _rights_in_this_transaction(user)
    for schedule in PipelineSchedule.objects.filter(who=user.username):
        named = named_by(
            _KIND,
            schedule.topic_name,
            {"job": schedule.job, "options": schedule.options, "every_minutes": schedule.every_minutes},
        )
        if user.is_active and all((rights.role_in(name) or 0) >= role_for(_KIND) for name in named):
            continue
        number = schedule.pk
        schedule.delete()
        log_change(
            "unschedule_job", {"schedule": number}, pattern=schedule.topic_name, who=who, origin=origin
        )


@contextmanager
def deleting_lost_schedules(*, who: str, origin: str) -> Iterator[None]:
    """Run a block that may change users, then delete the users' schedules that are no longer allowed.

    The caller must open a transaction. A user who is deleted or renamed loses all schedules, because schedules store
    the user's name.
    """
    owners = list(User.objects.filter(username__in=PipelineSchedule.objects.values("who")))
    yield
    for owner in owners:
        found = User.objects.filter(pk=owner.pk, username=owner.username).first()
        if found is None:
            owner.is_active = False
        delete_lost_schedules(found or owner, who=who, origin=origin)


def _rights_in_this_transaction(user: User) -> Rights:
    """Return a user's rights, including uncommitted changes. `rights_of` does not see uncommitted changes."""
    if user.is_superuser:
        return Rights(name=user.username, grants=(OF_A_SUPERUSER,))
    found = Grant.objects.filter(user=user)
    grants = (GrantRow(role=each.role, pattern=each.pattern, namespace_ids=[]) for each in found)
    return Rights(name=user.username, grants=tuple(grants))
