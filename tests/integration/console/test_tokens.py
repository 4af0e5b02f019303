"""The page of clients' tokens: for admins of everything; a token is shown once, and revoked by a button."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from broker.conf import BrokerSettings
from broker.core.access.tokens import secret_key, verify
from broker.models import AccessToken, Act
from console.access import Role
from console.views.clients import tokens as view
from tests.integration.console.conftest import granted
from tests.support.tokens import ENVIRONMENT, SECRET

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "broker_settings", lambda: BrokerSettings.from_environment(ENVIRONMENT))


def client_with(role: Role, pattern: str = "*") -> Client:
    client = Client()
    client.force_login(granted(User.objects.create_user("ada"), {pattern: role}))
    return client


def text(client: Client, status: int = 200) -> str:
    answer = client.get("/tokens")
    assert answer.status_code == status
    return answer.content.decode()


def test_a_token_is_made_shown_once_and_revoked() -> None:
    client = client_with(Role.ADMIN)
    assert "No token was created here." in text(client)
    answer = client.post("/tokens", {"role": "billing", "days": "30"})
    found = re.search(r'class="made-password"[^>]*>([^<]+)<', answer.content.decode())
    assert answer.status_code == 200
    assert found is not None
    principal = verify(found[1], [secret_key(SECRET.encode())], now_ms=0)
    assert principal.role == "billing"
    page = text(client)
    assert found[1] not in page
    assert principal.token_id is not None
    assert principal.token_id in page
    answer = client.post("/tokens/revoke", {"id": principal.token_id})
    assert (answer.status_code, answer["Location"]) == (302, "/tokens?done=revoked")
    assert AccessToken.objects.get().revoked_by == "ada"
    assert "revoked" in text(client)
    assert [(act.kind, act.who) for act in Act.objects.order_by("id")] == [
        ("create_token", "ada"),
        ("revoke_token", "ada"),
    ]


def test_a_role_keeps_its_spaces() -> None:
    client_with(Role.ADMIN).post("/tokens", {"role": "billing ", "days": "30"})
    assert AccessToken.objects.get().role == "billing "


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"role": "", "days": "30"},
        {"role": " ", "days": "30"},
        {"role": "x" * 256, "days": "1"},
        {"role": "a", "days": "2"},
    ],
)
def test_a_wrong_field_makes_nothing(fields: dict[str, str]) -> None:
    assert client_with(Role.ADMIN).post("/tokens", fields).status_code == 422
    assert not AccessToken.objects.exists()


def test_without_a_key_the_page_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "broker_settings", lambda: BrokerSettings.from_environment({}))
    client = client_with(Role.ADMIN)
    assert "The broker does not ask for tokens" in text(client)
    answer = client.post("/tokens", {"role": "a", "days": "1"})
    assert answer.status_code == 409
    assert "VELA_TOKEN_SECRET_KEY_FILE" in answer.content.decode()


@pytest.mark.parametrize(("role", "pattern"), [(Role.OPERATOR, "*"), (Role.ADMIN, "public/*")])
def test_only_admins_of_everything_may_look_and_change(role: Role, pattern: str) -> None:
    client = client_with(role, pattern)
    refused = client.get("/tokens").status_code
    assert refused in (403, 404)
    assert client.post("/tokens", {"role": "a", "days": "1"}).status_code == refused
    assert client.post("/tokens/revoke", {"id": "a"}).status_code == refused
    assert not AccessToken.objects.exists()


def test_a_visitor_without_a_login_is_sent_to_log_in(anonymous: Client) -> None:
    assert anonymous.get("/tokens")["Location"].startswith("/login")
