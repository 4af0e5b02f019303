"""The pages about alerts: what fires, the rules, their form with its preview, and who may change them."""

from __future__ import annotations

import html
import re
import time
from typing import Any
from urllib.parse import parse_qsl

import pytest
from django.test import Client

from broker.models import Act, AlertFiring, AlertNotification, AlertRule, SubscriptionSummary
from console.access import Role
from console.alerts import keeping
from console.alerts.keeping import RuleRefused, save_rule
from tests.integration.console.conftest import person
from tests.integration.console.pages import text_of
from tests.integration.console.shop import Shop

RULE = {
    "name": "too much",
    "measure": "backlog",
    "limit": "10",
    "lasts": "5m",
    "namespaces": "*",
    "severity": "warning",
    "webhook_url": "https://hooks.example.org/T0/secret",
}


def rule_of(**others: Any) -> AlertRule:
    given = {
        "name": "kept",
        "measure": "backlog",
        "threshold": 10,
        "for_ms": 60_000,
        "namespaces": "public/default",
        "severity": "critical",
        "webhook_url": "https://hooks.example.org/T0/secret",
        "who": "ada",
    }
    return AlertRule.objects.create(**given | others)


def firing_of(shop: Shop, rule: AlertRule | None, **others: Any) -> AlertFiring:
    now_ms = int(time.time() * 1000)
    given = {
        "rule": rule,
        "rule_name": "kept",
        "severity": "critical",
        "measure": "backlog",
        "topic_id": shop.topic.pk,
        "subscription_id": shop.billing.pk,
        "namespace_id": shop.topic.namespace_id,
        "topic_name": shop.topic.name,
        "subscription_name": "billing",
        "value": 14_000,
        "over_since_ms": now_ms - 120_000,
        "fired_ms": now_ms - 60_000,
    }
    return AlertFiring.objects.create(**given | others)


def test_a_new_rule_is_kept_and_logged(operator: Client, shop: Shop) -> None:
    assert operator.post("/alerts/new", RULE | {"save": "1"}).status_code == 302
    rule = AlertRule.objects.get()
    assert (rule.threshold, rule.for_ms, rule.topics, rule.who) == (10, 300_000, "*", "ada")
    act = Act.objects.get()
    assert (act.kind, act.topic_name, act.who) == ("set_alert_rule", "*", "ada")
    assert "secret" not in str(act.parameters)
    page = text_of(operator.get("/alerts"))
    assert "too much backlog above 10 messages for 5 minutes" in page
    assert "secret" not in page


def test_a_preview_says_what_would_fire_and_keeps_nothing(operator: Client, shop: Shop) -> None:
    SubscriptionSummary.objects.filter(subscription=shop.billing).delete()
    SubscriptionSummary.objects.create(
        subscription=shop.billing,
        acked_messages=86,
        read_ledger=1,
        read_entry=1,
        consumers=0,
        unacked_messages=0,
        replay_entries=0,
        message_rate_out=0,
        message_rate_acked=0,
        messages_redelivered=0,
        updated_ms=1,
    )
    page = text_of(operator.post("/alerts/new", RULE))
    assert "Over the limit now: 1. Alerts that would fire at once: 0." in page
    assert "billing of persistent://public/default/orders: 14 messages" in page
    assert "at once: 1." in text_of(operator.post("/alerts/new", RULE | {"lasts": ""}))
    assert "Nothing is over the limit now." in text_of(operator.post("/alerts/new", RULE | {"limit": "14"}))
    assert not AlertRule.objects.exists()
    assert not Act.objects.exists()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"name": ""}, "Give the rule a name."),
        ({"limit": ""}, "Write a limit, such as 10000."),
        ({"limit": "many"}, "is not a whole number"),
        ({"measure": "age", "limit": "10"}, "is not a length of time"),
        ({"measure": "stored", "limit": "9" * 25 + "GB"}, "This is too much."),
        ({"measure": "dead_letters"}, "Write the period in which new letters are counted"),
        ({"measure": "dead_letters", "within": "7d"}, "at most 6 hours"),
        ({"measure": "stuck", "lasts": ""}, "Write how long this must last"),
        ({"measure": "broker", "namespaces": "public/default"}, "The broker serves every namespace"),
        ({"namespaces": "public"}, "Write *, tenant/* or tenant/namespace."),
        ({"topics": "*a*b*c*d*"}, "At most 4 asterisks."),
        ({"webhook_url": "file:///etc/passwd"}, "Write a URL that begins with http"),
        ({"webhook_url": "https://"}, "Write a URL that begins with http"),
        ({"webhook_url": "https://a:b@x/"}, "without a user name or password"),
        ({"webhook_url": "https://x:99999/"}, "Write a URL"),
        ({"email": "nobody"}, "Enter a valid email address."),
        ({"measure": "nonsense"}, "Select a valid choice"),
    ],
)
def test_wrong_input_changes_nothing(wrong: dict[str, str], words: str, operator: Client, shop: Shop) -> None:
    answer = operator.post("/alerts/new", RULE | wrong | {"save": "1"})
    assert answer.status_code == 422
    assert words in text_of(answer)
    assert not AlertRule.objects.exists()


