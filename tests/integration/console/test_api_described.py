"""`/api/v1/openapi.json` is true: every operation answers with what it describes, and with nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from jsonschema import Draft202012Validator, ValidationError

from broker.acts import requests as acts
from broker.models import AlertFiring, AlertRule, Bookmark, Ledger, PipelineRun, PipelineSchedule
from console.api.openapi import document_of
from console.api.urls import api
from tests.integration.console.fake_acts import FakeActs
from tests.integration.console.shop import Shop

DOCUMENT: dict[str, Any] = json.loads(json.dumps(document_of(api)))
NAMES = {
    "domain": "persistent",
    "tenant": "public",
    "namespace": "default",
    "local_name": "orders",
    "subscription": "billing",
    "act_id": "1",
    "run_id": "1000",
    "rule_id": "1000",
}
"""Ids far above those that the database assigns, so that a rule that a test creates gets another id."""
BODIES: dict[str, Any] = {
    "plan_act": {"kind": "clear", "topic": "orders", "subscription": "billing"},
    "apply_act": {"reason": "tested"},
    "refuse_act": {"reason": "too late"},
    "undo_act": {"reason": "too early"},
    "create_alert_rule": {"name": "behind", "measure": "backlog", "threshold": 10},
    "change_alert_rule": {"name": "far behind", "threshold": 1000},
    "silence_alert_rule": {"for_ms": "8h"},
}


def operations() -> list[Any]:
    """Return every operation with its method and path, ordered so that an act is planned before it is applied."""
    found = [
        pytest.param(method, path, described, id=described["operationId"])
        for path, methods in DOCUMENT["paths"].items()
        for method, described in methods.items()
    ]
    assert len(found) > 15
    return found


def closed(schema: Any) -> Any:
    """Return the schema, changed so that an object may have no members except those that it names."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    result = {name: closed(each) for name, each in schema.items()}
    return result | {"additionalProperties": False} if "properties" in schema else result


def check(answer: Any, responses: dict[str, Any], **changed: Any) -> None:
    """Raise ValidationError if the answer is not one of the described responses. `changed` replaces members of it."""
    response = responses.get(str(answer.status_code)) or DOCUMENT["components"]["responses"]["Problem"]
    schema = response["content"][answer["Content-Type"]]["schema"]
    whole = closed(schema | {"components": DOCUMENT["components"]})
    content = b"".join(answer.streaming_content).decode() if answer.streaming else answer.json() | changed
    Draft202012Validator(whole, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(content)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeActs:
    """A broker that answers from memory, with one act planned and applied."""
    fake = FakeActs()
    for name in ("plan", "apply", "refuse", "plan_undo", "get"):
        monkeypatch.setattr(acts, name, getattr(fake, name))
    for act in (BODIES["plan_act"], BODIES["plan_act"]):
        acts.plan(**act, parameters={}, who="ada", origin="test")
    return fake


@pytest.fixture
def caller(operator: Client, shop: Shop, broker: FakeActs) -> Client:
    Bookmark.objects.create(topic=shop.topic, name="launch", ledger_id=1, entry_id=2, who="ada")
    about = {
        "job": "export",
        "subject": "s",
        "topic_name": shop.topic.name,
        "options": {"to": "x"},
        "who": "ada",
    }
    PipelineRun.objects.create(
        id=NAMES["run_id"], state="running", stages=[{"name": "write", "done": 1, "of": 2}], **about
    )
    PipelineSchedule.objects.create(every_minutes=5, next_at="2026-01-01T00:00:00Z", **about)
    rule = AlertRule.objects.create(
        id=NAMES["rule_id"],
        name="kept",
        measure="stored",
        threshold=10,
        for_ms=60_000,
        namespaces="*",
        severity="notice",
        email="ada@example.org",
        who="ada",
    )
    alert = {
        "rule": rule,
        "rule_name": rule.name,
        "severity": rule.severity,
        "measure": rule.measure,
        "topic_id": shop.topic.pk,
        "subscription_id": 0,
        "topic_name": shop.topic.name,
        "subscription_name": "",
        "value": 11,
        "over_since_ms": 1,
        "fired_ms": 2,
    }
    AlertFiring.objects.create(**alert)
    AlertFiring.objects.create(cleared_ms=3, **alert)
    return operator


def call(client: Client, method: str, path: str, operation: str) -> Any:
    ledger = Ledger.objects.order_by("pk").first()
    address = f"/api/v1{path.format(**NAMES, spot=f'{ledger.pk if ledger else 1}:0')}"
    if method == "get":
        return client.get(address)
    body = json.dumps(BODIES.get(operation) or {})
    return client.generic(method.upper(), address, body, content_type="application/json")


@pytest.mark.parametrize(("method", "path", "described"), operations())
def test_an_answer_matches_its_description(
    method: str, path: str, described: dict[str, Any], caller: Client
) -> None:
    if described["operationId"] == "undo_act":
        call(caller, "post", path.replace("undo", "apply"), "apply_act")
    answer = call(caller, method, path, described["operationId"])
    assert str(answer.status_code) in described["responses"], answer.content
    check(answer, described["responses"])


@pytest.mark.parametrize(("method", "path", "described"), operations())
def test_a_refusal_matches_its_description(
    method: str, path: str, described: dict[str, Any], anonymous: Client
) -> None:
    answer = call(anonymous, method, path, described["operationId"])
    assert answer.status_code == 401
    check(answer, described["responses"])


def test_a_refused_act_matches_its_description(caller: Client, broker: FakeActs) -> None:
    broker.has_drifted = True
    answer = caller.post("/api/v1/acts/1/apply", "{}", content_type="application/json")
    assert answer.json().keys() >= {"act", "new_plan", "instance"}
    check(answer, {})


def test_a_member_too_many_too_few_or_of_another_type_is_found(caller: Client) -> None:
    answer = caller.get("/api/v1/stats")
    responses = DOCUMENT["paths"]["/stats"]["get"]["responses"]
    check(answer, responses)
    wrongs: list[dict[str, Any]] = [{"more": 1}, {"topics": None}, {"topics": "1"}, {"broker": {}}]
    for wrong in wrongs:
        with pytest.raises(ValidationError):
            check(answer, responses, **wrong)


def test_every_operation_says_in_words_what_it_does() -> None:
    for _, _, described in (each.values for each in operations()):
        assert described["summary"].endswith("."), described["operationId"]
        assert "quer" not in described["description"], "the number of queries is not part of the description"
