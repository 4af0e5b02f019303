"""`manage.py setrole`: what it changes, what it refuses, and what it records in the act log."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from broker.models import Act, PipelineSchedule
from console.access import Role
from console.access.users import set_active
from console.models import Grant
from tests.integration.console.conftest import granted, person
from tests.integration.console.pages import text_of


def roles() -> set[tuple[str, str, int]]:
    return set(Grant.objects.values_list("user__username", "pattern", "role"))


def test_a_role_is_given_replaced_and_taken(db: None) -> None:
    User.objects.create_user("ada")
    call_command("setrole", "ada", "shop/*", "viewer")
    call_command("setrole", "ada", "shop/*", "operator")
    call_command("setrole", "ada", "shop/orders", "admin")
    assert roles() == {("ada", "shop/*", Role.OPERATOR), ("ada", "shop/orders", Role.ADMIN)}
    call_command("setrole", "ada", "shop/orders", "none")
    assert roles() == {("ada", "shop/*", Role.OPERATOR)}


@pytest.mark.parametrize(
    ("user", "pattern", "role", "words"),
    [
        ("nobody", "*", "viewer", "there is no user 'nobody'"),
        ("ada", "shop", "viewer", "is not a pattern"),
        ("ada", "*/orders", "viewer", "is not a pattern"),
        ("ada", "shop/*\n", "viewer", "is not a pattern"),
        ("ada", "shop/a/b", "viewer", "is not a pattern"),
        ("ada", "shop/..", "viewer", "is not a pattern"),
        ("ada", "shop/*", "none", "ada has no role for shop/*"),
        ("ada", "*", "none", "the last admin"),
        ("ada", "*", "viewer", "the last admin"),
    ],
)
def test_an_invalid_grant_is_refused_and_changes_nothing(
    user: str, pattern: str, role: str, words: str, db: None
) -> None:
    granted(User.objects.create_user("ada"), {"*": Role.ADMIN})
    granted(User.objects.create_user("gone", is_active=False), {"*": Role.ADMIN})
    before = roles()
    with pytest.raises(CommandError, match=words.replace("*", r"\*")):
        call_command("setrole", user, pattern, role)
    assert roles() == before
    assert not Act.objects.exists()


def test_a_user_who_loses_a_role_loses_the_schedules_that_need_it(db: None) -> None:
    granted(User.objects.create_user("ada"), {"shop/*": Role.OPERATOR, "yard/*": Role.ADMIN})
    granted(User.objects.create_user("bob"), {"shop/*": Role.OPERATOR})
    for who, topic in (("ada", "shop/a/orders"), ("ada", "yard/a/orders"), ("bob", "shop/a/paid")):
        scheduled(who, f"persistent://{topic}")
    call_command("setrole", "ada", "shop/*", "viewer")
    left = set(PipelineSchedule.objects.values_list("who", "topic_name"))
    assert left == {("ada", "persistent://yard/a/orders"), ("bob", "persistent://shop/a/paid")}
    assert Act.objects.filter(kind="unschedule_job", topic_name="persistent://shop/a/orders").count() == 1
    set_active("bob", False, who="root", origin="test")
    assert not PipelineSchedule.objects.filter(who="bob").exists()


def scheduled(who: str, topic: str) -> None:
    PipelineSchedule.objects.create(
        job="insights",
        subject=topic,
        topic_name=topic,
        options={},
        every_minutes=60,
        next_at=timezone.now(),
        who=who,
    )


def test_a_role_of_a_whole_tenant_leads_to_the_namespaces(looker: Client, db: None) -> None:
    User.objects.create_user("ada")
    call_command("setrole", "ada", "shop/*", "operator")
    for page in (looker.get("/acts"), looker.get("/")):
        assert "make ada operator" in text_of(page)
        assert 'href="/n/shop/*"' not in page.content.decode(), "a pattern has no page"


@pytest.mark.parametrize("is_superuser", [True, False])
def test_the_role_of_an_admin_can_be_taken_when_there_is_another(is_superuser: bool, db: None) -> None:
    granted(User.objects.create_user("ada"), {"*": Role.ADMIN})
    eve = User.objects.create_user("eve", is_superuser=is_superuser)
    granted(eve, {} if is_superuser else {"*": Role.ADMIN})
    call_command("setrole", "ada", "*", "none")
    assert ("ada", "*", Role.ADMIN) not in roles()


def test_the_act_log_says_who_got_what(looker: Client, db: None) -> None:
    User.objects.create_user("ada")
    call_command("setrole", "ada", "shop/*", "operator")
    call_command("setrole", "ada", "shop/*", "none")
    words = text_of(looker.get("/acts"))
    assert "make ada operator" in words
    assert "take a role from ada" in words
    assert len(person("pia", {"shop/x": Role.VIEWER}).get("/api/v1/acts").json()["acts"]) == 0
    assert len(person("gus", {"shop/*": Role.VIEWER}).get("/api/v1/acts").json()["acts"]) == 2
