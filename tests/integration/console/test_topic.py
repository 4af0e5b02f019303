"""A topic's page."""

from __future__ import annotations

from django.test import Client

from broker.models import Cursor, Ledger, Subscription, SubscriptionState
from tests.integration.console.pages import text_of
from tests.integration.console.shop import Shop, make_topic

ORDERS = "/t/persistent/public/default/orders"


def test_numbers_and_subscriptions(looker: Client, shop: Shop) -> None:
    words = text_of(looker.get(ORDERS))
    assert f"Published in total {shop.messages}" in words
    assert f"billing ● draining Shared {shop.backlog} 1 1 5.0/s" in words


def test_producers(looker: Client, shop: Shop) -> None:
    words = text_of(looker.get(f"{ORDERS}?tab=producers"))
    assert "till 10.0.0.8:4000 – websocket" in words


def test_ledgers_of_the_open_one_are_read_from_its_last_entry(looker: Client, shop: Shop) -> None:
    words = text_of(looker.get(f"{ORDERS}?tab=ledgers"))
    assert f"{shop.sealed.pk} sealed 10 10 1.0 kB 0" in words
    assert f"{shop.open.pk} open 6 10 1.0 kB 10" in words


def test_a_partitioned_topic_leads_to_its_partitions(looker: Client, db: None) -> None:
    parent = make_topic("persistent://public/default/dates")
    parent.partitions = 2
    parent.save()
    for number in range(2):
        state = SubscriptionState.IDLE if number else None
        make_topic(f"{parent.name}-partition-{number}", backlog=number, parent=parent, state=state)
    page = looker.get("/t/persistent/public/default/dates?tab=partitions")
    assert "dates-partition-0 – 0" in text_of(page)
    assert "dates-partition-1 ○ idle 1" in text_of(page)
    assert 'href="/t/persistent/public/default/dates-partition-1"' in page.content.decode()
    child = looker.get("/t/persistent/public/default/dates-partition-1")
    assert 'href="/t/persistent/public/default/dates"' in child.content.decode()


def test_a_topic_without_anything(looker: Client, db: None) -> None:
    make_topic("persistent://public/default/quiet")
    assert "The broker has not reported on this topic yet" in text_of(
        looker.get("/t/persistent/public/default/quiet")
    )
    assert "Nothing is stored" in text_of(looker.get("/t/persistent/public/default/quiet?tab=ledgers"))


def test_a_topic_of_which_everything_was_trimmed_keeps_its_counts(looker: Client, db: None) -> None:
    topic = make_topic("persistent://public/default/emptied")
    ledger = Ledger.objects.create(
        topic=topic, segment=None, state="sealed", entries_before=5, messages_before=7, opened_ms=1
    )
    billing = Subscription.objects.create(topic=topic, name="billing", type="Shared")
    Cursor.objects.create(
        subscription=billing,
        mark_delete_ledger=ledger.pk,
        mark_delete_entry=4,
        acked_messages=7,
        acked_entries=5,
        acked_bytes=0,
    )
    assert "Published in total 7" in text_of(looker.get("/t/persistent/public/default/emptied"))
    for tab in ("ledgers", "subscriptions"):
        assert looker.get(f"/t/persistent/public/default/emptied?tab={tab}").status_code == 200
    for tab in ("", "cursor", "peek"):
        page = looker.get(f"/t/persistent/public/default/emptied/s/billing?tab={tab}")
        assert page.status_code == 200, tab
