"""Login, logout, the redirects after them, and the choice of an appearance, which needs no login."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from console.access import Role
from tests.integration.console.conftest import granted
from tests.integration.console.pages import text_of


def test_a_user_logs_in_and_out(anonymous: Client) -> None:
    granted(User.objects.create_user("ada", password="tested-7"), {"*": Role.VIEWER})
    assert anonymous.get("/")["Location"].startswith("/login")
    wrong = anonymous.post("/login", {"username": "ada", "password": "no"})
    assert wrong.status_code == 200
    assert "The name or the password is wrong. Upper and lower case matter." in text_of(wrong)
    right = anonymous.post("/login?next=/acts", {"username": "ada", "password": "tested-7", "next": "/acts"})
    assert right["Location"] == "/acts"
    assert anonymous.get("/").status_code == 200
    for _ in range(2):  # the second time, as if another window had logged the user out
        assert anonymous.post("/logout")["Location"] == "/login"
    assert anonymous.get("/topics").status_code == 302


def test_login_does_not_lead_elsewhere(anonymous: Client) -> None:
    User.objects.create_user("ada", password="tested-7")
    answer = anonymous.post(
        "/login", {"username": "ada", "password": "tested-7", "next": "https://elsewhere.example/"}
    )
    assert answer["Location"] == "/"


@pytest.mark.parametrize(("asked", "shown"), [("dark", "dark"), ("light", "light"), ("plaid", "auto")])
def test_the_appearance_is_remembered(asked: str, shown: str, anonymous: Client) -> None:
    answer = anonymous.post("/theme", {"to": asked, "next": "/login?next=/acts"})
    assert answer["Location"] == "/login?next=/acts"
    assert f'data-theme="{shown}"' in anonymous.get("/login").content.decode()


def test_the_appearance_does_not_lead_elsewhere(anonymous: Client) -> None:
    assert anonymous.post("/theme", {"to": "dark", "next": "//elsewhere.example"})["Location"] == "/"


def test_a_forged_appearance_is_ignored(anonymous: Client) -> None:
    anonymous.cookies["vela_theme"] = '"><script>'
    assert 'data-theme="auto"' in anonymous.get("/login").content.decode()
