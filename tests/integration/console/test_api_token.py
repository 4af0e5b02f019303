"""Tokens at /api/v1: those of superusers and tenant admins, and the rights that they give."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from broker.acts import access
from broker.acts import requests as acts
from broker.conf import BrokerSettings
from broker.core.access.permissions import Subject
from broker.models import Namespace, Tenant, Topic
from console.api import bearer
from tests.integration.console.fake_acts import FakeActs
from tests.support.tokens import ENVIRONMENT, FOREIGN_SECRET, token

pytestmark = pytest.mark.django_db
STATS = "/api/v1/stats"
TOPICS = "/api/v1/topics"
OP = {"who": "op", "origin": "test"}


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = BrokerSettings.from_environment(ENVIRONMENT)
    monkeypatch.setattr(bearer, "broker_settings", lambda: settings)


@pytest.fixture(autouse=True)
def _topics() -> None:
    for tenant in ("shop", "bank"):
        namespace = Namespace.objects.create(tenant=Tenant.objects.create(name=tenant), name="eu")
        Topic.objects.create(namespace=namespace, name=f"persistent://{tenant}/eu/orders")


def get(client: Client, path: str, made: str) -> tuple[int, object]:
    answer = client.get(path, headers={"authorization": f"Bearer {made}"})
    return answer.status_code, json.loads(answer.content)


def names(body: object) -> list[str]:
    assert isinstance(body, dict)
    return [each["name"] for each in body["topics"]]


def test_a_superuser_sees_everything(anonymous: Client) -> None:
    status, body = get(anonymous, TOPICS, token("root"))
    assert status == 200
    assert {"persistent://shop/eu/orders", "persistent://bank/eu/orders"} <= set(names(body))


def test_an_admin_of_a_tenant_sees_that_tenant(anonymous: Client) -> None:
    access.set_permissions(Subject(tenant="shop"), "manager", ["admin"], **OP)
    status, body = get(anonymous, TOPICS, token("manager"))
    assert (status, names(body)) == (200, ["persistent://shop/eu/orders"])
    assert get(anonymous, f"{TOPICS}/persistent/bank/eu/orders/stats", token("manager"))[0] == 404


def test_a_role_that_is_neither_sees_nothing(anonymous: Client) -> None:
    access.set_permissions(Subject.of_namespace("shop", "eu"), "app", ["produce", "consume"], **OP)
    assert get(anonymous, TOPICS, token("app"))[0] == 403


@pytest.mark.parametrize(
    "made", [token("root", secret=FOREIGN_SECRET), token("root", expires_ms=1_000), "x.y.z", ""]
)
def test_a_bad_token_is_refused(anonymous: Client, made: str) -> None:
    assert get(anonymous, STATS, made)[0] == 401


def test_a_revoked_token_is_refused(anonymous: Client) -> None:
    made = token("root", token_id="stolen")
    assert get(anonymous, STATS, made)[0] == 200
    access.revoke_token("stolen", **OP)
    assert get(anonymous, STATS, made)[0] == 401


def test_a_change_needs_json_as_with_basic(anonymous: Client) -> None:
    answer = anonymous.post(
        "/api/v1/acts/plan",
        data="x=1",
        content_type="application/x-www-form-urlencoded",
        headers={"authorization": f"Bearer {token('root')}"},
    )
    assert answer.status_code == 415


def test_tokens_are_accepted_only_if_the_broker_takes_tokens(
    anonymous: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bearer, "broker_settings", lambda: BrokerSettings.from_environment({}))
    assert get(anonymous, STATS, token("root"))[0] == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_the_log_tells_an_act_by_a_token_from_one_by_a_user(
    scheme: str, anonymous: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy second_person compares accounts. A token has no account, although users call the same address."""
    fake = FakeActs()
    monkeypatch.setattr(acts, "plan", fake.plan)
    asked = {"kind": "unload", "topic": "shop/eu/orders"}
    headers = {"authorization": f"{scheme} {token('root')}"}
    assert anonymous.post("/api/v1/acts", asked, "application/json", headers=headers).status_code == 201
    assert fake.asked[0][1][-2:] == ("root (token)", "token 127.0.0.1")
