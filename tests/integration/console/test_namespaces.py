"""Pages of namespaces and policies: values in words with their origin, and a form with errors beside its fields."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from django.test import Client

from broker.acts import requests as acts
from broker.models import Namespace, Tenant, TopicSummary
from tests.integration.console.fake_acts import FakeActs
from tests.integration.console.pages import text_of
from tests.integration.console.shop import ORDERS, Shop, make_topic

HERE = "/n/public/default"
TOPIC = "/t/persistent/public/default/orders"


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, shop: Shop) -> FakeActs:
    """A broker that answers at once."""
    fake = FakeActs()
    for name in ("plan", "apply", "plan_undo", "get"):
        monkeypatch.setattr(acts, name, getattr(fake, name))
    return fake


def set_policies(shop: Shop, **document: object) -> None:
    """Store a namespace's document."""
    Namespace.objects.filter(pk=shop.topic.namespace_id).update(policies=document)


def test_the_list_has_sums_and_says_what_is_protected(looker: Client, shop: Shop) -> None:
    set_policies(shop, protected=True)
    make_topic("persistent://shop/eu/dates", backlog=1234, rate=5.0)
    make_topic("persistent://shop/eu/bills", backlog=6, rate=2.5)
    TopicSummary.objects.filter(topic=shop.topic).update(subscriptions=1200)
    words = text_of(looker.get("/namespaces"))
    assert "public/ default protected 1 1 200 14 3.0/s 1.0 kB" in words
    assert "shop/ eu 2 0 1 240 7.5/s 2.0 kB" in words
    assert "No namespace matches" in text_of(looker.get("/namespaces?q=nothing"))
    assert "public/" not in text_of(looker.get("/namespaces?q=SHOP"))


def test_the_list_goes_through_pages(looker: Client, shop: Shop) -> None:
    tenant = Tenant.objects.create(name="many")
    Namespace.objects.bulk_create(Namespace(tenant=tenant, name=f"n{each:02}") for each in range(60))
    first = looker.get("/namespaces").content.decode()
    following = re.search(r'href="\?([^"]*)"\s+rel="next"', first)
    assert following
    second = text_of(looker.get(f"/namespaces?{following[1].replace('&amp;', '&')}"))
    assert ("many/ n50" in second, "many/ n49" in second, "public/ default" in second) == (True, False, True)


def test_policies_are_shown_in_words_with_their_origin(looker: Client, shop: Shop) -> None:
    set_policies(shop, retention_ms=604_800_000, retention_bytes=20_000_000_000)
    shop.topic.policies = {"message_ttl_ms": 5_400_000}
    shop.topic.save()
    of_namespace = text_of(looker.get(HERE))
    kept = "Messages that every subscription has acked are kept 7 days or 20 GB, whichever is less."
    assert kept in of_namespace
    assert "Messages that are not acked never expire." in of_namespace
    assert re.search(r"retention_ms how long to keep .*? 7 days set on this namespace", of_namespace)
    assert re.search(r"message_ttl_ms .*? never broker default", of_namespace)
    assert re.search(r"ledger_max_entries .*? 50 000 broker default", of_namespace)
    of_topic = text_of(looker.get(f"{TOPIC}?tab=policies"))
    assert kept in of_topic
    assert "Messages that are not acked within 1 hour 30 minutes expire and are not delivered." in of_topic
    assert re.search(r"message_ttl_ms .*? 1 hour 30 minutes set on this topic", of_topic)
    assert re.search(r"retention_ms .*? 7 days set on its namespace", of_topic)
    assert "Set policies" not in of_topic


def test_a_partition_shows_the_policies_of_its_topic(admin: Client, shop: Shop) -> None:
    make_topic(f"{ORDERS}-partition-0", parent=shop.topic)
    shop.topic.policies = {"max_consumers": 7}
    shop.topic.save()
    page = admin.get(f"{TOPIC}-partition-0?tab=policies")
    assert "A partition has the policies of its topic, orders" in text_of(page)
    assert f'href="{TOPIC}/policies"' in page.content.decode()
    moved = admin.get(f"{TOPIC}-partition-0/policies")
    assert (moved.status_code, moved["Location"]) == (302, f"{TOPIC}/policies")


