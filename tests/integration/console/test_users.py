"""Users on the console's pages: made, given roles and passwords, deactivated; and what an admin cannot do."""

from __future__ import annotations

import dataclasses
import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from broker.conf import broker_settings
from broker.models import Act
from console.access import Role, rights
from console.models import Grant
from tests.integration.console.conftest import granted, person
from tests.integration.console.pages import text_of
from tests.integration.console.test_hostile_input import HOSTILE

ADA = "/users/u/ada"
GOOD_PASSWORD = "horse-staple-9"


@pytest.fixture
def admin(db: None) -> Client:
    """An admin of everything, named eve."""
    return person("eve", {"*": Role.ADMIN})


@pytest.fixture
def ada(db: None) -> User:
    """A user without a role."""
    return User.objects.create_user("ada", password="tested-7")


def logged() -> list[tuple[str, str, str, str]]:
    """Return each recorded act on users: its kind, the pattern, the user it changed, and who did it."""
    rows = Act.objects.order_by("id").values_list("kind", "topic_name", "parameters__user", "who")
    return [tuple(row) for row in rows]


def roles() -> set[tuple[str, str, int]]:
    return set(Grant.objects.values_list("user__username", "pattern", "role"))


def may_log_in(name: str, password: str) -> bool:
    return bool(Client().post("/login", {"username": name, "password": password}).status_code == 302)


def test_the_list_shows_roles_and_states(admin: Client, ada: User) -> None:
    granted(ada, {"shop/*": Role.OPERATOR, "shop/orders": Role.READER})
    User.objects.create_user("gone", is_active=False)
    User.objects.create_superuser("root")
    words = text_of(admin.get("/users"))
    assert "ada operator of shop/* reader of shop/orders" in words
    assert re.search(r"gone none \S* ?deactivated", words)
    assert "root superuser" in words
    found = text_of(admin.get("/users?q=AD"))
    assert "ada" in found
    assert "gone" not in found
    assert "No user matches" in text_of(admin.get("/users?q=zebra"))


def test_a_long_list_comes_in_pages_at_a_fixed_cost(
    admin: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(4 + 2):
        admin.get("/users")
    User.objects.bulk_create(User(username=f"user-{number:03}") for number in range(150))
    with django_assert_num_queries(4 + 2):
        first = admin.get("/users")
    assert "user-098" in text_of(first)
    assert "user-099" not in text_of(first)
    following = re.search(r'href="\?([^"]*)"\s*rel="next"', first.content.decode())
    assert following
    second = text_of(admin.get("/users?" + following[1].replace("&amp;", "&")))
    assert "user-098" not in second
    assert "user-099" in second
    assert "user-149" in second


def test_a_made_password_is_shown_once(admin: Client) -> None:
    answer = admin.post("/users/new", {"name": "ada", "password": ""})
    found = re.search(r'class="made-password">([^<]+)<', answer.content.decode())
    assert found
    assert answer["Cache-Control"] == "private, no-store"
    assert may_log_in("ada", found[1])
    assert found[1] not in admin.get(ADA).content.decode()
    assert found[1] not in str(list(Act.objects.values()))
    assert logged() == [("create_user", "*", "ada", "eve")]


def test_a_typed_password_is_never_shown(admin: Client) -> None:
    answer = admin.post("/users/new", {"name": "ada", "password": GOOD_PASSWORD})
    assert answer["Location"] == f"{ADA}?done=without_role"
    page = admin.get(answer["Location"])
    assert GOOD_PASSWORD not in page.content.decode()
    assert "Give the user a role" in text_of(page)
    assert may_log_in("ada", GOOD_PASSWORD)


@pytest.mark.parametrize("pattern", ["shop/*", ""])
def test_a_user_is_made_with_a_role_in_one_form(pattern: str, admin: Client) -> None:
    given = {"name": "ada", "password": GOOD_PASSWORD, "role": "viewer", "pattern": pattern}
    answer = admin.post("/users/new", given)
    shown = text_of(admin.get(answer["Location"]))
    assert "The user is created." in shown
    assert "Give the user a role" not in shown
    granted_to = [(each.pattern, each.role) for each in Grant.objects.filter(user__username="ada")]
    assert granted_to == [(pattern or "*", Role.VIEWER)]
    assert [kind for kind, *_ in logged()] == ["create_user", "set_role"]


@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        ({"name": "bob", "password": GOOD_PASSWORD, "role": "king"}, 422, "Choose a role."),
        (
            {"name": "bob", "password": GOOD_PASSWORD, "role": "viewer", "pattern": "shop"},
            409,
            "is not a pattern",
        ),
        ({"name": "", "password": GOOD_PASSWORD}, 422, "Give the name"),
        ({"name": "a b", "password": GOOD_PASSWORD}, 422, "Enter a valid username"),
        ({"name": "x" * 151, "password": GOOD_PASSWORD}, 422, "At most 150 characters"),
        ({"name": "bob", "password": "x" * 1025}, 422, "At most 1,024 characters"),
        ({"name": "ada", "password": GOOD_PASSWORD}, 409, "There is already a user &#x27;ada&#x27;"),
        ({"name": "bob", "password": "short"}, 409, "too short"),
        ({"name": "bob", "password": "12345678901"}, 409, "entirely numeric"),
        ({"name": "bob-marley", "password": "bob-marley"}, 409, "too similar"),
    ],
)
def test_a_user_that_makes_no_sense_is_not_made(
    given: dict[str, str], status: int, words: str, admin: Client, ada: User
) -> None:
    answer = admin.post("/users/new", given)
    assert answer.status_code == status
    assert words in text_of(answer)
    assert set(User.objects.values_list("username", flat=True)) == {"eve", "ada"}
    assert logged() == []