def test_two_rules_cannot_have_one_name(operator: Client, shop: Shop) -> None:
    rule_of(name="too much")
    answer = operator.post("/alerts/new", RULE | {"save": "1"})
    assert (answer.status_code, AlertRule.objects.count()) == (409, 1)
    assert "choose another name" in text_of(answer)


def test_a_rule_that_another_user_deletes_meanwhile_is_not_changed(shop: Shop) -> None:
    rule = rule_of()
    AlertRule.objects.all().delete()
    with pytest.raises(RuleRefused, match="somebody deleted this rule meanwhile"):
        save_rule(rule, {"name": "too much"}, who="ada", origin="test")


def test_a_rule_that_another_user_deletes_meanwhile_is_not_tested_silenced_or_deleted_again(
    shop: Shop,
) -> None:
    rule = rule_of()
    AlertRule.objects.all().delete()
    with pytest.raises(RuleRefused, match="somebody deleted this rule meanwhile"):
        keeping.test_rule(rule, who="ada", origin="test")
    with pytest.raises(RuleRefused, match="somebody deleted this rule meanwhile"):
        keeping.silence_rule(rule, 3_600_000, who="ada", origin="test")
    keeping.delete_rule(rule, who="ada", origin="test")
    assert not Act.objects.exists()


def test_a_changed_rule_keeps_its_webhook_and_ends_what_fired(operator: Client, shop: Shop) -> None:
    rule = rule_of()
    firing_of(shop, rule)
    address = f"/alerts/{rule.pk}"
    form = operator.get(address).content.decode()
    assert "https://hooks.example.org/…" in form
    assert "secret" not in form
    assert operator.post(address, RULE | {"webhook_url": "", "save": "1"}).status_code == 302
    rule.refresh_from_db()
    assert (rule.name, rule.webhook_url) == ("too much", "https://hooks.example.org/T0/secret")
    assert AlertFiring.objects.get().cleared_ms is not None
    operator.post(address, RULE | {"webhook_url": "", "drop_webhook": "on", "save": "1"})
    rule.refresh_from_db()
    assert rule.webhook_url == ""


def test_alerts_are_listed_with_their_history(operator: Client, shop: Shop) -> None:
    rule = rule_of()
    firing_of(shop, rule)
    firing_of(shop, None, rule_name="a rule of old", cleared_ms=int(time.time() * 1000))
    page = text_of(operator.get("/alerts"))
    firing, _, history = page.partition("History")
    assert "14,000 messages" in firing
    assert "a rule of old" in history
    assert "Alerts firing" in text_of(operator.get("/"))


