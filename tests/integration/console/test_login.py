"""Login, logout, the way back, and the appearance that needs neither."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from console.access import Role
from tests.integration.console.conftest import granted
from tests.integration.console.pages import text_of


def test_in_and_out(nobody: Client) -> None:
    granted(User.objects.create_user("ada", password="tested-7"), {"*": Role.VIEWER})
    assert nobody.get("/")["Location"].startswith("/login")
    wrong = nobody.post("/login", {"username": "ada", "password": "no"})
    assert wrong.status_code == 200
    assert "correct username and password" in text_of(wrong)
    right = nobody.post("/login?next=/acts", {"username": "ada", "password": "tested-7", "next": "/acts"})
    assert right["Location"] == "/acts"
    assert nobody.get("/").status_code == 200
    assert nobody.post("/logout")["Location"] == "/login"
    assert nobody.get("/topics").status_code == 302


def test_login_does_not_lead_elsewhere(nobody: Client) -> None:
    User.objects.create_user("ada", password="tested-7")
    answer = nobody.post(
        "/login", {"username": "ada", "password": "tested-7", "next": "https://elsewhere.example/"}
    )
    assert answer["Location"] == "/"


@pytest.mark.parametrize(("asked", "shown"), [("dark", "dark"), ("light", "light"), ("plaid", "auto")])
def test_the_appearance_is_remembered(asked: str, shown: str, nobody: Client) -> None:
    answer = nobody.post("/theme", {"to": asked, "next": "/login?next=/acts"})
    assert answer["Location"] == "/login?next=/acts"
    assert f'data-theme="{shown}"' in nobody.get("/login").content.decode()


def test_the_appearance_does_not_lead_elsewhere(nobody: Client) -> None:
    assert nobody.post("/theme", {"to": "dark", "next": "//elsewhere.example"})["Location"] == "/"


def test_a_forged_appearance_is_ignored(nobody: Client) -> None:
    nobody.cookies["vela_theme"] = '"><script>'
    assert 'data-theme="auto"' in nobody.get("/login").content.decode()