def test_a_new_password_ends_the_sessions(admin: Client, ada: User) -> None:
    granted(ada, {"*": Role.VIEWER})
    hers = Client()
    hers.force_login(ada)
    assert hers.get("/").status_code == 200
    refused = admin.post(f"{ADA}/password", {"password": "short"})
    assert (refused.status_code, "too short" in text_of(refused)) == (409, True)
    assert hers.get("/").status_code == 200
    assert admin.post(f"{ADA}/password", {"password": GOOD_PASSWORD}).status_code == 302
    assert hers.get("/").status_code == 302
    assert may_log_in("ada", GOOD_PASSWORD)
    assert not may_log_in("ada", "tested-7")
    made = admin.post(f"{ADA}/password", {"password": ""}).content.decode()
    found = re.search(r'class="made-password">([^<]+)<', made)
    assert found
    assert may_log_in("ada", found[1])
    assert logged() == [("set_password", "*", "ada", "eve")] * 2


def test_roles_are_given_replaced_and_taken(admin: Client, ada: User) -> None:
    for pattern, role in (("shop/*", "viewer"), ("shop/*", "operator"), ("*", "reader"), ("*", "none")):
        answer = admin.post(f"{ADA}/role", {"pattern": pattern, "role": role})
        assert answer["Location"] == f"{ADA}?done=role"
    assert roles() == {("eve", "*", Role.ADMIN), ("ada", "shop/*", Role.OPERATOR)}
    assert [pattern for _, pattern, _, _ in logged()] == ["shop/*", "shop/*", "*", "*"]
    assert "shop/*" in text_of(admin.get(ADA))


@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        ({"pattern": "shop", "role": "viewer"}, 409, "is not a pattern"),
        ({"pattern": "", "role": "viewer"}, 422, "Give a pattern"),
        ({"pattern": "*", "role": "king"}, 422, "Choose a role"),
        ({"pattern": "*", "role": "none"}, 409, "has no role for *"),
    ],
)
def test_a_role_that_makes_no_sense_is_not_given(
    given: dict[str, str], status: int, words: str, admin: Client, ada: User
) -> None:
    answer = admin.post(f"{ADA}/role", given)
    assert (answer.status_code, words in text_of(answer)) == (status, True)
    assert roles() == {("eve", "*", Role.ADMIN)}
    assert logged() == []


def test_a_deactivated_user_is_out_at_once(admin: Client, ada: User) -> None:
    granted(ada, {"*": Role.VIEWER})
    hers = Client()
    hers.force_login(ada)
    assert admin.post(f"{ADA}/active", {"active": "no"}).status_code == 302
    assert hers.get("/").status_code == 302
    assert not may_log_in("ada", "tested-7")
    assert admin.post(f"{ADA}/active", {"active": "no"}).status_code == 409
    assert admin.post(f"{ADA}/active", {"active": "perhaps"}).status_code == 422
    assert admin.post(f"{ADA}/active", {"active": "yes"}).status_code == 302
    assert may_log_in("ada", "tested-7")
    assert [kind for kind, *_ in logged()] == ["deactivate_user", "activate_user"]