@pytest.mark.parametrize(
    ("address", "kind", "subject"),
    [(HERE, "set_namespace_policies", "public/default"), (TOPIC, "set_topic_policies", ORDERS)],
)
def test_the_form_plans_what_differs_from_what_is_set(
    address: str, kind: str, subject: str, admin: Client, broker: FakeActs, shop: Shop
) -> None:
    set_policies(shop, retention_ms=604_800_000, max_consumers=3)
    shop.topic.policies = {"retention_ms": 604_800_000, "max_consumers": 3}
    shop.topic.save()
    form = admin.get(f"{address}/policies").content.decode()
    assert re.search(r'name="retention_ms"[^>]*value="7 days"', form)
    assert re.search(r'name="message_ttl_ms"[^>]*value=""\s+placeholder="not set: never"', form)
    version = re.search(r'name="version" value="(\w+)"', form)
    assert version
    filled = {
        "version": version[1],
        "retention_ms": "168h",
        "retention_bytes": "10GB",
        "max_consumers": "",
        "deduplication": "true",
        "message_ttl_ms": "",
    }
    planned = admin.post(f"{address}/policies", filled)
    assert (planned.status_code, planned["Location"]) == (302, "/acts/1")
    changes = {"set": {"retention_bytes": "10GB", "deduplication": "true"}, "unset": "max_consumers"}
    assert broker.asked == [("plan", (kind, subject, "", changes, "anna", "console 127.0.0.1"))]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        (
            "retention_ms",
            "soon",
            "&#x27;soon&#x27; is not a value of this policy: it takes a length of time such as 90s",
        ),
        ("retention_ms", "-2", "milliseconds from -1 to"),
        ("retention_bytes", "10G", "a size such as 512MiB or 10GB"),
        ("max_consumers", "1h", "it takes a whole number from 0"),
        ("deduplication", "perhaps", "Choose one of true, false."),
        ("backlog_quota_policy", "drop", "Choose one of producer_request_hold"),
        ("message_ttl_ms", "9" * 300, "at most 100 characters"),
    ],
)
def test_a_bad_value_has_its_message_beside_it(
    name: str, value: str, says: str, admin: Client, broker: FakeActs
) -> None:
    answer = admin.post(f"{HERE}/policies", {name: value, "max_producers": "5"})
    html = answer.content.decode()
    assert (answer.status_code, broker.asked) == (422, [])
    beside = re.search(rf'id="{name}-error"[^>]*>([^<]*)<', html)
    assert beside
    assert says in beside[1]
    assert len(re.findall(r'id="\w+-error"', html)) == 1
    assert re.search(r'name="max_producers"[^>]*value="5"', html), "the other values stay filled in"


def test_a_form_that_changes_nothing_or_is_out_of_date_is_refused(
    admin: Client, broker: FakeActs, shop: Shop
) -> None:
    set_policies(shop, retention_ms=604_800_000)
    same = admin.post(f"{HERE}/policies", {"retention_ms": "7d"})
    assert (same.status_code, "Nothing changes" in text_of(same)) == (422, True)
    old = admin.post(f"{HERE}/policies", {"retention_ms": "1d", "version": "of another document"})
    assert (old.status_code, "Somebody changed these policies" in text_of(old)) == (422, True)
    assert broker.asked == []


def test_a_link_fills_the_form_in(admin: Client, shop: Shop) -> None:
    form = admin.get(f"{HERE}/policies?message_ttl_ms=1h&protected=true").content.decode()
    assert re.search(r'name="message_ttl_ms"[^>]*value="1h"', form)
    assert re.search(r'name="protected".*?<option value="true"\s+selected>', form, re.DOTALL)


