"""Partitioned topics: sums above, a row a partition, and one page for a subscription of all partitions."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from broker.models import (
    Cursor,
    Ledger,
    ProducerSession,
    Subscription,
    SubscriptionState,
    SubscriptionSummary,
    Topic,
    TopicSummary,
)
from tests.integration.console.pages import text_of
from tests.integration.console.shop import Shop, connect, make_topic

DATES = "/t/persistent/public/default/dates"
SLOW = f"{DATES}/s/slow"


@pytest.fixture
def dates(shop: Shop) -> Topic:
    """`dates` with two partitions of 1,000 messages each; `slow` has acked 900 and 400 of them, `new` is on one."""
    parent = make_topic("persistent://public/default/dates")
    parent.partitions = 2
    parent.save()
    for number, acked in ((0, 900), (1, 400)):
        add_partition(parent, number, acked, shop.now_ms)
    return parent


def add_partition(parent: Topic, number: int, acked: int, now_ms: int) -> None:
    """A partition with 1,000 messages, a producer and the subscription `slow`, which has acked some of them."""
    topic = make_topic(f"{parent.name}-partition-{number}", backlog=1000 - acked, rate=2.0, parent=parent)
    topic.partition = number
    topic.save()
    state = SubscriptionState.STUCK if number else SubscriptionState.DRAINING
    TopicSummary.objects.filter(topic=topic).update(messages_in=1000, state=state)
    Ledger.objects.create(
        topic=topic,
        segment=None,
        state="sealed",
        entries=1000,
        messages=1000,
        size_bytes=5000,
        opened_ms=1,
    )
    slow = Subscription.objects.create(topic=topic, name="slow", type="Shared", paused=False)
    Cursor.objects.create(
        subscription=slow,
        mark_delete_ledger=1,
        mark_delete_entry=acked,
        acked_messages=acked,
        acked_entries=acked,
        acked_bytes=acked,
    )
    SubscriptionSummary.objects.create(
        subscription=slow,
        acked_messages=acked,
        acked_bytes=acked,
        read_ledger=1,
        read_entry=acked,
        consumers=1,
        unacked_messages=3,
        replay_entries=0,
        message_rate_out=5.0,
        message_rate_acked=0.0 if number else 5.0,
        messages_redelivered=0,
        updated_ms=now_ms,
        state=state,
    )
    connect(slow, key=10 + number, now_ms=now_ms)
    producer = ProducerSession.objects.get(key=1)
    producer.pk, producer.topic_id = 10 + number, topic.pk
    producer.save(force_insert=True)


def test_a_topic_s_numbers_are_the_sums_of_its_partitions(looker: Client, dates: Topic) -> None:
    words = text_of(looker.get(DATES))
    assert "Largest backlog 700" in words
    assert "In 4.0/s" in words
    assert "Producers 2" in words
    assert "Published in total 2 000" in words


def test_a_topic_lists_each_subscription_once(looker: Client, dates: Topic) -> None:
    page = looker.get(DATES)
    assert "slow ✕ stuck Shared 700 2 2" in text_of(page)
    assert f'href="{SLOW}"' in page.content.decode()


def test_a_row_a_partition_with_its_state(looker: Client, dates: Topic) -> None:
    words = text_of(looker.get(f"{DATES}?tab=partitions"))
    assert "dates-partition-0 ● draining 100 2.0/s 1 000" in words
    assert "dates-partition-1 ✕ stuck 600 2.0/s 1 000" in words


def test_a_subscription_of_all_partitions(operator: Client, looker: Client, dates: Topic) -> None:
    page = looker.get(SLOW)
    words = text_of(page)
    assert "Shared subscription on dates with 2 partitions, 2 consumers." in words
    assert "700 left" in words
    assert "In flight 2" in words
    assert "0 ● draining 100" in words
    assert "1 ✕ stuck 600" in words
    assert f'href="{DATES}-partition-1/s/slow"' in page.content.decode()
    assert "open the partition to plan it" not in words
    assert "open the partition to plan it" in text_of(operator.get(SLOW))


def test_a_subscription_that_no_partition_has_is_not_found(looker: Client, dates: Topic) -> None:
    assert looker.get(f"{DATES}/s/nope").status_code == 404


@pytest.mark.parametrize("address", [DATES, f"{DATES}?tab=partitions", SLOW])
def test_the_cost_does_not_grow_with_the_partitions(
    address: str, looker: Client, dates: Topic, shop: Shop
) -> None:
    with CaptureQueriesContext(connection) as before:
        looker.get(address)
    for number in range(2, 6):
        add_partition(dates, number, 500, shop.now_ms)
    Topic.objects.filter(pk=dates.pk).update(partitions=6)
    with CaptureQueriesContext(connection) as after:
        looker.get(address)
    assert len(after) == len(before)


def test_pages_follow_the_partitions(looker: Client, dates: Topic) -> None:
    ids = sorted(Topic.objects.filter(parent=dates).values_list("pk", flat=True))
    subscriptions = sorted(Subscription.objects.filter(name="slow").values_list("pk", flat=True))
    for address, keys in (
        (DATES, [f"topic:{each}" for each in ids]),
        ("/topics", [f"topic:{each}" for each in ids]),
        (SLOW, [f"sub:{each}" for each in subscriptions]),
    ):
        html = looker.get(address).content.decode()
        for key in keys:
            assert f"sse:{key} delay" in html, (address, key)