@pytest.mark.parametrize(
    ("change", "given"),
    [
        ("active", {"active": "no"}),
        ("role", {"pattern": "*", "role": "none"}),
        ("role", {"pattern": "*", "role": "operator"}),
    ],
)
def test_the_last_admin_cannot_be_removed(change: str, given: dict[str, str], admin: Client) -> None:
    granted(User.objects.create_user("gone", is_active=False), {"*": Role.ADMIN})
    answer = admin.post(f"/users/u/eve/{change}", given)
    assert answer.status_code == 409
    assert "eve is the last admin of *" in text_of(answer)
    assert admin.get("/users").status_code == 200
    assert logged() == []
    granted(User.objects.create_user("max"), {"*": Role.ADMIN})
    assert admin.post(f"/users/u/eve/{change}", given).status_code == 302
    assert admin.get("/users").status_code in (302, 403)


def test_the_last_superuser_cannot_be_removed(db: None) -> None:
    root = Client()
    root.force_login(User.objects.create_superuser("root"))
    assert root.post("/users/u/root/active", {"active": "no"}).status_code == 409
    assert root.get("/users").status_code == 200


@pytest.mark.parametrize("address", ["/users/u/nobody", "/users/u/a~2Fb"])
def test_an_unknown_user_is_not_found(address: str, admin: Client) -> None:
    assert admin.get(address).status_code == 404
    for change, given in (
        ("password", {"password": GOOD_PASSWORD}),
        ("role", {"pattern": "*", "role": "viewer"}),
        ("active", {"active": "no"}),
    ):
        assert admin.post(f"{address}/{change}", given).status_code == 404
    assert logged() == []


def test_the_act_log_records_every_change(admin: Client, ada: User) -> None:
    admin.post("/users/new", {"name": "bob", "password": GOOD_PASSWORD})
    admin.post("/users/u/bob/password", {"password": GOOD_PASSWORD + "!"})
    admin.post("/users/u/bob/active", {"active": "no"})
    words = text_of(admin.get("/acts"))
    for told in ("create user bob", "set the password of bob", "deactivate user bob"):
        assert told in words
    greta = person("greta", {"garden/*": Role.ADMIN})
    assert "bob" not in text_of(greta.get("/acts"))


@pytest.mark.parametrize("role", [Role.VIEWER, Role.READER, Role.OPERATOR])
def test_users_with_a_lower_role_are_refused(role: Role, ada: User) -> None:
    pia = person("pia", {"*": role, "shop/*": Role.ADMIN})
    assert 'href="/users"' not in pia.get("/").content.decode()
    assert pia.get("/users").status_code == 403
    assert pia.post(f"{ADA}/role", {"pattern": "shop/x", "role": "viewer"}).status_code == 403
    assert pia.post("/users/new", {"name": "bob", "password": GOOD_PASSWORD}).status_code == 403
    assert logged() == []


def test_a_read_only_console_shows_users_and_changes_none(
    admin: Client, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = dataclasses.replace(broker_settings(), console_read_only=True)
    monkeypatch.setattr(rights, "broker_settings", lambda: settings)
    for address in ("/users", ADA):
        page = admin.get(address)
        assert page.status_code == 200
        assert 'href="/users/new"' not in page.content.decode()
        assert "/role" not in page.content.decode()
    assert admin.post(f"{ADA}/role", {"pattern": "*", "role": "viewer"}).status_code == 403
    assert admin.post("/users/new", {"name": "bob", "password": GOOD_PASSWORD}).status_code == 403
    assert logged() == []


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_values_are_refused_or_shown_harmless(what: str, admin: Client, ada: User) -> None:
    admin.raise_request_exception = False
    value = HOSTILE[what]
    form = "application/x-www-form-urlencoded"
    for address in (f"/users?q={value}", f"/users?after={value}", f"/users/u/{value}", f"{ADA}?done={value}"):
        answer = admin.get(address)
        assert answer.status_code < 500, address[:80]
        assert "<script>alert" not in answer.content.decode()
    for address, body in (
        ("/users/new", f"name={value}&password={GOOD_PASSWORD}"),
        ("/users/new", f"name=bob&password={value}"),
        (f"{ADA}/password", f"password={value}"),
        (f"{ADA}/role", f"pattern={value}&role=viewer"),
        (f"{ADA}/role", f"pattern=*&role={value}"),
        (f"{ADA}/active", f"active={value}"),
    ):
        answer = admin.post(address, body, content_type=form)
        assert answer.status_code < 500, (address, body[:80])
        assert "<script>alert" not in answer.content.decode()
