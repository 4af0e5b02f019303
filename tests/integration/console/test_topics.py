"""The list of topics, which the server searches, filters, sorts and divides into pages."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from broker.acts import requests as acts
from broker.models import (
    Namespace,
    Subscription,
    SubscriptionState,
    Tenant,
    Topic,
    TopicSummary,
)
from console.access import Role
from console.queries.rights import EVERYTHING
from console.queries.topics.list import ORDERS, PAGE_ROWS, TopicsAsked, in_order, topics
from tests.integration.console.conftest import person
from tests.integration.console.fake_acts import FakeActs
from tests.integration.console.pages import text_of
from tests.integration.console.shop import make_topic

MANY_TOPICS = """
    WITH t AS (
        INSERT INTO vela_topic (name, namespace_id, partitions, partition, properties, policies, created_at)
        SELECT 'persistent://public/default/t' || n, (SELECT max(id) FROM vela_namespace), 0, -1, '{}', '{}', now()
        FROM generate_series(1, 20000) AS n RETURNING id
    )
    INSERT INTO vela_topic_summary (topic_id, messages_in, bytes_in, stored_bytes, producers, message_rate_in,
        byte_rate_in, last_append_ms, max_backlog_messages, updated_ms, state, state_since_ms)
    SELECT id, 0, 0, 0, 0, 0, 0, 0, 0, 0, id % 7 + 1, id / 100 FROM t"""


def shown(response: Any) -> list[str]:
    """Return the names of the listed topics in their order, without the namespace."""
    return [
        name.rpartition("/")[2]
        for name in re.findall(r'href="/t/persistent/([^"]+)"', response.content.decode())
    ]


@pytest.fixture
def market(db: None) -> None:
    """Four topics, one of them partitioned."""
    make_topic("persistent://public/default/apples", backlog=5, rate=1.0, state=SubscriptionState.DRAINING)
    make_topic("persistent://public/default/berries", backlog=0, rate=9.0, state=SubscriptionState.IDLE)
    make_topic("persistent://shop/eu/cherries")
    dates = make_topic("persistent://shop/eu/dates")
    dates.partitions = 2
    dates.save()
    for number in range(2):
        make_topic(
            f"persistent://shop/eu/dates-partition-{number}",
            backlog=4,
            rate=2.0,
            parent=dates,
            state=SubscriptionState.STUCK if number else SubscriptionState.IDLE,
        )


def test_topics_are_found_by_the_name_of_a_subscription(looker: Client, market: None) -> None:
    for name in ("apples", "berries"):
        Subscription.objects.create(
            topic=Topic.objects.get(name=f"persistent://public/default/{name}"), name="billing", type="Shared"
        )
    partition = Topic.objects.get(name__endswith="dates-partition-1")
    Subscription.objects.create(topic=partition, name="billing", type="Shared")
    Subscription.objects.create(topic=partition, name="billing-2", type="Shared")
    found = looker.get("/topics?sub=billing&sort=backlog")
    assert [name for name in shown(found) if "/" not in name and name != "billing"] == [
        "dates",
        "apples",
        "berries",
    ]
    assert 'href="/t/persistent/shop/eu/dates/s/billing"' in found.content.decode()
    assert not shown(looker.get("/topics?sub=bill"))
    listed = looker.get("/api/v1/topics?subscription=billing-2").json()["topics"]
    assert [topic["name"] for topic in listed] == ["persistent://shop/eu/dates"]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["apples", "berries", "cherries", "dates"]),
        ("?sort=nonsense", ["apples", "berries", "cherries", "dates"]),
        ("?sort=backlog", ["dates", "apples", "berries", "cherries"]),
        ("?sort=rate", ["berries", "dates", "apples", "cherries"]),
        ("?sort=worst", ["dates", "apples", "berries", "cherries"]),
        ("?sort=worst&backlog=1", ["dates", "apples"]),
        ("?sort=worst&q=es", ["dates", "apples", "berries", "cherries"]),
        ("?sort=worst&ns=shop/eu", ["dates", "cherries"]),
        ("?state=stuck", ["dates"]),
        ("?state=idle", ["berries"]),
        ("?state=draining&sort=worst", ["apples"]),
        ("?state=draining&sort=rate", ["apples"]),
        ("?state=nonsense", ["apples", "berries", "cherries", "dates"]),
        ("?q=RRIES", ["berries", "cherries"]),
        ("?q=%25", []),
        ("?ns=shop/eu", ["cherries", "dates"]),
        ("?backlog=1", ["apples", "dates"]),
        ("?backlog=1&sort=rate", ["dates", "apples"]),
        ("?backlog=1&sort=last&q=app", ["apples"]),
    ],
)
def test_the_query_chooses_and_orders_the_topics(
    query: str, names: list[str], looker: Client, market: None
) -> None:
    assert shown(looker.get(f"/topics{query}")) == names


def test_unknown_numbers_are_dashes_and_not_0(looker: Client, market: None) -> None:
    row = re.search(
        r"<tr[^>]*>(?:(?!</tr>).)*cherries.*?</tr>", looker.get("/topics").content.decode(), re.DOTALL
    )
    assert row is not None
    assert row[0].count("–") >= 5


def test_partitions_are_summed_into_one_row(looker: Client, market: None) -> None:
    words = text_of(looker.get("/topics?q=dates"))
    assert "dates 2 partitions ✕ stuck 8 – 4.0/s" in words, "the dash: no minutes are rolled up"


def test_the_worst_subscription_is_named(looker: Client, market: None) -> None:
    TopicSummary.objects.filter(topic__name__endswith="apples").update(worst_subscription="slow")
    assert "apples ● draining 5 slow" in text_of(looker.get("/topics?q=apples"))
    TopicSummary.objects.filter(topic__name__endswith="partition-1").update(
        worst_subscription="slower", max_backlog_messages=7
    )
    assert "dates 2 partitions ✕ stuck 11 slower" in text_of(looker.get("/topics?q=dates"))
    assert shown(looker.get("/topics?sort=backlog")) == ["dates", "apples", "berries", "cherries"]


def test_the_worst_come_first_and_of_these_the_oldest(looker: Client, db: None) -> None:
    for name, state, since_ms in (
        ("new", SubscriptionState.STUCK, 9),
        ("old", SubscriptionState.STUCK, 2),
        ("slow", SubscriptionState.FALLING_BEHIND, 1),
        ("none", None, 0),
    ):
        make_topic(f"persistent://public/default/{name}", backlog=1, state=state, state_since_ms=since_ms)
    assert shown(looker.get("/topics?sort=worst")) == ["old", "new", "slow", "none"]


def test_an_order_by_an_index_reads_its_page_only_however_many_topics_there_are(db: None) -> None:
    make_topic("persistent://public/default/first", backlog=0)
    with connection.cursor() as cursor:
        cursor.execute(MANY_TOPICS)
        cursor.execute("ANALYZE vela_listed_topic")
        values: dict[str, Any] = {
            "pattern": "",
            "namespace_id": None,
            "subscription": "",
            "topic_ids": None,
            "only_backlog": False,
            "state": 0,
            "limit": PAGE_ROWS + 1,
            **EVERYTHING.of_topics,
        }
        first = {"after_name": "", "after_value": 0.0, "after_state": 0, "after_since_ms": 0}
        middle = {"after_name": "persistent://public/default/t5", "after_value": 0.0, "after_state": 4}
        for order in ("name", "worst"):
            for place in (first, {**first, **middle}):
                cursor.execute(f"EXPLAIN (ANALYZE, COSTS OFF) {in_order(order)}", values | place)
                plan = "\n".join(line for (line,) in cursor.fetchall())
                scanned = re.search(rf"vela_listed_topic_{order} on vela_listed_topic \w+ .*rows=(\d+)", plan)
                assert scanned is not None, plan
                assert int(scanned[1]) <= PAGE_ROWS + 1, plan
                assert "Rows Removed" not in plan, plan


@pytest.mark.parametrize("order", ORDERS)
def test_pages_follow_each_other_without_gap_or_double(order: str, looker: Client, db: None) -> None:
    names = [f"t{number:03}" for number in range(2 * PAGE_ROWS + 7)]
    for number, name in enumerate(names):
        make_topic(
            f"persistent://public/default/{name}",
            backlog=None if number % 9 == 0 else number % 4,
            rate=number % 3,
            state=None if number % 5 == 0 else SubscriptionState(number % 4 + 1),
            state_since_ms=1000 - number % 7,
        )
    found: list[str] = []
    address: str | None = f"/topics?sort={order}"
    while address is not None:
        response = looker.get(address)
        found += shown(response)
        following = re.search(r'href="(\?[^"]*)"\s+rel="next"', response.content.decode())
        address = f"/topics{following[1].replace('&amp;', '&')}" if following else None
    assert sorted(found) == names


@pytest.mark.parametrize("few", [0, 1000])
@pytest.mark.parametrize("every", [1, 3, 20])
@pytest.mark.parametrize("order", ["name", "backlog"])
def test_pages_with_a_subscription_are_whole_however_many_topics_have_it(
    order: str, every: int, few: int, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.queries.topics.list._FEW", few)
    names = [f"persistent://public/default/t{number:02}" for number in range(40)]
    for number, name in enumerate(names):
        topic = make_topic(name, backlog=number % 4)
        if number % 2:
            topic.partitions = 1
            topic.save()
            topic = make_topic(f"{name}-partition-0", backlog=number % 4, parent=topic)
        subscription = "other" if number % every else "billing"
        Subscription.objects.create(topic=topic, name=subscription, type="Shared")
    asked = TopicsAsked(subscription="billing", order=order, limit=5)
    page = topics(asked, EVERYTHING)
    found = [row.name for row in page.rows]
    while page.next_name is not None:
        page = topics(replace(asked, after_name=page.next_name, after_value=page.next_value), EVERYTHING)
        found += [row.name for row in page.rows]
    assert sorted(found) == names[::every]


def test_an_empty_list_says_why(looker: Client, db: None) -> None:
    assert "There are no topics yet" in text_of(looker.get("/topics"))
    assert "No topic matches this filter" in text_of(looker.get("/topics?q=x"))
    assert looker.get("/topics?after=x&value=nonsense").status_code == 200


def test_a_namespace_beyond_those_listed_stays_chosen(
    operator: Client, market: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = Tenant.objects.create(name="many")
    Namespace.objects.bulk_create(Namespace(tenant=many, name=f"n{number:03}") for number in range(250))
    chosen = re.compile(r'<option value="shop/eu"\s+selected>')
    assert chosen.search(operator.get("/topics?ns=shop/eu").content.decode())
    assert "shop/eu" not in operator.get("/topics?ns=shop/nowhere").content.decode().partition("</select>")[0]
    assert chosen.search(operator.get("/topics/new?namespace=shop/eu").content.decode())
    fake = FakeActs()
    monkeypatch.setattr(acts, "plan", fake.plan)
    filled = {"namespace": "shop/eu", "name": "plums", "partitions": "0"}
    assert operator.post("/topics/new", filled).status_code == 302
    assert fake.asked[0][1][:2] == ("create_topic", "shop/eu")
    viewer = person("vic", {"many/*": Role.OPERATOR})
    assert 'value="shop/eu"' not in viewer.get("/topics/new?namespace=shop/eu").content.decode()
