"""Rules of every page: login, content policy, parts with versions, and a cost that does not depend on the data."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from broker.models import Act, PendingAck, Subscription
from console.middleware import POLICY
from tests.integration.console.shop import Shop, make_topics

ORDERS = "/t/persistent/public/default/orders"
BILLING = f"{ORDERS}/s/billing"
# The number of queries of each address. Session, user and group take three queries, and the frame takes one.
PAGES = {
    "/": 4 + 23,
    "/topics": 4 + 5,
    "/topics?sort=backlog&backlog=1&q=ord&ns=public/default": 4 + 6,
    ORDERS: 4 + 9,
    f"{ORDERS}/past": 4 + 6,
    f"{BILLING}/past": 4 + 7,
    "/topics?sub=billing": 4 + 6,
    f"{ORDERS}?tab=producers": 4 + 7,
    f"{ORDERS}?tab=ledgers": 4 + 6,
    f"{ORDERS}?tab=policies": 4 + 7,
    f"{ORDERS}?tab=compaction": 4 + 7,
    f"{ORDERS}/policies": 4 + 1,
    "/namespaces": 4 + 2,
    "/namespaces/new": 4,
    "/n/public/default": 4 + 5,
    "/n/public/default/policies": 4 + 1,
    f"{ORDERS}?tab=pulls": 4 + 7,
    f"{ORDERS}?tab=insights": 4 + 7,
    BILLING: 4 + 15,
    f"{BILLING}?pending=500": 4 + 15,
    f"{ORDERS}/messages": 4 + 6,
    f"{ORDERS}/messages?start=oldest&sub=billing&key=customer-1": 4 + 10,
    f"{ORDERS}/messages?column=%24.order&column=key": 4 + 6,
    f"{ORDERS}/messages/compare": 4 + 1,
    f"{ORDERS}/messages/follow": 4 + 4,
    f"{ORDERS}/messages/follow?sub=billing&key=customer-1": 4 + 8,
    f"{BILLING}/act/rewind": 4 + 1,
    f"{BILLING}/act/reset": 4 + 1,
    f"{BILLING}/act/skip": 4 + 1,
    f"{BILLING}/act/skip_one?id=1:2": 4 + 1,
    f"{BILLING}/act/clear": 4 + 1,
    "/bookmarks": 4 + 1,
    f"{ORDERS}?tab=bookmarks": 4 + 7,
    f"{ORDERS}/choose/reset?to=bookmark&bookmark=a": 4 + 2,
    "/topics/new": 4 + 1,
    f"{ORDERS}/act/bookmark": 4 + 1,
    f"{ORDERS}/act/delete": 4 + 1,
    "/dlq": 4 + 6,
    "/dlq?sort=name&q=ord": 4 + 6,
    "/dlq/persistent/public/default/orders": 4 + 14,
    f"{BILLING}/act/send_to_dead_letters?id=1:2": 4 + 1,
    f"{BILLING}/act/redrive": 4 + 1,
    f"{ORDERS}/act/publish": 4 + 1,
    "/acts": 4 + 2,
    "/consumers": 4 + 2,
    "/consumers?sort=oldest&flag=silent&topic=ord&sub=bill": 4 + 2,
    "/producers": 4 + 2,
    f"{BILLING}?consumer=1": 4 + 16,
    f"{BILLING}/act/disconnect?consumer=clerk&consumer_key=1": 4 + 1,
    "/alerts": 4 + 3,
    "/alerts/new": 4,
    "/pipeline": 4 + 3,
    "/pipeline/jobs/export?topic=orders": 4,
    "/views": 4 + 1,
    "/account": 4 + 1,
}


# Pages whose parts refresh by themselves.
WITH_PARTS = [
    "/topics",
    "/alerts",
    "/namespaces",
    "/n/public/default",
    "/dlq",
    f"/dlq{ORDERS.removeprefix('/t')}",
    ORDERS,
    f"{ORDERS}/messages",
    f"{ORDERS}/messages/follow",
    BILLING,
    "/acts",
    "/consumers",
    "/producers",
    "/pipeline",
]


def fill(shop: Shop) -> None:
    """Add thirty more of everything that pages list."""
    topics = make_topics({f"persistent://public/default/orders-{each:02}": each for each in range(30)})
    Subscription.objects.bulk_create(
        [
            *(Subscription(topic=topic, name="billing", type="Shared") for topic in topics),
            *(Subscription(topic=shop.topic, name=f"more-{each}", type="Shared") for each in range(30)),
        ]
    )
    PendingAck.objects.bulk_create(
        PendingAck(
            delivery_id=100 + number,
            owner_epoch=1,
            topic_id=shop.topic.pk,
            subscription_id=shop.billing.pk,
            consumer_key=1,
            consumer_name="clerk",
            ledger_id=shop.open.pk,
            first_entry=0,
            last_entry=0,
            messages=1,
            delivered_ms=shop.now_ms,
            redelivery_count=0,
        )
        for number in range(30)
    )
    Act.objects.bulk_create(
        Act(
            kind="clear",
            state="applied",
            topic=shop.topic,
            subscription=shop.billing,
            topic_name=shop.topic.name,
            subscription_name="billing",
            who="ada",
            origin="console",
            requested_at="2026-01-01T00:00:00Z",
        )
        for _ in range(30)
    )


@pytest.mark.parametrize("address", PAGES)
def test_a_visitor_without_a_login_is_sent_to_log_in(address: str, anonymous: Client, shop: Shop) -> None:
    response = anonymous.get(address)
    assert response.status_code == 302
    assert response["Location"].startswith("/login?next=")


@pytest.mark.parametrize("address", PAGES)
def test_every_page_has_a_strict_content_policy(address: str, admin: Client, shop: Shop) -> None:
    response = admin.get(address)
    assert response.status_code == 200
    assert response["Content-Security-Policy"] == POLICY
    assert "unsafe" not in POLICY
    html = response.content.decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:|hx-on", html)


@pytest.mark.parametrize("address", PAGES)
def test_a_page_costs_as_many_queries_when_there_are_more_rows(
    address: str, admin: Client, shop: Shop, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(PAGES[address]):
        admin.get(address)
    fill(shop)
    with django_assert_num_queries(PAGES[address]):
        admin.get(address)


@pytest.mark.parametrize("address", WITH_PARTS)
def test_every_part_has_an_address_and_a_version(address: str, operator: Client, shop: Shop) -> None:
    html = operator.get(address).content.decode()
    parts = re.findall(r'id="part-(\w+)".*?data-etag="([^"]*)".*?hx-get="([^"]*)"', html, re.DOTALL)
    assert parts
    for name, etag, part_address in parts:
        alone = operator.get(part_address.replace("&amp;", "&"))
        assert alone.status_code == 200, name
        assert "<html" not in alone.content.decode()
        assert alone["ETag"] == etag.replace("&quot;", '"')
        assert {"Cookie", "HX-Request"} <= {word.strip() for word in alone["Vary"].split(",")}
        again = operator.get(part_address.replace("&amp;", "&"), headers={"if-none-match": alone["ETag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_the_version_changes_with_the_numbers_and_with_the_role(
    operator: Client, looker: Client, shop: Shop
) -> None:
    address = f"{BILLING}?part=numbers"
    before = operator.get(address)["ETag"]
    assert looker.get(address)["ETag"] != before
    shop.billing.cursor.acked_messages = 9
    shop.billing.cursor.save()
    assert operator.get(address, headers={"if-none-match": before}).status_code == 200


def test_one_request_reads_the_parts_that_have_changed(operator: Client, shop: Shop) -> None:
    html = operator.get(BILLING).content.decode()
    etags = dict(re.findall(r'id="part-(\w+)".*?data-etag="([^"]*)"', html, re.DOTALL))
    known = {"if-none-match": ", ".join(etag.replace("&quot;", '"') for etag in etags.values())}
    address = f"{BILLING}?part=numbers&part=consumers&part=acts"
    quiet = operator.get(address, headers=known)
    assert (quiet.status_code, quiet.content) == (304, b"")
    shop.billing.cursor.acked_messages = 9
    shop.billing.cursor.save()
    changed = operator.get(address, headers=known).content.decode()
    ((name, etag),) = re.findall(r'id="part-(\w+)"\s+data-etag="([^"]*)"\s+hx-swap-oob="innerHTML"', changed)
    assert (name, etag == etags["numbers"]) == ("numbers", False)
    assert len(re.findall(r'id="part-(\w+)"', operator.get(address).content.decode())) == 3


@pytest.mark.parametrize("query", ["part=nonsense", "part=numbers&part=nonsense"])
def test_an_unknown_part_is_not_found(query: str, operator: Client, shop: Shop) -> None:
    assert operator.get(f"{BILLING}?{query}").status_code == 404


@pytest.mark.parametrize(
    "address", [f"{ORDERS}-not", f"{ORDERS}/s/nope", f"{BILLING}/act/explode", "/acts/9"]
)
def test_a_missing_page_is_404(address: str, operator: Client, shop: Shop) -> None:
    assert operator.get(address).status_code == 404


@pytest.mark.parametrize("address", WITH_PARTS)
def test_pages_refuse_post_requests(address: str, operator: Client, shop: Shop) -> None:
    assert operator.post(address).status_code == 405


@pytest.mark.parametrize(
    ("address", "page"),
    [
        ("/acts/9/apply", "/acts/9"),
        ("/acts/9/undo?part=state", "/acts/9?part=state"),
        ("/n/public/default/delete?part=topics&part=numbers", "/n/public/default?part=topics&part=numbers"),
        ("/views/1/rename", "/views"),
        ("/pipeline/schedules/1/delete", "/pipeline"),
        ("/users/u/ada/password", "/users/u/ada"),
        ("/tokens/revoke", "/tokens"),
    ],
)
def test_an_address_for_a_form_leads_a_browser_to_the_page_with_the_form(
    address: str, page: str, operator: Client
) -> None:
    """A browser may open such an address after a login, and the page that answers the form loads its blocks there."""
    assert operator.get(address)["Location"] == page
    assert operator.put(address).status_code == 405


def test_without_a_broker_the_frame_says_so(looker: Client, db: None) -> None:
    assert "No broker has run on this database yet" in looker.get("/topics").content.decode()
