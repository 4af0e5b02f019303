"""`vela alerts`: what it asks the console for, and what it prints."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.unit.client.cli.conftest import Vela
from tests.unit.client.cli.fake_console import FakeConsole, problem

RULE: dict[str, Any] = {
    "id": 3,
    "name": "billing is behind",
    "measure": "backlog",
    "threshold": 10_000,
    "within_ms": None,
    "for_ms": 300_000,
    "condition": "backlog above 10,000 messages for 5 minutes",
    "namespaces": "shop/*",
    "topics": "*",
    "subscriptions": "billing",
    "severity": "warning",
    "has_webhook": True,
    "email": "ada@example.org",
    "silent_until": None,
    "who": "ada",
    "firing": 2,
    "evaluated_ms": 1,
    "told_at": "2026-01-01T00:00:00Z",
    "sent_at": None,
    "attempts": 3,
    "next_at": "2026-01-01T00:01:00Z",
    "error": "status 500",
}
ALERT: dict[str, Any] = {
    "id": 1,
    "rule_id": 3,
    "rule_name": "billing is behind",
    "severity": "warning",
    "measure": "backlog",
    "topic_name": "persistent://shop/eu/orders",
    "subscription_name": "billing",
    "value": 12_408,
    "value_words": "12,408 messages",
    "over_since_ms": 1,
    "fired_ms": 1,
    "cleared_ms": None,
}


def test_rules_are_listed_with_their_state(vela: Vela, console: FakeConsole) -> None:
    ended = RULE | {"id": 4, "name": "old", "firing": 0, "silent_until": "2020-01-01T00:00:00Z", "email": ""}
    silent = ended | {"id": 5, "name": "new", "silent_until": "2990-01-01T00:00:00Z", "has_webhook": False}
    console.answers["GET alerts/rules"] = {"rules": [RULE, ended, silent]}
    first, second, third = vela("alerts list").stdout.splitlines()[1:]
    assert ("firing: 2" in first, "a webhook and ada@example.org" in first) == (True, True)
    assert ("not firing" in second, "silent" in second, "a webhook" in second) == (True, False, True)
    assert ("not firing, silent until 2990" in third, "nobody" in third) == (True, True)
    assert [json.loads(line)["id"] for line in vela("alerts list --json").stdout.splitlines()] == [3, 4, 5]
    console.answers["GET alerts/rules"] = {"rules": []}
    assert "there is no rule yet" in vela("alerts list").stderr


def test_a_rule_is_shown_with_the_state_of_its_notification(vela: Vela, console: FakeConsole) -> None:
    console.answers["GET alerts/rules/3"] = RULE
    assert "not sent yet after 3 attempts: status 500" in vela("alerts show 3").stdout
    console.answers["GET alerts/rules/3"] = RULE | {"next_at": None}
    assert "given up after 3 attempts" in vela("alerts show 3").stdout
    console.answers["GET alerts/rules/3"] = RULE | {"sent_at": "2026-01-01T00:00:05Z"}
    assert "sent 2026" in vela("alerts show 3").stdout


def test_a_rule_is_created_from_options(vela: Vela, console: FakeConsole) -> None:
    console.answers["POST alerts/rules"] = RULE
    done = vela(
        "alerts create behind backlog --limit 10000 --for 5m --namespace shop/* --subscription billing"
        " --webhook https://x.example/y --email ada@example.org --severity critical --topic o* --within 1m"
    )
    assert done.exit_code == 0, done.output
    assert console.asked[0].body == {
        "name": "behind",
        "measure": "backlog",
        "threshold": "10000",
        "within_ms": "1m",
        "for_ms": "5m",
        "namespaces": "shop/*",
        "topics": "o*",
        "subscriptions": "billing",
        "severity": "critical",
        "webhook_url": "https://x.example/y",
        "email": "ada@example.org",
    }
    assert vela("alerts create behind nonsense").exit_code == 2


def test_a_change_sends_only_what_was_given(vela: Vela, console: FakeConsole) -> None:
    console.answers["PATCH alerts/rules/3"] = RULE
    vela("alerts change 3 --name x --measure age --limit 15m --email=")
    assert console.asked[0].body == {"name": "x", "measure": "age", "threshold": "15m", "email": ""}
    assert vela("alerts change 3").exit_code == 2
    console.answers["PATCH alerts/rules/3"] = problem(422, "InvalidParameters", "threshold: no")
    refused = vela("alerts change 3 --limit many")
    assert (refused.exit_code, "threshold: no" in refused.stderr) == (4, True)


def test_a_rule_is_silenced_and_tested(vela: Vela, console: FakeConsole) -> None:
    console.answers["POST alerts/rules/3/silence"] = RULE
    console.answers["POST alerts/rules/3/test"] = RULE
    vela("alerts silence 3 --for 8h")
    vela("alerts silence 3 --end")
    assert [each.body["for_ms"] for each in console.asked] == [28_800_000, 0]
    assert [vela(f"alerts silence 3{more}").exit_code for more in ("", " --for 1h --end")] == [2, 2]
    assert "on its way to a webhook and ada@example.org" in vela("alerts test 3").stderr


@pytest.mark.parametrize(("typed", "deleted"), [("y\n", True), ("n\n", False)])
def test_a_rule_is_deleted_if_you_agree(typed: str, deleted: bool, vela: Vela, console: FakeConsole) -> None:
    console.answers["GET alerts/rules/3"] = RULE
    console.answers["DELETE alerts/rules/3"] = RULE
    done = vela("alerts delete 3", typed)
    assert (done.exit_code, console.paths("DELETE")) == ((0, ["alerts/rules/3"]) if deleted else (4, []))
    assert "backlog above 10,000 messages" in done.stderr


def test_a_script_must_agree_beforehand(vela: Vela, console: FakeConsole) -> None:
    console.answers["GET alerts/rules/3"] = RULE
    console.answers["DELETE alerts/rules/3"] = RULE
    assert vela("alerts delete 3 --json").exit_code == 2
    no_terminal = vela("alerts delete 3")
    assert (no_terminal.exit_code, "add --yes" in no_terminal.stderr) == (2, True)
    assert console.paths("DELETE") == []
    assert json.loads(vela("alerts delete 3 --json --yes").stdout)["id"] == 3


def test_firing_and_cleared_alerts_are_listed(vela: Vela, console: FakeConsole) -> None:
    broker = ALERT | {"topic_name": "", "subscription_name": ""}
    console.answers["GET alerts/firing"] = {"alerts": [ALERT, broker], "next_after": None}
    _, first, second = vela("alerts firing").stdout.splitlines()
    assert ("12,408 messages" in first, "orders" in first, "the broker" in second) == (True, True, True)
    assert "--limit 0" in vela("alerts firing --limit 1").stderr
    console.answers["GET alerts/history"] = {"alerts": [], "next_after": None}
    assert "no alert has cleared" in vela("alerts history").stderr
    console.answers["GET alerts/history"] = httpx.Response(404, json={})
    assert vela("alerts history").exit_code == 1
