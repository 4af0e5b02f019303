"""`/api/v1`: topics, subscriptions and their numbers."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils.timezone import now

from broker.models import (
    Act,
    Bookmark,
    BrokerProcess,
    Compaction,
    ConsumerSession,
    Cursor,
    Ledger,
    Namespace,
    Subscription,
    SubscriptionState,
    SubscriptionSummary,
    Tenant,
    Topic,
    TopicSummary,
)
from console.access import Role
from tests.integration.console.conftest import granted
from tests.integration.console.pages import text_of
from tests.integration.console.shop import Shop, connect, make_topic

TOPICS = "/api/v1/topics"
ORDERS = f"{TOPICS}/persistent/public/default/orders"


def subscribe(topic: Topic, name: str, *, backlog: int | None = None, acked: int = 0) -> Subscription:
    """Add a subscription at the beginning, and its summary if a backlog is given."""
    made = Subscription.objects.create(topic=topic, name=name, type="Shared")
    Cursor.objects.create(
        subscription=made,
        mark_delete_ledger=1,
        mark_delete_entry=-1,
        acked_messages=acked,
        acked_entries=0,
        acked_bytes=0,
    )
    if backlog is not None:
        SubscriptionSummary.objects.create(
            subscription=made,
            acked_messages=100 - backlog,
            read_ledger=1,
            read_entry=0,
            consumers=1,
            unacked_messages=1,
            replay_entries=0,
            message_rate_out=1.5,
            message_rate_acked=1.0,
            messages_redelivered=2,
            updated_ms=7,
        )
        connect(made, key=made.pk, now_ms=7)
    return made


def log_of_104(topic: Topic) -> None:
    """Store four messages that the owner has not reported yet. The 100 before them were in a trimmed ledger."""
    Ledger.objects.create(
        topic=topic,
        state=Ledger.State.SEALED,
        messages_before=100,
        bytes_before=1000,
        entries=4,
        messages=4,
        size_bytes=40,
        opened_ms=1,
        first_append_ms=1,
        last_append_ms=1,
    )


@pytest.fixture
def partitioned(db: None) -> Topic:
    """Create `dates` with two partitions of 104 messages each.

    The subscription `slow` is on both. `new` is on one, and the broker has not reported it.
    """
    parent = make_topic("persistent://shop/eu/dates")
    parent.partitions = 2
    parent.save()
    for number in range(2):
        child = make_topic(f"{parent.name}-partition-{number}", backlog=4, rate=2.0, parent=parent)
        child.partition = number
        child.save()
        log_of_104(child)
        subscribe(child, "slow", backlog=4 + number, acked=96 - number)
    subscribe(child, "new")
    return parent


def test_the_list_has_what_the_page_shows(looker: Client, shop: Shop, partitioned: Topic) -> None:
    body = looker.get(TOPICS).json()
    assert body["next_after"] is None
    orders, dates = body["topics"]
    assert (orders["name"], orders["backlog_messages"], orders["subscriptions"]) == (shop.topic.name, 14, 1)
    assert (dates["partitions"], dates["backlog_messages"], dates["message_rate_in"]) == (2, 8, 4.0)
    assert "id" not in orders
    assert [row["name"] for row in looker.get(f"{TOPICS}?q=ord").json()["topics"]] == [shop.topic.name]
    assert [row["name"] for row in looker.get(f"{TOPICS}?namespace=shop/eu").json()["topics"]] == [
        dates["name"]
    ]


@pytest.mark.parametrize("order", ["name", "worst", "backlog", "rate", "last"])
def test_pages_follow_each_other_without_gap_or_double(order: str, looker: Client, db: None) -> None:
    names = [f"persistent://public/default/t{number:02}" for number in range(23)]
    for number, name in enumerate(names):
        make_topic(
            name,
            backlog=None if number % 9 == 0 else number % 4,
            rate=number % 3,
            state=None if number % 5 == 0 else SubscriptionState(number % 4 + 1),
        )
    found: list[str] = []
    following: str | None = ""
    while following is not None:
        body = looker.get(f"{TOPICS}?sort={order}&limit=5&after={following}").json()
        assert len(body["topics"]) <= 5
        found += [row["name"] for row in body["topics"]]
        following = body["next_after"]
    assert sorted(found) == names


def test_a_topic_is_read_with_its_producers_and_bookmarks(looker: Client, shop: Shop) -> None:
    Bookmark.objects.create(topic=shop.topic, name="launch", ledger_id=1, entry_id=2, who="ada")
    body = looker.get(ORDERS).json()
    assert (body["name"], body["partitions"], body["parent"], body["terminated_at"]) == (
        shop.topic.name, 0, None, None,
    )  # fmt: skip
    assert [(each["name"], each["address"]) for each in body["producing"]] == [("till", "10.0.0.8:4000")]
    assert [(each["name"], each["id"], each["until"]) for each in body["bookmarks"]] == [
        ("launch", "1:2", None)
    ]
    assert (body["partition_topics"], body["policies"], body["namespace_policies"]) == ([], {}, {})


def test_a_topic_says_how_far_it_is_compacted(looker: Client, shop: Shop) -> None:
    (fresh,) = looker.get(f"{ORDERS}/compaction").json()["compactions"]
    assert (fresh["topic"], fresh["state"], fresh["kept_messages"]) == (shop.topic.name, "NOT_RUN", None)
    Compaction.objects.create(
        topic=shop.topic, state="ERROR", last_error="why", horizon_ledger=3, horizon_entry=7, horizon_messages=12,
        horizon_bytes=0, generation=1, attempt=2, kept_messages=5, kept_bytes=9, started_at=now(),
    )  # fmt: skip
    (row,) = looker.get(f"{ORDERS}/compaction").json()["compactions"]
    assert {name: row[name] for name in ("state", "last_error", "horizon", "kept_messages", "backlog_messages")} == {
        "state": "ERROR", "last_error": "why", "horizon": "3:7", "kept_messages": 5,
        "backlog_messages": shop.messages - 12,
    }  # fmt: skip


def test_a_partitioned_topic_lists_its_partitions(looker: Client, partitioned: Topic) -> None:
    body = looker.get(f"{TOPICS}/persistent/shop/eu/dates").json()
    assert [(each["partition"], each["backlog_messages"]) for each in body["partition_topics"]] == [
        (0, 4),
        (1, 4),
    ]
    child = looker.get(f"{TOPICS}/persistent/shop/eu/dates-partition-1").json()
    assert (child["parent"], child["partition"]) == (partitioned.name, 1)


def test_the_backlog_is_exact_and_the_oldest_is_known(looker: Client, shop: Shop) -> None:
    (row,) = looker.get(f"{ORDERS}/subscriptions").json()["subscriptions"]
    assert (row["backlog_messages"], row["mark_delete"]) == (shop.backlog, f"{shop.sealed.pk}:4")
    assert (row["permits"], row["unacked_messages"], row["paused"]) == (0, 1, False)
    # Entries are a second apart, and the first is 90 s old; the sixth is the first that is not acked.
    assert row["oldest_unacked_ms"] == shop.now_ms - 85_000


@pytest.mark.parametrize("ledger", ["sealed", "open"])
def test_a_cursor_at_the_end_of_the_log_has_no_oldest_message(
    ledger: str, looker: Client, shop: Shop
) -> None:
    end = shop.open if ledger == "open" else shop.sealed
    Cursor.objects.filter(subscription=shop.billing).update(
        mark_delete_ledger=end.pk, mark_delete_entry=5 if ledger == "open" else 9
    )
    (row,) = looker.get(f"{ORDERS}/subscriptions").json()["subscriptions"]
    assert row["oldest_unacked_ms"] == (None if ledger == "open" else shop.now_ms - 80_000)


def test_the_oldest_message_is_of_all_partitions_or_unknown(
    looker: Client, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.queries.numbers.OLDEST_OF", 3)
    parent = make_topic("persistent://public/default/parted")
    Topic.objects.filter(pk=parent.pk).update(partitions=2)
    later = make_topic(f"{parent.name}-partition-0", parent=parent)
    Topic.objects.filter(pk=shop.topic.pk).update(parent=parent, partition=1)
    Topic.objects.filter(pk=later.pk).update(partition=0)
    for name in ("audit", "billing"):
        subscribe(later, name)
    subscribe(shop.topic, "audit")
    body = looker.get(f"{TOPICS}/persistent/public/default/parted/stats").json()
    found = {row["name"]: row["oldest_unacked_ms"] for row in body["subscriptions"]}
    assert found == {"audit": shop.now_ms - 90_000, "billing": None}


def test_a_subscription_is_read_with_its_cursor_and_its_state(looker: Client, shop: Shop) -> None:
    body = looker.get(f"{ORDERS}/subscriptions/billing").json()
    assert (body["backlog_messages"], body["mark_delete"]) == (shop.backlog, f"{shop.sealed.pk}:4")
    assert body["standing"] == {
        "state": "draining",
        "tone": "good",
        "sentence": "Consumers ack faster than messages arrive.",
        "since_ms": shop.now_ms - 60_000,
        "drain_s": 250,
    }
    assert [(each["name"], each["permits"], each["blocked"]) for each in body["connected"]] == [
        ("clerk", 0, True)
    ]
    assert [(each["consumer_name"], each["redelivery_count"]) for each in body["pending"]] == [("clerk", 3)]
    assert body["problems"] == {"messages that consumers discarded: CHECKSUM_MISMATCH": 4}


def test_stats_of_a_topic_have_rates_backlogs_and_states(looker: Client, shop: Shop) -> None:
    body = looker.get(f"{ORDERS}/stats").json()
    assert body["topic"]["message_rate_in"] == 3.0
    (row,) = body["subscriptions"]
    assert (row["backlog_messages"], row["cursors"], row["message_rate_acked"]) == (shop.backlog, 1, 5.0)
    assert row["standing"]["state"] == "draining"
    (row,) = looker.get(f"{ORDERS}/subscriptions").json()["subscriptions"]
    assert (row["standing"]["state"], row["standing"]["drain_s"]) == ("draining", 250)
    assert looker.get(ORDERS).json()["state"] == "draining"
    assert [each["state"] for each in looker.get(TOPICS).json()["topics"]] == ["draining"]


def test_a_subscription_of_partitions_has_their_worst_state(looker: Client, partitioned: Topic) -> None:
    for partition, state in ((0, SubscriptionState.FALLING_BEHIND), (1, SubscriptionState.KEEPING_UP)):
        TopicSummary.objects.filter(topic__partition=partition).update(
            state=state, state_since_ms=5 - partition
        )
        SubscriptionSummary.objects.filter(subscription__topic__partition=partition).update(
            state=state, state_since_ms=5 - partition
        )
    body = looker.get(f"{TOPICS}/persistent/shop/eu/dates/stats").json()
    assert (body["topic"]["state"], body["topic"]["state_since_ms"]) == ("falling behind", 5)
    _, slow = body["subscriptions"]
    assert (slow["standing"]["state"], slow["standing"]["since_ms"]) == ("falling behind", 5)
    parts = looker.get(f"{TOPICS}/persistent/shop/eu/dates").json()["partition_topics"]
    assert [each["state"] for each in parts] == ["falling behind", "keeping up"]
    for word, found in (("falling+behind", 1), ("keeping+up", 0)):
        for order in ("name", "worst"):
            listed = looker.get(f"{TOPICS}?state={word}&sort={order}").json()["topics"]
            assert len(listed) == found, order
    words = text_of(looker.get("/t/persistent/shop/eu/dates"))
    assert "Worst subscription ▲ falling behind" in words


def test_stats_of_a_partitioned_topic_are_sums(looker: Client, partitioned: Topic) -> None:
    body = looker.get(f"{TOPICS}/persistent/shop/eu/dates/stats").json()
    new, slow = body["subscriptions"]
    assert (slow["consumers"], slow["cursors"], slow["message_rate_out"]) == (2, 2, 3.0)
    # The API counts these from logs and cursors, and ignores the owners' reports.
    assert (slow["backlog_messages"], slow["backlog_bytes"], slow["standing"]["state"]) == (
        17,
        2080,
        "watching",
    )
    assert (new["backlog_messages"], new["consumers"], new["standing"]["state"]) == (104, None, "unknown")


def test_messages_published_to_a_partition_raise_every_backlog_at_once(
    looker: Client, partitioned: Topic
) -> None:
    Ledger.objects.filter(topic__partition=1).update(messages=9, size_bytes=90)
    stats = looker.get(f"{TOPICS}/persistent/shop/eu/dates/stats").json()["subscriptions"]
    assert [(row["name"], row["backlog_messages"]) for row in stats] == [("new", 109), ("slow", 22)]
    cursors = looker.get(f"{TOPICS}/persistent/shop/eu/dates/subscriptions").json()["subscriptions"]
    assert [
        (row["name"], row["partition"], row["backlog_messages"], row["backlog_bytes"]) for row in cursors
    ] == [
        ("new", 1, 109, 1090),
        ("slow", 0, 8, 1040),
        ("slow", 1, 14, 1090),
    ]
    page = text_of(looker.get("/t/persistent/shop/eu/dates"))
    assert "new on 1 of 2 partitions ○ unknown Shared 109" in page
    assert "slow ○ watching Shared 22 2 2" in page


def test_the_total_rises_with_what_is_published_though_no_subscription_changed(
    looker: Client, partitioned: Topic
) -> None:
    before = looker.get("/api/v1/stats").json()["backlog_messages"]
    TopicSummary.objects.filter(topic__partition=1).update(messages_in=107, max_backlog_messages=12)
    assert looker.get("/api/v1/stats").json()["backlog_messages"] == before + 7


def test_the_bytes_of_an_unpartitioned_topic_rise_with_its_messages(looker: Client, shop: Shop) -> None:
    (row,) = looker.get(f"{ORDERS}/subscriptions").json()["subscriptions"]
    (sums,) = looker.get(f"{ORDERS}/stats").json()["subscriptions"]
    one = looker.get(f"{ORDERS}/subscriptions/billing").json()
    assert [each["backlog_bytes"] for each in (row, sums, one)] == [1400] * 3  # 2,000 less 600 acked
    assert [each["backlog_messages"] for each in (row, sums, one)] == [shop.backlog] * 3


def test_cursors_of_a_partitioned_topic_have_pages(looker: Client, partitioned: Topic) -> None:
    address = f"{TOPICS}/persistent/shop/eu/dates/subscriptions"
    found: list[tuple[str, int]] = []
    following: str | None = ""
    while following is not None:
        body = looker.get(f"{address}?limit=1&after={following}").json()
        found += [(row["name"], row["partition"]) for row in body["subscriptions"]]
        following = body["next_after"]
    assert found == [("new", 1), ("slow", 0), ("slow", 1)]


def test_totals_say_whether_a_broker_runs(looker: Client, shop: Shop, partitioned: Topic) -> None:
    body = looker.get("/api/v1/stats").json()
    assert (body["topics"], body["backlog_messages"], body["message_rate_in"]) == (2, 21, 7.0)
    assert (body["broker"]["is_running"], body["broker"]["host"], body["waiting_acts"]) == (True, "shop-1", 0)


def test_acts_that_wait_in_other_namespaces_are_not_counted(anonymous: Client, shop: Shop) -> None:
    granted(User.objects.create_user("ada", password="tested-7"), {"public/default": Role.VIEWER})
    anonymous.force_login(User.objects.get(username="ada"))
    for name, count in (("public/default", 1), ("other/place", 3)):
        for number in range(count):
            Act.objects.create(
                kind="clear",
                state=Act.State.PLAN_REQUESTED,
                topic_name=f"persistent://{name}/t{number}",
                subscription_name="s",
                parameters={},
                who="op",
                origin="test",
                requested_at=now(),
            )
    assert anonymous.get("/api/v1/stats").json()["waiting_acts"] == 1
    BrokerProcess.objects.update(stopped_at=now())
    assert "1 act waiting" in text_of(anonymous.get("/topics"))
    assert "1 act waiting" in anonymous.get("/troubles").json()["html"]


def test_an_unchanged_answer_is_not_sent_again(looker: Client, shop: Shop) -> None:
    first = looker.get(f"{ORDERS}/stats")
    again = looker.get(f"{ORDERS}/stats", headers={"if-none-match": first["ETag"]})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    ConsumerSession.objects.update(unacked_messages=99)
    changed = looker.get(f"{ORDERS}/stats", headers={"if-none-match": first["ETag"]})
    assert (changed.status_code, changed["ETag"] == first["ETag"]) == (200, False)


@pytest.mark.parametrize(
    "address",
    [
        "/api/v1/stats",
        TOPICS,
        ORDERS,
        f"{ORDERS}/stats",
        f"{ORDERS}/subscriptions",
        f"{ORDERS}/subscriptions/billing",
    ],
)
def test_a_user_with_a_role_may_read_and_no_one_else(
    address: str, looker: Client, anonymous: Client, shop: Shop
) -> None:
    assert anonymous.get(address).status_code == 401
    assert looker.get(address).status_code == 200
    assert looker.head(address).status_code == 200
    assert looker.post(address).status_code == 405
    assert "payload" not in looker.get(address).content.decode()


@pytest.mark.parametrize(
    ("address", "status", "says"),
    [
        (f"{TOPICS}?limit=0", 400, "limit is '0': it takes a number from 1 to 500"),
        (f"{TOPICS}?limit=501", 400, "limit"),
        (f"{TOPICS}?sort=age", 400, "use name, worst, backlog, rate or last"),
        ("/api/v1/acts?kind=foo", 400, "kind is 'foo': use reset, skip, skip_one, clear"),
        ("/api/v1/acts?state=foo", 400, "state is 'foo': use plan_requested, planned"),
        (f"{TOPICS}?backlog=1", 400, "backlog is '1': use false or true"),
        (f"{TOPICS}?namespace=shop/us", 404, "there is no namespace shop/us"),
        (f"{TOPICS}?namespace=shop", 404, "there is no namespace shop"),
        (f"{TOPICS}?q=%00", 400, "NUL"),
        (f"{TOPICS}?after=x", 400, "next_after"),
        (f"{TOPICS}?after=WzFd", 400, "next_after"),
        (f"{TOPICS}?after=WzAuMCwgIlx1MDAwMCJd", 400, "next_after"),
        (f"{ORDERS}-not", 404, "there is no topic persistent://public/default/orders-not"),
        (f"{ORDERS}-not/stats", 404, "there is no topic"),
        (f"{ORDERS}-not/subscriptions/s", 404, "there is no topic"),
        (f"{ORDERS}-not/policies", 404, "there is no topic"),
        ("/api/v1/namespaces/shop/us/policies", 404, "there is no namespace shop/us"),
        ("/api/v1/namespaces/~2E~2E/eu/policies", 400, "not only dots"),
        (f"{TOPICS}/persistent/~2E~2E/eu/t", 400, "not only dots"),
        (f"{ORDERS}/subscriptions/nope", 404, "there is no subscription nope"),
        (f"{TOPICS}/persistent/shop/eu/dates/subscriptions/slow", 404, "name persistent://shop/eu/dates-partition-0"),
        (f"{TOPICS}/persistent/shop/eu/dates/subscriptions/slow/peek", 404, "dates-partition-0"),
    ],
)  # fmt: skip
def test_an_error_says_what_is_wrong(
    address: str, status: int, says: str, operator: Client, shop: Shop, partitioned: Topic
) -> None:
    answer = operator.get(address)
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    assert says in answer.json()["detail"]


def test_answers_are_as_described(looker: Client, shop: Shop, partitioned: Topic) -> None:
    schemas = looker.get("/api/v1/openapi.json").json()["components"]["schemas"]

    def check(value: dict[str, Any], schema: str) -> None:
        assert set(value) == set(schemas[schema]["properties"]), schema

    check(looker.get("/api/v1/stats").json(), "Stats")
    check(looker.get(TOPICS).json()["topics"][0], "Topic")
    check(looker.get(ORDERS).json(), "OneTopic")
    check(looker.get(f"{ORDERS}/stats").json()["subscriptions"][0], "SubscriptionStats")
    check(looker.get(f"{ORDERS}/subscriptions").json()["subscriptions"][0], "Cursor")
    check(looker.get(f"{ORDERS}/subscriptions/billing").json(), "OneSubscription")


def test_policies_are_listed_with_the_place_where_each_is_set(
    looker: Client, shop: Shop, partitioned: Topic
) -> None:
    partitioned.policies = {"max_producers": 3, "message_ttl_ms": 5}
    partitioned.save()
    partitioned.namespace.policies = {"message_ttl_ms": 7, "max_consumers": 9, "auto_create_topics": False}
    partitioned.namespace.save()

    def in_force(address: str) -> dict[str, tuple[object, object]]:
        answer = looker.get(f"/api/v1/{address}/policies")
        assert answer.status_code == 200, answer.content
        found = answer.json()
        assert "messages that every subscription has acked are kept" in found["words"][0]
        assert {row["words"] for row in found["policies"]} >= {"1 day", "1 GiB", "no limit"}
        return {row["name"]: (row["value"], row["set_on"]) for row in found["policies"]}

    for name in ("dates", "dates-partition-1"):
        of_topic = in_force(f"topics/persistent/shop/eu/{name}")
        assert of_topic["max_producers"] == (3, "topic")
        assert of_topic["message_ttl_ms"] == (5, "topic")
        assert of_topic["max_consumers"] == (9, "namespace")
        assert of_topic["max_subscriptions"] == (0, None)
    of_namespace = in_force("namespaces/shop/eu")
    assert of_namespace["message_ttl_ms"] == (7, "namespace")
    assert of_namespace["auto_create_topics"] == (False, "namespace")
    assert of_namespace["max_producers"] == (0, None)


def test_names_with_slashes_and_tildes_are_found(looker: Client, db: None) -> None:
    topic = make_topic("persistent://public/default/a~b")
    subscribe(topic, "x/y")
    body = looker.get(f"{TOPICS}/persistent/public/default/a~7Eb/subscriptions/x~2Fy").json()
    assert (body["topic_name"], body["name"]) == ("persistent://public/default/a~b", "x/y")


def test_a_namespace_without_topics_is_empty_and_one_without_a_role_is_hidden(
    looker: Client, anonymous: Client, shop: Shop
) -> None:
    Namespace.objects.create(tenant=Tenant.objects.get(name="public"), name="empty")
    make_topic("persistent://shop/eu/dates")
    guest = granted(User.objects.create_user("gina"), {"public/*": Role.VIEWER})
    anonymous.force_login(guest)
    assert anonymous.get(f"{TOPICS}?namespace=public/empty").json()["topics"] == []
    hidden = anonymous.get(f"{TOPICS}?namespace=shop/eu")
    assert (hidden.status_code, hidden.json()["detail"]) == (404, "there is no namespace shop/eu")
    assert looker.get(f"{TOPICS}?namespace=shop/eu").status_code == 200