def test_a_namespace_is_created_by_a_form(admin: Client, broker: FakeActs) -> None:
    assert "as tenant/namespace" in text_of(admin.get("/namespaces/new"))
    for name, says in (
        ("", "Give the name"),
        ("shop", "write it as tenant/namespace"),
        ("a/b c", "may have"),
    ):
        wrong = admin.post("/namespaces/new", {"name": name})
        assert (wrong.status_code, says in text_of(wrong)) == (422, True)
    assert broker.asked == []
    planned = admin.post("/namespaces/new", {"name": "shop/eu"})
    assert planned.status_code == 302
    assert broker.asked == [("plan", ("create_namespace", "shop/eu", "", {}, "anna", "console 127.0.0.1"))]


def test_only_an_empty_namespace_can_be_deleted(admin: Client, broker: FakeActs, shop: Shop) -> None:
    assert "short topic names belong to it" in text_of(admin.get(HERE))
    topic = make_topic("persistent://shop/eu/dates")
    full = admin.get("/n/shop/eu")
    assert "You can delete this namespace once its 1 topic is deleted" in text_of(full)
    assert re.search(r'type="submit"\s+disabled>Preview', full.content.decode())
    topic.delete()
    assert "The namespace has no topics" in text_of(admin.get("/n/shop/eu"))
    planned = admin.post("/n/shop/eu/delete")
    assert (planned.status_code, planned["Location"]) == (302, "/acts/1")
    assert broker.asked[0][1][:2] == ("delete_namespace", "shop/eu")


def test_a_refusal_is_shown(admin: Client, broker: FakeActs) -> None:
    broker.refusal = "there is no namespace public/default"
    for address, filled in (
        (f"{HERE}/policies", {"max_consumers": "1"}),
        (f"{TOPIC}/policies", {"max_consumers": "1"}),
        ("/namespaces/new", {"name": "a/b"}),
        (f"{HERE}/delete", {}),
    ):
        answer = admin.post(address, filled)
        assert (answer.status_code, broker.refusal in text_of(answer).lower()) == (409, True), address


@pytest.mark.parametrize(
    "address", [f"{HERE}/policies", f"{TOPIC}/policies", "/namespaces/new", f"{HERE}/delete"]
)
def test_a_viewer_changes_nothing(address: str, looker: Client, anonymous: Client, broker: FakeActs) -> None:
    assert looker.post(address, {"max_consumers": "1", "name": "a/b"}).status_code == 403
    assert anonymous.post(address, {"max_consumers": "1", "name": "a/b"}).status_code == 302
    assert broker.asked == []


@pytest.mark.parametrize("address", [f"{HERE}/policies", "/namespaces/new", f"{HERE}/delete"])
def test_only_admins_change_create_and_delete_namespaces(
    address: str, operator: Client, broker: FakeActs
) -> None:
    assert operator.post(address, {"max_consumers": "1", "name": "a/b"}).status_code == 403
    assert operator.post(f"{TOPIC}/policies", {"max_consumers": "1"}).status_code == 302
    offered = operator.get(HERE).content.decode() + operator.get("/namespaces").content.decode()
    assert address not in offered


@pytest.mark.parametrize("address", ["/n/no/such", "/n/no/such/policies", f"{TOPIC}-not/policies"])
def test_a_page_of_something_that_does_not_exist_is_404(address: str, admin: Client, shop: Shop) -> None:
    assert admin.get(address).status_code == 404


def test_a_protected_namespace_wants_a_reason(admin: Client, shop: Shop, broker: FakeActs) -> None:
    admin.post(f"{TOPIC}/policies", {"max_consumers": "1"})
    broker.acts[1] = replace(broker.acts[1], needs_reason=True)
    page = admin.get("/acts/1").content.decode()
    assert "this namespace is protected" in page
    assert re.search(r'name="reason"[^>]*required', page)
    for reason in ("", "   "):
        refused = admin.post("/acts/1/apply", {"reason": reason})
        assert (refused.status_code, "Give a reason: this namespace is protected." in text_of(refused)) == (
            422,
            True,
        )
    assert len(broker.asked) == 1
    assert admin.post("/acts/1/apply", {"reason": "a drill"}).status_code == 302
