"""The lists of connected clients: the server filters, sorts and pages them, and says what is wrong with each."""

from __future__ import annotations

import re
import time
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from broker.acts import requests as acts
from broker.models import ConsumerSession, Cursor, ProducerSession, Subscription
from console.queries import clients
from console.queries.clients import (
    CONSUMER_FLAGS,
    CONSUMER_ORDERS,
    PAGE_ROWS,
    PRODUCER_FLAGS,
    PRODUCER_ORDERS,
    ClientsAsked,
)
from console.queries.rights import EVERYTHING
from tests.integration.console.fake_acts import FakeActs
from tests.integration.console.pages import text_of
from tests.integration.console.shop import ORDERS, Shop, make_topic

BILLING = "/t/persistent/public/default/orders/s/billing"
MANY = """
    WITH t AS (
        INSERT INTO vela_topic (name, namespace_id, partitions, partition, properties, policies, created_at)
        SELECT 'persistent://public/default/t' || n, (SELECT max(id) FROM vela_namespace), 0, -1, '{}', '{}', now()
        FROM generate_series(1, 100) AS n RETURNING id
    ), c AS (
        INSERT INTO vela_consumer_session (key, owner_epoch, topic_id, subscription_id, subscription_name,
            subscription_type, name, address, client_version, face, priority, connected_ms, permits, unacked_messages,
            blocked, writable, messages_out, bytes_out, messages_acked, messages_redelivered, last_flow_ms,
            last_delivery_ms, last_ack_ms, oldest_delivered_ms, updated_ms, properties)
        SELECT id * 1000 + n, 1, id, id * 10 + n % 10, 's' || n % 10, 'Shared', 'c' || n, '10.0.0.1:1', 'x', 'binary',
               0, n, 10, n % 50, false, true, 0, 0, 0, 0, 0, 0, 0, n % 70, 0, '{}'
        FROM t, generate_series(1, 200) AS n
    )
    INSERT INTO vela_producer_session (key, owner_epoch, topic_id, name, address, client_version, face, connected_ms,
        messages_in, bytes_in, message_rate_in, last_sequence_id, last_send_ms, updated_ms, properties)
    SELECT id * 1000 + n, 1, id, 'p' || n, '10.0.0.1:1', 'x', 'binary', n, 0, 0, n, 0, 0, 0, '{}'
    FROM t, generate_series(1, 200) AS n"""
INDEXES = {
    ("consumers", "name"): "vela_consumer_session_name",
    ("consumers", "unacked"): "vela_consumer_session_unacked",
    ("consumers", "oldest"): "vela_consumer_session_oldest",
    ("consumers", "since"): "vela_consumer_session_since",
    ("producers", "name"): "vela_producer_session_name",
    ("producers", "rate"): "vela_producer_session_rate",
    ("producers", "since"): "vela_producer_session_since",
}


def consumer(subscription: Subscription | None, key: int, **values: Any) -> None:
    """Add a consumer that waits for messages, unless the values say something else."""
    now_ms = int(time.time() * 1000)
    usual: dict[str, Any] = {
        "owner_epoch": 1,
        "topic_id": subscription.topic_id if subscription else 0,
        "subscription_id": subscription.pk if subscription else None,
        "subscription_name": subscription.name if subscription else "reader-1",
        "subscription_type": "Shared",
        "name": f"c{key}",
        "address": f"10.0.0.{key}:5000",
        "client_version": "Pulsar-CPP-v3.8.0",
        "face": "binary",
        "priority": 0,
        "connected_ms": now_ms - 60_000,
        "permits": 10,
        "unacked_messages": 0,
        "blocked": False,
        "writable": True,
        "messages_out": 0,
        "bytes_out": 0,
        "messages_acked": 0,
        "messages_redelivered": 0,
        "last_flow_ms": now_ms - 50_000,
        "last_delivery_ms": 0,
        "last_ack_ms": 0,
        "updated_ms": now_ms,
        "protocol_version": 21,
    }
    ConsumerSession.objects.create(key=key, **{**usual, **values})


def shown(response: Any) -> list[str]:
    """Return the names in the first column, in order."""
    rows: list[str] = re.findall(
        r'<th scope="row"[^>]*>\s*<span translate="no">([^\s<]+)', response.content.decode()
    )
    return rows


