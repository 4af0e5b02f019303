"""HTTP Basic checks a password at most once a minute, and again as soon as the user's row has changed."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.test import Client

from console.access import Role
from console.api import basic
from tests.integration.console.conftest import granted

STATS = "/api/v1/stats"


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of users whose password was hashed to check it."""
    names: list[str] = []

    def counted(request: Any, **credentials: Any) -> Any:
        names.append(credentials["username"])
        return authenticate(request, **credentials)

    monkeypatch.setattr(basic, "authenticate", counted)
    basic._remembered.clear()
    yield names
    basic._remembered.clear()


@pytest.fixture
def ada(db: None) -> User:
    return granted(User.objects.create_user("ada", password="first"), {"*": Role.VIEWER})


def status(client: Client, password: str, name: str = "ada") -> int:
    token = base64.b64encode(f"{name}:{password}".encode()).decode()
    return client.get(STATS, headers={"authorization": f"Basic {token}"}).status_code


def test_a_right_password_is_checked_once(anonymous: Client, ada: User, checks: list[str]) -> None:
    assert [status(anonymous, "first") for _ in range(3)] == [200, 200, 200]
    assert checks == ["ada"]


def test_a_password_is_checked_again_after_a_minute(
    anonymous: Client, ada: User, checks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("console.api.basic.time.monotonic", lambda: now[0])
    status(anonymous, "first")
    now[0] += basic.REMEMBER_S - 1
    status(anonymous, "first")
    assert checks == ["ada"]
    now[0] += 2
    status(anonymous, "first")
    assert checks == ["ada", "ada"]


def test_a_wrong_password_never_passes(anonymous: Client, ada: User, checks: list[str]) -> None:
    assert [status(anonymous, each) for each in ("wrong", "first", "wrong", "", "first")] == [
        401,
        200,
        401,
        401,
        200,
    ]
    assert checks == ["ada"] * 4


def test_a_changed_password_counts_at_once(anonymous: Client, ada: User, checks: list[str]) -> None:
    assert status(anonymous, "first") == 200
    ada.set_password("second")
    ada.save()
    assert (status(anonymous, "first"), status(anonymous, "second")) == (401, 200)


def test_a_deactivated_user_is_refused_at_once(anonymous: Client, ada: User, checks: list[str]) -> None:
    assert status(anonymous, "first") == 200
    User.objects.filter(pk=ada.pk).update(is_active=False)
    assert status(anonymous, "first") == 401


def test_one_persons_password_is_not_anothers(anonymous: Client, ada: User, checks: list[str]) -> None:
    granted(User.objects.create_user("vera", password="other"), {"*": Role.VIEWER})
    assert status(anonymous, "first") == 200
    assert status(anonymous, "first", "vera") == 401
    assert status(anonymous, "other", "vera") == 200
    assert status(anonymous, "x", "nobody") == 401


def test_the_number_of_remembered_passwords_is_limited(
    anonymous: Client, ada: User, checks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(basic, "_MOST_REMEMBERED", 1)
    granted(User.objects.create_user("vera", password="other"), {"*": Role.VIEWER})
    assert [status(anonymous, "first"), status(anonymous, "other", "vera"), status(anonymous, "first")] == [
        200
    ] * 3
    assert len(basic._remembered) == 1
