"""Acts on topics from the pages: the menu, the forms, and wrong input, which changes nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from broker.acts import requests as acts
from broker.models import Topic
from tests.integration.console.fake_acts import FakeActs
from tests.integration.console.pages import text_of
from tests.integration.console.shop import ORDERS, Shop, make_topic
from tests.support.plans import a_plan

PAGE = "/t/persistent/public/default/orders"
NOTHING_LOST = {"words": ["it is done"], "replayed_messages": 0, "skipped_messages": 0, "notes": []}


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, shop: Shop) -> FakeActs:
    """A broker that answers at once."""
    fake = FakeActs(next_plan=dict(NOTHING_LOST))
    for name in ("plan", "apply", "plan_undo", "get"):
        monkeypatch.setattr(acts, name, getattr(fake, name))
    return fake


@pytest.mark.parametrize(
    ("name", "filled", "kind", "parameters"),
    [
        ("unload", {}, "unload", {}),
        ("compact", {}, "compact", {}),
        ("delete-compaction", {}, "delete_compaction", {}),
        ("truncate", {}, "truncate", {}),
        ("terminate", {}, "terminate", {}),
        ("delete", {"force": "on"}, "delete_topic", {"force": True, "subscriptions": False}),
        ("delete-bookmark", {"name": " a"}, "delete_bookmark", {"name": " a"}),
        (
            "subscription",
            {"name": "audit", "type": "Failover", "to": "earliest"},
            "create_subscription",
            {"name": "audit", "type": "Failover", "to": "earliest"},
        ),
        (
            "subscription",
            {"name": "audit", "type": "Shared", "to": "bookmark", "bookmark": "before the fix"},
            "create_subscription",
            {"name": "audit", "type": "Shared", "to": "bookmark", "bookmark": "before the fix"},
        ),
        (
            "bookmark",
            {"name": "fix", "keep_days": "2", "to": "id", "id": "1:4", "start": "after"},
            "create_bookmark",
            {"name": "fix", "keep_ms": 172_800_000, "to": "id", "id": "1:4", "inclusive": False},
        ),
    ],
)
def test_each_form_asks_for_its_act(
    name: str,
    filled: dict[str, str],
    kind: str,
    parameters: dict[str, Any],
    admin: Client,
    broker: FakeActs,
) -> None:
    assert admin.get(f"{PAGE}/act/{name}").status_code == 200
    answer = admin.post(f"{PAGE}/act/{name}", filled)
    assert (answer.status_code, answer["Location"]) == (302, "/acts/1")
    (asked,) = broker.asked
    assert asked == ("plan", (kind, ORDERS, "", parameters, "anna", "console 127.0.0.1"))


@pytest.mark.parametrize(
    ("name", "filled", "words"),
    [
        ("subscription", {"type": "Shared", "to": "latest"}, "Give it a name."),
        ("subscription", {"name": "a", "type": "Shared"}, "Choose a place."),
        ("subscription", {"name": "a", "type": "Shared", "to": "time"}, "Give the time."),
        ("subscription", {"name": "a", "type": "Shared", "to": "bookmark"}, "Give the name of a bookmark"),
        ("subscription", {"name": "a", "type": "Other", "to": "latest"}, "Other is not one of"),
        ("bookmark", {"name": "a", "keep_days": "-1", "to": "latest"}, "0 or more days."),
        ("bookmark", {"name": "a", "keep_days": "x", "to": "latest"}, "Give a whole number of days."),
        (
            "bookmark",
            {"name": "a", "keep_days": "1", "to": "bookmark", "bookmark": "b"},
            "that is not a bookmark.",
        ),
        ("delete-bookmark", {}, "Name the bookmark to delete."),
    ],
)
def test_wrong_input_has_its_error_beside_its_field(
    name: str, filled: dict[str, str], words: str, operator: Client, broker: FakeActs
) -> None:
    answer = operator.post(f"{PAGE}/act/{name}", filled)
    assert answer.status_code == 422
    assert words in text_of(answer)
    assert 'class="error"' in answer.content.decode()
    assert broker.asked == []


def test_a_refused_deletion_names_the_switch_of_its_form(admin: Client, broker: FakeActs) -> None:
    admin.post(f"{PAGE}/act/delete", {})
    broker.acts[1] = replace(
        broker.acts[1],
        state="refused",
        error="orders has 1 subscription: remove them, or set subscriptions to true",
    )
    page = admin.get("/acts/1")
    assert f'href="{PAGE}/act/delete">Change the request' in page.content.decode()
    assert "remove them, or choose “Delete its subscriptions too”." in text_of(page)
    Topic.objects.filter(name=ORDERS).update(name=f"{ORDERS}-2")
    assert "Change the request" not in text_of(admin.get("/acts/1"))


def test_a_topic_is_created_with_its_first_policies(operator: Client, broker: FakeActs) -> None:
    assert "Create topic" in text_of(operator.get("/topics"))
    assert (
        'value="public/default" selected'
        in operator.get("/topics/new?namespace=public/default").content.decode()
    )
    filled = {
        "namespace": "public/default",
        "name": "invoices",
        "partitions": "4",
        "policies": "message_ttl_ms = 60000\n\nretention_ms=0",
    }
    page = operator.post("/topics/new", filled, follow=True)
    (asked,) = broker.asked
    parameters = {
        "name": "invoices",
        "partitions": 4,
        "policies": {"message_ttl_ms": "60000", "retention_ms": "0"},
    }
    assert asked[1][:4] == ("create_topic", "public/default", "", parameters)
    assert "Create topic invoices" in text_of(page)
    done = operator.post("/acts/1/apply", {}, follow=True)
    assert 'href="/t/persistent/public/default/invoices">Back to invoices' in done.content.decode()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": ""}, "Give the topic a name."),
        ({"name": "a/b"}, "A name has no slash"),
        ({"namespace": "public/nowhere"}, "Choose one of the namespaces."),
        ({"namespace": ""}, "Choose a namespace."),
        ({"partitions": "-1"}, "0 or more."),
        ({"partitions": "10001"}, "At most 10,000 partitions."),
        ({"partitions": "some"}, "Give a whole number."),
        ({"policies": "message_ttl_ms"}, "Write “message_ttl_ms” as name = value."),
        ({"policies": "a=1\na=2"}, "a is given twice."),
    ],
)
def test_the_form_of_a_topic_that_cannot_be_created_says_why(
    changes: dict[str, str], words: str, operator: Client, broker: FakeActs
) -> None:
    filled = {"namespace": "public/default", "name": "invoices", "partitions": "0", **changes}
    answer = operator.post("/topics/new", filled)
    assert answer.status_code == 422
    assert words in text_of(answer)
    assert broker.asked == []


def test_the_form_shows_the_brokers_refusal_and_keeps_its_values(operator: Client, broker: FakeActs) -> None:
    broker.refusal = "orders already has a subscription audit"
    answer = operator.post(f"{PAGE}/act/subscription", {"name": "audit", "type": "Shared", "to": "latest"})
    assert answer.status_code == 409
    assert "already has a subscription audit." in text_of(answer)
    assert 'value="audit"' in answer.content.decode()


@pytest.mark.parametrize("name", ["terminate", "truncate", "delete"])
def test_an_end_needs_the_typed_name_even_if_no_message_is_lost(
    name: str, admin: Client, broker: FakeActs
) -> None:
    page = admin.post(f"{PAGE}/act/{name}", {}, follow=True)
    assert "Type orders to confirm nobody can undo this" in text_of(page)
    for typed in ({}, {"confirm": "order"}):
        assert admin.post("/acts/1/apply", typed).status_code == 422
    assert [what for what, _ in broker.asked] == ["plan"]
    done = admin.post("/acts/1/apply", {"confirm": "orders"}, follow=True)
    back = "/topics" if name == "delete" else PAGE
    assert f'href="{back}">Back to' in done.content.decode()


def test_a_refused_act_leads_back_to_its_form(admin: Client, looker: Client, broker: FakeActs) -> None:
    admin.post(f"{PAGE}/act/delete", {})
    link = f'href="{PAGE}/act/delete"'
    assert link not in admin.get("/acts/1").content.decode()
    broker.acts[1] = replace(broker.acts[1], state="refused", plan=None, error="it has 2 subscriptions")
    assert link in admin.get("/acts/1").content.decode()
    assert link not in looker.get("/acts/1").content.decode()


def test_a_subscription_is_deleted_with_its_name(operator: Client, broker: FakeActs) -> None:
    page = operator.post(f"{PAGE}/s/billing/act/delete", {"force": "on"}, follow=True)
    assert broker.asked[0][1][:4] == ("delete_subscription", ORDERS, "billing", {"force": True})
    assert "Type billing to confirm" in text_of(page)
    assert operator.post("/acts/1/apply", {}).status_code == 422
    done = operator.post("/acts/1/apply", {"confirm": "billing"}, follow=True)
    assert f'href="{PAGE}">Back to orders' in done.content.decode()


def test_the_menu_says_why_an_act_is_not_possible_and_what_helps(operator: Client, shop: Shop) -> None:
    page = operator.get(PAGE)
    words = text_of(page)
    assert "The topic is not partitioned, and cannot become partitioned. Create a partitioned topic" in words
    assert "/topics/new?namespace=public%2Fdefault&amp;partitions=4" in page.content.decode()
    assert f'href="{PAGE}/act/terminate"' in page.content.decode()
    shop.topic.terminated_at = datetime(2026, 1, 1, tzinfo=UTC)
    shop.topic.save()
    page = operator.get(PAGE)
    assert "The topic is already terminated." in text_of(page)
    assert f'href="{PAGE}/act/terminate"' not in page.content.decode()
    assert "The topic is already terminated." in text_of(operator.get(f"{PAGE}/act/terminate"))


def test_partitions_are_added_to_the_whole_topic(operator: Client, broker: FakeActs) -> None:
    parent = make_topic("persistent://public/default/dates")
    parent.partitions = 2
    parent.save()
    make_topic("persistent://public/default/dates-partition-0", parent=parent)
    part = operator.get("/t/persistent/public/default/dates-partition-0/act/partitions")
    assert "This is a partition. Add partitions to its topic" in text_of(part)
    address = "/t/persistent/public/default/dates/act/partitions"
    for wrong in ("0", "", "two", "10001"):
        assert operator.post(address, {"partitions": wrong}).status_code == 422
    assert broker.asked == []
    assert operator.post(address, {"partitions": "4"}).status_code == 302
    assert broker.asked[0][1][3] == {"partitions": 4}


def test_a_viewer_sees_the_menu_without_links_and_may_not_act(
    looker: Client, anonymous: Client, broker: FakeActs
) -> None:
    page = looker.get(PAGE)
    assert "Your roles let you look but not act here." in text_of(page)
    assert f"{PAGE}/act/" not in page.content.decode()
    assert "Create topic" not in text_of(looker.get("/topics"))
    for address in ("/topics/new", f"{PAGE}/act/delete"):
        for method in ("get", "post"):
            assert getattr(looker, method)(address).status_code == 403
            assert getattr(anonymous, method)(address)["Location"].startswith("/login")
    assert broker.asked == []


def test_forms_of_topics_need_the_token(operator: Client, broker: FakeActs) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = operator.cookies
    for address in ("/topics/new", f"{PAGE}/act/delete"):
        assert strict.post(address).status_code == 403


def test_a_plan_that_skips_messages_still_says_so(operator: Client, broker: FakeActs) -> None:
    broker.next_plan = a_plan(skipped_messages=3)
    page = operator.post(f"{PAGE}/act/truncate", {}, follow=True)
    assert "the skipped messages will never be delivered" in text_of(page)
