"""A topic's page: its numbers, subscriptions, producers, ledgers and compaction."""

from __future__ import annotations

import re
from typing import Any

from django.test import Client
from django.utils.timezone import now

from broker.models import Compaction, Cursor, Ledger, ParkedPulls, Subscription, SubscriptionState, Topic
from console.blocks import KEYS_PER_STREAM
from tests.integration.console.pages import text_of
from tests.integration.console.shop import Shop, make_topic, make_topics

ORDERS = "/t/persistent/public/default/orders"


def test_the_page_shows_totals_and_a_row_for_each_subscription(looker: Client, shop: Shop) -> None:
    words = text_of(looker.get(ORDERS))
    assert f"Published in total {shop.messages}" in words
    assert f"billing ● draining Shared {shop.backlog} – 1 1 5.0/s" in words


def test_the_page_says_whose_backlog_has_reached_the_quota(looker: Client, shop: Shop) -> None:
    reached = (
        "The backlog of billing has reached the backlog quota: producers are stopped until it has drained."
    )
    assert reached not in text_of(looker.get(ORDERS))
    Topic.objects.filter(pk=shop.topic.pk).update(policies={"backlog_quota_bytes": 1})
    assert reached in text_of(looker.get(ORDERS))
    Topic.objects.filter(pk=shop.topic.pk).update(policies={"backlog_quota_bytes": 10**12})
    assert reached not in text_of(looker.get(ORDERS))
    Topic.objects.filter(pk=shop.topic.pk).update(policies={"backlog_quota_ms": 1})
    assert reached in text_of(looker.get(ORDERS))
    Topic.objects.filter(pk=shop.topic.pk).update(policies={"backlog_quota_ms": 10**15})
    assert reached not in text_of(looker.get(ORDERS))


def test_the_page_lists_producers_with_their_rates_and_ids(looker: Client, shop: Shop) -> None:
    words = text_of(looker.get(f"{ORDERS}?tab=producers"))
    assert "till 10.0.0.8:4000 0/s 0 B/s 20 99 – " in words
    assert "– websocket, connected" in words


def test_the_open_ledger_is_counted_from_its_last_entry(looker: Client, shop: Shop) -> None:
    words = text_of(looker.get(f"{ORDERS}?tab=ledgers"))
    assert f"{shop.sealed.pk} sealed 10 10 1.0 kB 0" in words
    assert f"{shop.open.pk} open 6 10 1.0 kB 10" in words


def compacted(topic: Topic, **changes: Any) -> None:
    """Record that the topic is compacted up to some position."""
    given: dict[str, Any] = {
        "state": "SUCCESS", "horizon_ledger": 3, "horizon_entry": 7, "horizon_messages": 12, "horizon_bytes": 1200,
        "generation": 1, "attempt": 1, "kept_messages": 5, "kept_bytes": 2_000, "removed_messages": 7,
        "started_at": now(), "succeeded_at": now(),
    }  # fmt: skip
    Compaction.objects.create(topic=topic, **(given | changes))


def test_a_topic_that_was_never_compacted_says_so(looker: Client, shop: Shop) -> None:
    assert "orders ○ not run – – –" in text_of(looker.get(f"{ORDERS}?tab=compaction"))


def test_compaction_shows_what_stays_and_what_is_not_compacted_yet(looker: Client, shop: Shop) -> None:
    compacted(shop.topic)
    words = text_of(looker.get(f"{ORDERS}?tab=compaction"))
    assert f"succeeded 5 2.0 kB 7 {shop.messages - 12}" in words
    assert "3:7" in words


def test_only_operators_get_a_link_that_deletes_a_compaction(
    looker: Client, operator: Client, shop: Shop
) -> None:
    compacted(shop.topic)
    link = f"{ORDERS}/act/delete-compaction"
    assert link in operator.get(f"{ORDERS}?tab=compaction").content.decode()
    assert link not in looker.get(f"{ORDERS}?tab=compaction").content.decode()


def test_a_list_of_subscriptions_that_is_cut_says_so(looker: Client, shop: Shop) -> None:
    said = "At most 500 subscriptions are listed here, by name."
    assert said not in text_of(looker.get(ORDERS))
    Subscription.objects.bulk_create(
        Subscription(topic=shop.topic, name=f"s{number}", type="Shared") for number in range(500)
    )
    Cursor.objects.bulk_create(
        Cursor(
            subscription=each,
            mark_delete_ledger=shop.open.pk,
            mark_delete_entry=-1,
            acked_messages=0,
            acked_entries=0,
            acked_bytes=0,
        )
        for each in Subscription.objects.exclude(pk=shop.billing.pk)
    )
    assert said in text_of(looker.get(ORDERS))


