"""Alert rules in `/api/v1`: what they take and answer, and who may change them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from broker.models import Act, AlertFiring, AlertNotification, AlertRule
from console.access import Role
from tests.integration.console.conftest import person
from tests.integration.console.shop import Shop
from tests.integration.console.test_alerts import firing_of, rule_of

RULES = "/api/v1/alerts/rules"
SECRET = "https://hooks.example.org/T0/secret"


def send(client: Client, method: str, address: str, **body: Any) -> Any:
    return client.generic(method, address, json.dumps(body), content_type="application/json")


def test_a_rule_is_created_with_lengths_as_people_write_them(operator: Client, shop: Shop) -> None:
    answer = send(
        operator, "POST", RULES, name="old", measure="age", threshold="15m", for_ms="1m", webhook_url=SECRET
    )
    assert answer.status_code == 201
    body = answer.json()
    assert answer["Location"] == f"{RULES}/{body['id']}"
    assert (body["threshold"], body["for_ms"], body["namespaces"], body["firing"]) == (
        900_000,
        60_000,
        "*",
        0,
    )
    assert body["condition"] == "oldest unacked message older than 15 minutes for 1 minute"
    assert (body["has_webhook"], "secret" in answer.content.decode()) == (True, False)
    assert operator.get(answer["Location"]).json() == body
    assert AlertRule.objects.get().webhook_url == SECRET
    act = Act.objects.get()
    assert (act.kind, act.who, act.origin) == ("set_alert_rule", "ada", "api 127.0.0.1")


@pytest.mark.parametrize(
    ("measure", "given", "stored"),
    [("age", 5000, 5000), ("stored", 5000, 5000), ("backlog", 5000, 5000), ("stored", "5kB", 5000)],
)
def test_a_number_is_in_the_unit_of_the_measure(
    measure: str, given: int | str, stored: int, operator: Client, shop: Shop
) -> None:
    answer = send(operator, "POST", RULES, name="x", measure=measure, threshold=given, for_ms=1500)
    assert (answer.json()["threshold"], answer.json()["for_ms"]) == (stored, 1500)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"name": ""}, "name: Give the rule a name."),
        ({"measure": "nonsense"}, "measure is 'nonsense': use backlog, age, "),
        ({"threshold": None}, "threshold: Write a limit, such as 10000."),
        ({"threshold": True}, "threshold is True: it takes a whole number, or text such as 15m or 10GB"),
        ({"threshold": 1.5}, "threshold is 1.5: it takes a whole number, or text such as 15m or 10GB"),
        ({"threshold": -5}, "threshold: '-5' is not a whole number of at least 0"),
        ({"for_ms": "soon"}, "for_ms: 'soon' is not a length of time"),
        ({"for_ms": "31d"}, "for_ms: This is too much: at most 30 days."),
        ({"namespaces": "public"}, "namespaces: Write *, tenant/* or tenant/namespace."),
        ({"webhook_url": "ftp://x"}, "webhook_url: Write a URL"),
        ({"name": "\ud800"}, "name is"),
        ({"more": 1}, "unknown member 'more'"),
    ],
)
def test_wrong_input_is_refused_by_the_name_of_the_member(
    wrong: dict[str, Any], words: str, operator: Client, shop: Shop
) -> None:
    answer = send(operator, "POST", RULES, **{"name": "x", "measure": "backlog", "threshold": 10} | wrong)
    assert (answer.status_code, words in answer.json()["detail"]) == (422, True), answer.json()
    assert not AlertRule.objects.exists()


def test_a_change_keeps_what_it_does_not_name(operator: Client, shop: Shop) -> None:
    rule = rule_of(email="ada@example.org", for_ms=90_000)
    firing_of(shop, rule)
    assert operator.get(f"{RULES}/{rule.pk}").json()["firing"] == 1
    answer = send(operator, "PATCH", f"{RULES}/{rule.pk}", threshold="20")
    assert (answer.status_code, answer.json()["threshold"], answer.json()["firing"]) == (200, 20, 0)
    changed = AlertRule.objects.get()
    assert (changed.webhook_url, changed.email, changed.for_ms) == (SECRET, "ada@example.org", 90_000)
    send(operator, "PATCH", f"{RULES}/{rule.pk}", webhook_url="", severity="notice")
    changed.refresh_from_db()
    assert (changed.webhook_url, changed.severity, changed.threshold) == ("", "notice", 20)
    rule_of(name="other")
    taken = send(operator, "PATCH", f"{RULES}/{rule.pk}", name="other")
    assert (taken.status_code, taken.json()["code"]) == (409, "RuleRefused")


def test_a_rule_is_silenced_tested_and_deleted(operator: Client, shop: Shop) -> None:
    rule = rule_of()
    firing_of(shop, rule)
    silent = send(operator, "POST", f"{RULES}/{rule.pk}/silence", for_ms="8h")
    assert silent.json()["silent_until"] is not None
    assert send(operator, "POST", f"{RULES}/{rule.pk}/silence", for_ms=0).json()["silent_until"] is None
    for wrong, words in (("x", "not a length of time"), ("999d", "365 days is the longest silence")):
        refused = send(operator, "POST", f"{RULES}/{rule.pk}/silence", for_ms=wrong)
        assert (refused.status_code, words in refused.json()["detail"]) == (422, True)
    statuses = [send(operator, "POST", f"{RULES}/{rule.pk}/test").status_code for _ in range(5)]
    assert statuses == [200] * 4 + [409]
    assert AlertNotification.objects.count() == 4
    assert send(operator, "DELETE", f"{RULES}/{rule.pk}").json()["name"] == "kept"
    assert not AlertRule.objects.exists()
    assert send(operator, "DELETE", f"{RULES}/{rule.pk}").status_code == 404
    assert operator.get("/api/v1/alerts/history").json()["alerts"][0]["rule_id"] is None


def test_alerts_are_read_page_by_page(operator: Client, shop: Shop) -> None:
    for number in range(20):
        firing_of(shop, None, rule_name=f"old {number}", cleared_ms=1000 + number // 2)
        firing_of(shop, None, rule_name=f"new {number}")
    for name, kind in (("firing", "new"), ("history", "old")):
        seen: list[str] = []
        after: str | None = ""
        while after is not None:
            page = operator.get(f"/api/v1/alerts/{name}", {"after": str(after), "limit": "7"}).json()
            seen += [each["rule_name"] for each in page["alerts"]]
            after = page["next_after"]
        assert sorted(seen) == sorted(f"{kind} {number}" for number in range(20))
        assert operator.get(f"/api/v1/alerts/{name}", {"after": "x"}).status_code == 400


def test_the_api_needs_the_same_rights_as_the_pages(shop: Shop) -> None:
    mine, theirs = rule_of(name="mine"), rule_of(name="theirs", namespaces="*")
    pia = person("pia", {"public/default": Role.OPERATOR})
    asked = {"name": "x", "measure": "backlog", "threshold": 1}
    assert [each["name"] for each in pia.get(RULES).json()["rules"]] == ["mine"]
    assert send(pia, "POST", RULES, **asked).status_code == 403
    assert send(pia, "POST", RULES, **asked, namespaces="public/default").status_code == 201
    assert send(pia, "PATCH", f"{RULES}/{mine.pk}", namespaces="*").status_code == 403
    for method, path in (("PATCH", ""), ("DELETE", ""), ("POST", "/test"), ("GET", "")):
        assert send(pia, method, f"{RULES}/{theirs.pk}{path}").status_code == 404, path
    vera = person("vera", {"public/default": Role.VIEWER})
    assert vera.get(f"{RULES}/{mine.pk}").json()["name"] == "mine"
    assert send(vera, "POST", f"{RULES}/{mine.pk}/silence", for_ms=1).status_code == 403
    mixed = person("mia", {"public/default": Role.VIEWER, "garden/*": Role.OPERATOR})
    assert send(mixed, "DELETE", f"{RULES}/{mine.pk}").status_code == 403
    firing_of(shop, theirs)
    greta = person("greta", {"garden/*": Role.OPERATOR})
    assert greta.get("/api/v1/alerts/firing").json()["alerts"] == []
    assert len(vera.get("/api/v1/alerts/firing").json()["alerts"]) == 1
    assert AlertFiring.objects.filter(cleared_ms=None).count() == 1
