"""`/django-admin/` must not remove the last admin. Like the console's pages, it deletes the schedules of a user who
may not have them any more.

A login deletes all sessions that have expired.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from broker.models import Act, PipelineSchedule
from console.access import Role
from tests.integration.console.conftest import granted
from tests.integration.console.shop import ORDERS
from tests.integration.console.test_granting import scheduled

pytestmark = pytest.mark.django_db
USERS = "/django-admin/auth/user/"


@pytest.fixture
def admin(anonymous: Client) -> Client:
    User.objects.create_superuser("root", password="tested-7")
    anonymous.force_login(User.objects.get(username="root"))
    return anonymous


def fields(user: User, **changed: str) -> dict[str, str]:
    """Return the form of a user, as a browser sends it."""
    given = {
        "username": user.username,
        "is_active": "on",
        "is_staff": "on",
        "is_superuser": "on",
        "date_joined_0": "2026-01-01",
        "date_joined_1": "00:00:00",
    }
    return {name: text for name, text in {**given, **changed}.items() if text}


@pytest.mark.parametrize("lost", ["is_superuser", "is_active"])
def test_the_last_admin_keeps_the_role(admin: Client, lost: str) -> None:
    root = User.objects.get(username="root")
    answer = admin.post(f"{USERS}{root.pk}/change/", fields(root, **{lost: ""}), follow=True)
    page = answer.content.decode()
    assert "oot is the last admin of" in page  # Django capitalizes the first letter
    assert "was changed successfully" not in page
    root.refresh_from_db()
    assert root.is_superuser
    assert root.is_active


def test_the_last_admin_cannot_be_deleted_and_another_one_can(admin: Client) -> None:
    root = User.objects.get(username="root")
    other = User.objects.create_superuser("other", password="tested-7")
    delete = {"action": "delete_selected", "post": "yes"}
    both = {**delete, "_selected_action": [str(root.pk), str(other.pk)]}
    assert "is the last admin of" in admin.post(USERS, both, follow=True).content.decode()
    assert User.objects.filter(pk__in=[root.pk, other.pk]).count() == 2
    admin.post(f"{USERS}{other.pk}/delete/", {"post": "yes"})
    assert not User.objects.filter(pk=other.pk).exists()
    admin.post(f"{USERS}{root.pk}/delete/", {"post": "yes"})
    assert User.objects.filter(pk=root.pk).exists()


def test_a_change_that_leaves_an_admin_is_made(admin: Client) -> None:
    other = User.objects.create_superuser("other", password="tested-7")
    answer = admin.post(f"{USERS}{other.pk}/change/", fields(other, is_superuser=""), follow=True)
    assert "was changed successfully" in answer.content.decode()
    other.refresh_from_db()
    assert not other.is_superuser


@pytest.mark.parametrize("change", ["nothing", "deactivated", "renamed", "deleted"])
def test_a_user_who_is_gone_loses_schedules(admin: Client, change: str) -> None:
    ada = granted(User.objects.create_user("ada"), {"public/*": Role.OPERATOR})
    scheduled("ada", ORDERS)
    scheduled("role (token)", f"{ORDERS}-2")
    is_only_user = {"is_staff": "", "is_superuser": ""}
    changes = {"nothing": {}, "deactivated": {"is_active": ""}, "renamed": {"username": "eva"}}
    if change == "deleted":
        answer = admin.post(f"{USERS}{ada.pk}/delete/", {"post": "yes"})
    else:
        answer = admin.post(f"{USERS}{ada.pk}/change/", fields(ada, **is_only_user, **changes[change]))
    assert answer.status_code == 302
    kept = ["ada", "role (token)"] if change == "nothing" else ["role (token)"]
    assert sorted(PipelineSchedule.objects.values_list("who", flat=True)) == kept
    logged = Act.objects.filter(kind="unschedule_job", who="root", topic_name=ORDERS).count()
    assert logged == (0 if change == "nothing" else 1)


def test_a_login_deletes_sessions_that_have_expired_and_no_other(anonymous: Client) -> None:
    now = timezone.now()
    for key, days in (("old", -1), ("open", 1)):
        Session.objects.create(session_key=key, session_data="", expire_date=now + timedelta(days=days))
    User.objects.create_user("ada", password="tested-7")
    anonymous.force_login(User.objects.get(username="ada"))
    assert not Session.objects.filter(session_key="old").exists()
    assert Session.objects.filter(session_key="open").exists()