@pytest.fixture
def fleet(shop: Shop) -> Shop:
    """The shop, with consumers of one subscription that have a different fault each. Its own `clerk` is blocked."""
    now_ms = int(time.time() * 1000)
    billing = shop.billing
    consumer(billing, 2, name="idle")
    consumer(billing, 3, name="mute", permits=0)
    consumer(billing, 4, name="keeps", unacked_messages=2, oldest_delivered_ms=now_ms - 40_000)
    consumer(
        billing, 5, name="hoards", unacked_messages=90, oldest_delivered_ms=now_ms - 1000, last_ack_ms=now_ms
    )
    consumer(billing, 6, name="stopped", writable=False, last_delivery_ms=now_ms - 9000)
    consumer(billing, 7, name="ancient", protocol_version=3, client_version="0.1")
    consumer(
        billing, 8, name="busy", unacked_messages=3, oldest_delivered_ms=now_ms - 500, last_ack_ms=now_ms
    )
    consumer(None, 9, name="reads", topic_id=shop.topic.pk)
    ConsumerSession.objects.filter(key=1).update(oldest_delivered_ms=now_ms - 3000, protocol_version=21)
    return shop


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["ancient", "busy", "clerk", "hoards", "idle", "keeps", "mute", "reads", "stopped"]),
        ("?sort=nonsense&flag=nonsense&key=nonsense", None),
        ("?sort=unacked", ["hoards", "busy", "keeps", "clerk"]),
        ("?sort=oldest", ["keeps", "clerk", "hoards", "busy"]),
        ("?flag=blocked", ["clerk"]),
        ("?flag=silent", ["mute"]),
        ("?flag=ack-less", ["keeps"]),
        ("?flag=hoarding", ["hoards"]),
        ("?flag=not-reading", ["stopped"]),
        ("?flag=old", ["ancient"]),
        ("?name=US", ["busy"]),
        ("?name=%25", []),
        ("?address=10.0.0.5:", ["hoards"]),
        ("?version=0.1", ["ancient"]),
        ("?sub=bill&topic=ord&name=idle", ["idle"]),
        ("?sub=reader", ["reads"]),
        ("?topic=nowhere", []),
        (f"?topic={ORDERS}&name=cler", ["clerk"]),
        (f"?topic={ORDERS[:-1]}", []),
        ("?sort=oldest&after=nonsense&key=7", ["keeps", "clerk", "hoards", "busy"]),
    ],
)
def test_consumers_that_match_are_listed_in_order(
    query: str, names: list[str] | None, looker: Client, fleet: Shop
) -> None:
    found = shown(looker.get(f"/consumers{query}"))
    if names is None:
        assert len(found) == 9
    else:
        assert found[: len(names)] == names
        assert query in ("", "?sort=unacked") or len(found) == len(names)


def test_each_flag_is_a_word_with_a_mark(looker: Client, fleet: Shop) -> None:
    words = text_of(looker.get("/consumers"))
    for said in ("✕ blocked", "✕ not reading", "✕ acks nothing", "▲ silent", "▲ hoarding", "▲ old client"):
        assert words.count(said) == 1, said


def test_a_hoarder_needs_another_consumer_that_has_nothing(looker: Client, fleet: Shop) -> None:
    ConsumerSession.objects.exclude(name="hoards").update(last_delivery_ms=int(time.time() * 1000) + 60_000)
    assert shown(looker.get("/consumers?flag=hoarding")) == []
    ConsumerSession.objects.filter(name="idle").update(last_delivery_ms=0)
    assert shown(looker.get("/consumers?flag=hoarding")) == ["hoards"]
    ConsumerSession.objects.filter(name="busy").update(unacked_messages=40)
    assert shown(looker.get("/consumers?flag=hoarding")) == []


def test_a_partitioned_topic_lists_the_clients_of_all_partitions(looker: Client, shop: Shop) -> None:
    parent = make_topic("persistent://shop/eu/dates")
    for number in range(2):
        part = make_topic(f"persistent://shop/eu/dates-partition-{number}", parent=parent)
        subscription = Subscription.objects.create(topic=part, name="audit", type="Shared")
        consumer(subscription, 20 + number, name=f"auditor{number}")
        ProducerSession.objects.filter(key=1).update(topic_id=part.pk)
    make_topic("persistent://shop/eu/dates-2")
    assert shown(looker.get("/consumers?topic=persistent://shop/eu/dates")) == ["auditor0", "auditor1"]
    assert shown(looker.get("/consumers?topic=persistent://shop/eu/dates-partition-1")) == ["auditor1"]
    assert shown(looker.get("/producers?topic=persistent://shop/eu/dates")) == ["till"]
    assert shown(looker.get("/producers?topic=persistent://shop/eu/dates-2")) == []