def test_a_compaction_that_failed_says_why(looker: Client, shop: Shop) -> None:
    compacted(shop.topic, state="ERROR", last_error="too many keys & more")
    assert "failed too many keys &amp; more" in text_of(looker.get(f"{ORDERS}?tab=compaction"))


def test_each_partition_has_its_own_compaction(operator: Client, db: None) -> None:
    parent = make_topic("persistent://public/default/dates")
    parent.partitions = 2
    parent.save()
    partitions = [make_topic(f"{parent.name}-partition-{number}", parent=parent) for number in range(2)]
    compacted(partitions[1], state="RUNNING", generation=0)
    words = text_of(operator.get("/t/persistent/public/default/dates?tab=compaction"))
    assert "dates-partition-0 ○ not run" in words
    assert "dates ○" not in words
    assert "dates-partition-1 Delete" in words
    assert "running" in words


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


def test_a_page_of_more_partitions_than_a_stream_follows_is_read_regularly(looker: Client, db: None) -> None:
    parent = make_topic("persistent://public/default/dates")
    parent.partitions = KEYS_PER_STREAM + 1
    parent.save()
    dates = {f"{parent.name}-partition-{number}": 0 for number in range(parent.partitions)}
    make_topics(dates, parent=parent)
    for address in ("/t/persistent/public/default/dates", "/topics"):
        html = looker.get(address).content.decode()
        blocks = re.findall(r'hx-trigger="(sse:[^"]*)"', html)
        assert blocks
        assert all(", every 10s, refresh" in block for block in blocks), address
        followed = set(stream_of(html).split()) - {"key=acts"}
        assert len(followed) <= KEYS_PER_STREAM
        assert followed == {f"key={key}" for key in re.findall(r"sse:(topic:\d+)", blocks[0])}
    beyond = list(dates)[KEYS_PER_STREAM - 1 :]  # the page also follows the acts
    Topic.objects.filter(name__in=beyond).delete()
    assert "every 10s" not in looker.get("/t/persistent/public/default/dates").content.decode()


def stream_of(html: str) -> str:
    """Return what the page's stream follows, with spaces in between."""
    address = re.search(r'sse-connect="/live\?([^"]*)"', html)
    assert address is not None
    return address[1].replace("&amp;", " ")


def test_the_page_notices_that_an_act_deletes_its_topic(looker: Client, shop: Shop) -> None:
    html = looker.get(ORDERS).content.decode()
    assert "key=acts" in stream_of(html).split()
    assert re.search(r'id="part-numbers"[^>]*hx-trigger="[^"]*sse:acts ', html)


def test_a_topic_without_a_report_and_without_messages_says_so(looker: Client, db: None) -> None:
    make_topic("persistent://public/default/quiet")
    assert "The broker has not reported on this topic yet" in text_of(
        looker.get("/t/persistent/public/default/quiet")
    )
    assert "Nothing is stored" in text_of(looker.get("/t/persistent/public/default/quiet?tab=ledgers"))


def test_a_topic_whose_messages_were_all_trimmed_keeps_its_counts(looker: Client, db: None) -> None:
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


def test_pulls_that_wait_are_listed_by_queue(looker: Client, shop: Shop) -> None:
    assert "No pull waits for a message" in text_of(looker.get(f"{ORDERS}?tab=pulls"))
    parked = {
        "offset": 12_408,
        "parked_ms": shop.now_ms - 7000,
        "due_ms": shop.now_ms + 8000,
        "is_filtered": True,
    }
    ParkedPulls.objects.create(
        topic_id=shop.topic.pk,
        pulls=51,
        oldest=[{**parked, "address": "10.0.0.9:5000"}],
        updated_ms=shop.now_ms,
    )
    words = text_of(looker.get(f"{ORDERS}?tab=pulls"))
    assert "Queue 0: 51 pulls" in words
    assert re.search(r"12 408 \d+ s ago", words)
    assert "10.0.0.9:5000 messages that match" in words
    assert "The list shows the first 1 that were parked" in words