def test_long_lists_have_pages(operator: Client, shop: Shop) -> None:
    for number in range(120):
        firing_of(shop, None, rule_name=f"old {number:03}", cleared_ms=1000 + number // 2)
    seen: list[str] = []
    address = "/alerts"
    while address:
        html = operator.get(address).content.decode()
        seen += [word for word in (f"old {number:03}" for number in range(120)) if word in html]
        _, _, rest = html.partition('href="?before=')
        address = f"/alerts?before={rest.partition(chr(34))[0]}" if rest else ""
    assert sorted(seen) == [f"old {number:03}" for number in range(120)]


def test_a_rule_is_tested_silenced_and_deleted(operator: Client, shop: Shop) -> None:
    rule = rule_of()
    address = f"/alerts/{rule.pk}"
    assert operator.post(f"{address}/test").status_code == 302
    assert AlertNotification.objects.get().body["title"] == "kept: test"
    operator.post(f"{address}/silence_1h")
    rule.refresh_from_db()
    assert rule.silent_until is not None
    assert "silent until" in text_of(operator.get("/alerts"))
    operator.post(f"{address}/speak")
    assert AlertRule.objects.get().silent_until is None
    firing_of(shop, rule)
    assert operator.post(f"{address}/delete").status_code == 302
    assert not AlertRule.objects.exists()
    assert AlertFiring.objects.get().cleared_ms is not None
    kinds = [act.kind for act in Act.objects.order_by("id")]
    assert kinds == ["test_alert_rule", "silence_alert_rule", "silence_alert_rule", "delete_alert_rule"]
    assert "delete alert rule kept" in text_of(operator.get("/acts"))


def test_the_number_of_tests_is_limited(operator: Client, shop: Shop) -> None:
    rule = rule_of()
    statuses = [operator.post(f"/alerts/{rule.pk}/test").status_code for _ in range(5)]
    assert statuses == [302] * 4 + [409]
    without_receiver = rule_of(name="quiet", webhook_url="")
    answer = operator.post(f"/alerts/{without_receiver.pk}/test")
    assert (answer.status_code, "notifies nobody" in text_of(answer)) == (409, True)


def test_a_rule_may_watch_only_what_its_author_may_see(shop: Shop) -> None:
    mine, theirs = rule_of(name="mine"), rule_of(name="theirs", namespaces="*")
    pia = person("pia", {"public/default": Role.OPERATOR})
    wide = pia.post("/alerts/new", RULE | {"save": "1"})
    assert (wide.status_code, AlertRule.objects.count()) == (403, 2)
    narrow = RULE | {"namespaces": "public/default", "save": "1"}
    assert pia.post("/alerts/new", narrow).status_code == 302
    assert pia.post(f"/alerts/{mine.pk}", narrow | {"name": "x", "namespaces": "*"}).status_code == 403
    assert pia.post(f"/alerts/{theirs.pk}/delete").status_code == 404
    assert pia.post(f"/alerts/{mine.pk}/delete").status_code == 302
    page = text_of(pia.get("/alerts"))
    assert "theirs" not in page
    vera = person("vera", {"public/default": Role.VIEWER})
    assert vera.post("/alerts/new", narrow).status_code == 403
    greta = person("greta", {"garden/*": Role.OPERATOR})
    firing_of(shop, theirs)
    assert "billing" not in text_of(greta.get("/alerts"))
    assert "billing" in text_of(vera.get("/alerts"))


@pytest.mark.parametrize(
    ("address", "offered"),
    [
        ("/t/persistent/public/default/orders", 4),
        ("/t/persistent/public/default/orders/s/billing", 5),
    ],
)
def test_pages_offer_only_rules_that_a_user_may_write(
    address: str, offered: int, operator: Client, looker: Client, shop: Shop
) -> None:
    forms = re.findall(r'href="(/alerts/new\?[^"]+)"', operator.get(address).content.decode())
    assert len(forms) == offered
    for form in forms:
        asked = dict(parse_qsl(html.unescape(form).partition("?")[2]))
        assert (asked["namespaces"], asked["topics"]) == ("public/default", "orders")
        page = operator.get(html.unescape(form)).content.decode()
        assert f'value="{html.escape(asked["name"])}"' in page
        answer = operator.post("/alerts/new", {"lasts": "5m", "severity": "warning", **asked, "save": "1"})
        assert answer.status_code == 302, text_of(answer)
    assert "/alerts/new" not in looker.get(address).content.decode()