def test_producers_are_listed_with_their_refusals(looker: Client, shop: Shop) -> None:
    assert "No producer matches" in text_of(looker.get("/producers?flag=refused"))
    ProducerSession.objects.update(
        last_error="TopicTerminatedError: it takes no more messages",
        access_mode="Exclusive",
        deduplicated=True,
    )
    words = text_of(looker.get("/producers?flag=refused&name=till&version=&address=10"))
    assert "till 10.0.0.8:4000 ✕ refused TopicTerminatedError: it takes no more messages" in words
    assert "Exclusive deduplicated" in words


@pytest.mark.parametrize(
    "order",
    [
        *((f"consumers?sort={each}") for each in CONSUMER_ORDERS),
        *((f"producers?sort={each}") for each in PRODUCER_ORDERS),
    ],
)
def test_pages_of_clients_have_no_gaps_and_no_duplicates(order: str, looker: Client, db: None) -> None:
    make_topic("persistent://public/default/t0")
    with connection.cursor() as cursor:
        cursor.execute(MANY.replace("(1, 100)", "(1, 1)"))
    found: list[str] = []
    address: str | None = f"/{order}"
    while address is not None:
        response = looker.get(address)
        found += shown(response)
        following = re.search(r'href="(\?[^"]*)"\s+rel="next"', response.content.decode())
        address = f"/{order.partition('?')[0]}{following[1].replace('&amp;', '&')}" if following else None
    without = 2 if "oldest" in order else 0  # two of the 200 have nothing unacked
    assert len(found) == len(set(found)) == 200 - without


@pytest.mark.parametrize(("which", "order"), INDEXES)
def test_each_order_is_read_from_an_index_however_many_clients_there_are(
    which: str, order: str, django_db_setup: None, db: None
) -> None:
    make_topic("persistent://public/default/t0")
    orders = CONSUMER_ORDERS if which == "consumers" else PRODUCER_ORDERS
    assert set(orders) == {name for list_, name in INDEXES if list_ == which}
    asked = ClientsAsked(order=order)
    with connection.cursor() as cursor:
        cursor.execute(MANY)
        cursor.execute("ANALYZE vela_topic, vela_consumer_session, vela_producer_session")
        flags = CONSUMER_FLAGS if which == "consumers" else PRODUCER_FLAGS
        text = clients._filled_in(which, orders[order], flags, "")
        cursor.execute(
            f"EXPLAIN (ANALYZE, COSTS OFF) {text}",
            dict(clients._parameters(orders[order], asked, EVERYTHING, None)),
        )
        plan = "\n".join(line for (line,) in cursor.fetchall())
    scanned = re.search(rf"{INDEXES[which, order]} on vela_\w+ c .*rows=(\d+)", plan)
    assert scanned is not None, plan
    assert int(scanned[1]) <= PAGE_ROWS + 1, plan


@pytest.mark.parametrize(
    "address", ["/consumers", "/producers", "/consumers?flag=silent&sort=oldest&topic=ord"]
)
def test_a_list_of_clients_costs_two_queries(
    address: str, operator: Client, fleet: Shop, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(4 + 2):
        operator.get(address)


def test_an_operator_acts_from_a_row_and_a_viewer_does_not(
    operator: Client, looker: Client, fleet: Shop
) -> None:
    html = operator.get("/consumers?name=hoards").content.decode()
    assert f'href="{BILLING}/act/disconnect?consumer=hoards&amp;consumer_key=5"' in html
    assert f'href="{BILLING}/act/redeliver?consumer=hoards&amp;consumer_key=5"' in html
    assert f'href="{BILLING}?consumer=5#part-pending"' in html
    words = text_of(operator.get("/consumers?name=reads"))
    assert "Only its client can close a reader." in words
    assert "Disconnect" not in words
    assert "/act/" not in looker.get("/consumers").content.decode()
    idle = operator.get("/consumers?name=idle").content.decode()
    assert "/act/disconnect" in idle
    assert "/act/redeliver" not in idle


def test_the_pending_messages_of_one_consumer_are_shown_alone(operator: Client, fleet: Shop) -> None:
    words = text_of(operator.get(f"{BILLING}?consumer=1&part=pending"))
    assert "Pending acks of clerk" in words
    assert f"{fleet.sealed.pk}:5 1 clerk" in words
    assert f"/m/{fleet.sealed.pk}:5" in operator.get(f"{BILLING}?consumer=1&part=pending").content.decode()
    words = text_of(operator.get(f"{BILLING}?consumer=2&part=pending"))
    assert "Pending acks of idle" in words
    assert "This consumer has nothing unacked" in words
    words = text_of(operator.get(f"{BILLING}?consumer=99&part=pending"))
    assert "not connected any more" in words


def test_a_consumer_that_differs_from_the_others_is_marked(operator: Client, fleet: Shop) -> None:
    words = text_of(operator.get(f"{BILLING}?part=consumers"))
    assert "90 ▲&nbsp;median 0" in words
    assert words.count("▲&nbsp;median") == 2, "`hoards` has many messages, and `keeps` has an old one"


def test_a_subscription_links_to_the_full_list_of_its_consumers(operator: Client, fleet: Shop) -> None:
    page = operator.get(BILLING)
    assert "At most 500 consumers are listed here" in text_of(page)
    link = re.search(r'href="([^"]*)">Filter and sort all', page.content.decode())
    assert link is not None
    assert "hoards" in text_of(operator.get(unescape(link[1])))


def test_a_subscription_of_a_partitioned_topic_shows_the_consumers_of_all_partitions(
    operator: Client, shop: Shop
) -> None:
    parent = make_topic("persistent://shop/eu/dates")
    parent.partitions = 2
    parent.save()
    for number in range(2):
        part = make_topic(f"persistent://shop/eu/dates-partition-{number}", parent=parent)
        part.partition = number
        part.save()
        audit = Subscription.objects.create(topic=part, name="audit", type="Shared")
        Cursor.objects.create(
            subscription=audit,
            mark_delete_ledger=1,
            mark_delete_entry=-1,
            acked_messages=0,
            acked_entries=0,
            acked_bytes=0,
        )
        consumer(audit, 20 + number, name=f"auditor{number}", unacked_messages=number)
    page = operator.get("/t/persistent/shop/eu/dates/s/audit?part=consumers")
    words = text_of(page)
    assert "auditor0 10.0.0.20:5000 0 10 0" in words
    assert "auditor1 10.0.0.21:5000 1 10 1" in words
    form = (
        "/t/persistent/shop/eu/dates-partition-1/s/audit/act/disconnect?consumer=auditor1&amp;consumer_key=21"
    )
    assert f'href="{form}"' in page.content.decode()


def test_the_form_of_a_row_names_one_consumer_and_takes_a_reason(
    operator: Client, fleet: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeActs()
    monkeypatch.setattr(acts, "plan", fake.plan)
    form = f"{BILLING}/act/disconnect?consumer=hoards&consumer_key=5"
    html = operator.get(form).content.decode()
    assert 'value="hoards"' in html
    assert 'value="5"' in html
    for filled, parameters in (
        ({"consumer": "hoards", "consumer_key": "5"}, {"consumer_key": 5}),
        ({"consumer": "hoards", "reason": "too slow"}, {"consumer": "hoards", "reason": "too slow"}),
    ):
        assert operator.post(form, filled).status_code == 302
        assert fake.asked[-1][1][3] == parameters
    for wrong, words in (
        ({}, "Name the consumer."),
        ({"consumer_key": "five"}, "Write the number as the list of consumers shows it"),
        ({"consumer_key": "0"}, "greater than or equal to 1"),
    ):
        refused = operator.post(form, wrong)
        assert refused.status_code == 422
        assert words in text_of(refused)
    assert len(fake.asked) == 2


def test_the_api_lists_what_the_pages_list(operator: Client, anonymous: Client, fleet: Shop) -> None:
    body = operator.get("/api/v1/consumers?flag=hoarding&subscription=bill&sort=unacked").json()
    (row,) = body["consumers"]
    assert (row["name"], row["key"], row["flags"], body["next_after"]) == ("hoards", 5, ["hoarding"], None)
    assert row["topic_name"] == ORDERS
    first = operator.get("/api/v1/consumers?limit=4").json()
    second = operator.get(f"/api/v1/consumers?limit=8&after={first['next_after']}").json()
    names = [each["name"] for each in first["consumers"] + second["consumers"]]
    assert names == sorted(names)
    assert len(names) == 9
    (producer,) = operator.get("/api/v1/producers?name=till&sort=rate").json()["producers"]
    assert (producer["name"], producer["flags"], producer["last_sequence_id"]) == ("till", [], 99)
    assert operator.get("/api/v1/consumers?flag=nonsense").status_code == 400
    assert operator.get("/api/v1/consumers?after=nonsense").status_code == 400
    for address in ("/api/v1/consumers", "/api/v1/producers"):
        assert anonymous.get(address).status_code == 401
