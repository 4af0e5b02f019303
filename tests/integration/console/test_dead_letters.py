"""The pages of dead letters: which topics have dead letters, why their messages failed, and what can be done."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from django.db import OperationalError, connection
from django.test import Client
from psycopg.errors import QueryCanceled
from pytest_django import DjangoAssertNumQueries

from broker.models import (
    Act,
    Cursor,
    Namespace,
    ProducerSession,
    StatsPoint10s,
    StatsPoint60s,
    StatsPoint600s,
    StatsProgress,
    Subscription,
    Tenant,
    Topic,
    TopicSummary,
)
from console.messages.reader import LaneReader
from console.messages.scan import PAGE_BOUNDS
from console.queries.letters.origins import possible_origins
from console.queries.letters.topics import LettersAsked, letter_topics, over_letters
from console.queries.rights import EVERYTHING
from tests.integration.console.messages import Written, write_log
from tests.integration.console.pages import text_of
from tests.integration.console.shop import Shop, make_topic
from tests.support.entries import encrypted
from vela.wire.entry import encode_single

DLQ = "persistent://public/default/orders-billing-DLQ"
PAGE = "/dlq/persistent/public/default/orders-billing-DLQ"
ORDERS = "persistent://public/default/orders"
HOSTILE = "<script>alert(1)</script>\u202e\x07"


def letter(number: int, **properties: str) -> bytes:
    return encode_single(
        producer_name="p",
        sequence_id=number,
        publish_time_ms=1,
        payload=b"letter %d" % number,
        properties={"REAL_TOPIC": ORDERS, "REAL_SUBSCRIPTION": "billing", **properties},
    )


def subscribe(written: Written, name: str = "fixing", *, acked: int = 0) -> Subscription:
    """Add a subscription that has acked the first entries."""
    first = written.ledgers[0]
    made = Subscription.objects.create(topic=written.topic, name=name, type="Shared")
    Cursor.objects.create(
        subscription=made,
        mark_delete_ledger=first.pk,
        mark_delete_entry=acked - 1,
        acked_messages=acked,
        acked_entries=acked,
        acked_bytes=0,
    )
    return made


def reported(topic: Topic, *, waiting: int, messages_in: int, is_read: bool = True) -> None:
    """Store a broker's report about a topic."""
    TopicSummary.objects.update_or_create(
        topic=topic,
        defaults={
            "messages_in": messages_in,
            "bytes_in": 1,
            "stored_bytes": 1,
            "producers": 0,
            "message_rate_in": 0.0,
            "byte_rate_in": 0.0,
            "last_append_ms": 1,
            "max_backlog_messages": waiting,
            "updated_ms": int(time.time() * 1000),
            "state": 1 if is_read else None,
        },
    )


def test_an_hour_of_new_letters_is_a_whole_one(db: None) -> None:
    now_ms = int(time.time() * 1000)
    letters = make_topic(DLQ, backlog=5)
    minute_ms = (now_ms - 3_480_000) // 60_000 * 60_000  # 58 minutes ago
    for model, at_ms in ((StatsPoint60s, minute_ms), (StatsPoint600s, minute_ms // 600_000 * 600_000)):
        model.objects.create(
            at_ms=at_ms,
            topic_id=letters.pk,
            subscription_id=0,
            messages_in=5,
            messages_out=0,
            messages_acked=0,
            messages_redelivered=0,
        )
    for resolution_s in (60, 600):
        until_ms = now_ms // (resolution_s * 1000) * resolution_s * 1000
        StatsProgress.objects.update_or_create(resolution_s=resolution_s, defaults={"until_ms": until_ms})
    (row,) = letter_topics(LettersAsked(), EVERYTHING).rows
    assert (row.hour_messages, row.day_messages) == (5, 5)
    StatsProgress.objects.update(until_ms=now_ms - 10 * 3_600_000)
    (row,) = letter_topics(LettersAsked(), EVERYTHING).rows
    assert row.day_messages is None, "four hours of points that are not rolled up are read, and not ten"


def test_the_list_says_what_waits_since_when_who_reads_it_and_where_it_comes_from(
    operator: Client, shop: Shop
) -> None:
    now_ms = int(time.time() * 1000)
    written = write_log(DLQ, [letter(n) for n in range(5)], begin_ms=now_ms - 7_205_000)
    subscribe(written, acked=1)
    reported(written.topic, waiting=4, messages_in=5)
    for ago_ms, messages in ((600_000, 3), (50_000, 2)):
        at_ms = now_ms - ago_ms
        StatsPoint10s.objects.create(
            at_ms=at_ms - at_ms % 10_000,
            topic_id=written.topic.pk,
            subscription_id=0,
            messages_in=messages,
            messages_out=0,
            messages_acked=0,
            messages_redelivered=0,
        )
    for resolution_s in (60, 600):
        until_ms = (now_ms - 900_000) // (resolution_s * 1000) * resolution_s * 1000
        StatsProgress.objects.update_or_create(resolution_s=resolution_s, defaults={"until_ms": until_ms})
    unread = write_log("persistent://public/default/mail-out-DLQ", [letter(1)], begin_ms=now_ms - 60_000)
    reported(unread.topic, waiting=0, messages_in=9, is_read=False)
    words = text_of(operator.get("/dlq"))
    row = words[words.index("orders-billing-DLQ") :]
    assert row.startswith("orders-billing-DLQ 4 2 h ago 5 5 1 subscription ▲ no consumer billing of orders")
    unread_row = words[words.index("mail-out-DLQ") : words.index("orders-billing-DLQ")]
    assert "9 written" in unread_row, "the letters that nobody reads come first"
    assert re.search(r"written 6\d s ago 0 0", unread_row)
    assert "✕ nobody Keep its letters" in unread_row
    assert "orders 20" not in words, "an ordinary topic"


def test_numbers_that_no_broker_has_reported_are_unknown(operator: Client, shop: Shop) -> None:
    subscribe(write_log(DLQ, [letter(0)], begin_ms=int(time.time() * 1000) - 60_000))
    words = text_of(operator.get("/dlq"))
    row = words[words.index("orders-billing-DLQ") :]
    assert re.match(r"orders-billing-DLQ – 6\d s ago – – 1 subscription", row)


def test_topics_with_other_names_are_listed_when_a_producer_or_an_act_shows_that_they_hold_letters(
    operator: Client, shop: Shop
) -> None:
    graveyard = make_topic("persistent://public/default/graveyard", backlog=1)
    assert "graveyard" not in text_of(operator.get("/dlq"))
    ProducerSession.objects.create(
        key=9, owner_epoch=1, topic_id=graveyard.pk, name="orders-billing-clerk-x1y2z-DLQ", address="", face="binary",
        client_version="", connected_ms=1, messages_in=1, bytes_in=1, last_sequence_id=1, last_send_ms=1, updated_ms=1,
    )  # fmt: skip
    assert "graveyard" in text_of(operator.get("/dlq"))
    ProducerSession.objects.all().delete()
    Act.objects.create(
        kind="redrive", state="applied", topic=graveyard, topic_name=graveyard.name, subscription_name="s", who="ada",
        origin="test", requested_at="2026-01-01T00:00:00Z",
    )  # fmt: skip
    assert "graveyard" in text_of(operator.get("/dlq?sort=name"))
    partition = make_topic(f"{DLQ}-partition-0", backlog=0)
    assert partition.name.rpartition("/")[2] in text_of(operator.get("/dlq?sort=name"))


def test_the_list_goes_on_page_by_page_in_both_orders(operator: Client, shop: Shop) -> None:
    for number in range(120):
        make_topic(f"persistent://public/default/t{number:03}-s-DLQ", backlog=number % 7)
    for order in ("waiting", "name"):
        seen: list[str] = []
        address = f"/dlq?sort={order}"
        while address:
            html = operator.get(address).content.decode()
            seen += re.findall(r'href="/dlq/persistent/public/default/(t\d+-s-DLQ)"[^>]*><span', html)
            following = re.search(r'href="(\?[^"]*)" rel="next"', html)
            address = "/dlq" + following[1].replace("&amp;", "&") if following else ""
        assert len(seen) == len(set(seen)) == 120
    assert "t007-s-DLQ" in text_of(operator.get("/dlq?q=t007"))
    assert "No dead-letter topic matches" in text_of(operator.get("/dlq?q=%25"))


def test_letters_are_grouped_by_reason_and_lead_to_redrive_and_discard(operator: Client, shop: Shop) -> None:
    stored = f"{shop.sealed.pk}:5"
    written = write_log(
        DLQ,
        [
            letter(0, exceptionMessage="card declined", ORIGIN_MESSAGE_ID=f"{stored}:-1"),
            letter(1, exceptionMessage="card declined", ORIGIN_MESSAGE_ID="999999:1:-1"),
            letter(2, exception="no such customer", ORIGIN_MESSAGE_ID=f"({shop.sealed.pk},6,-1,-1)"),
            letter(3),
            letter(4, exceptionMessage="acked already"),
        ],
    )
    subscribe(written)
    subscribe(written, "other", acked=5)
    response = operator.get(PAGE)
    words, html = text_of(response), response.content.decode()
    assert "Going by its name, this topic takes the dead letters of billing on orders" in words
    assert "Looked at 5 of 5 entries. That is all of them." in words
    assert "2 card declined exceptionMessage billing of orders" in words
    assert "1 no reason given" in words
    assert "/s/fixing/act/redrive?property_name=exceptionMessage&amp;property_value=card+declined" in html
    assert "/s/fixing/act/redrive?property_name=REAL_SUBSCRIPTION&amp;property_value=billing" in html
    spot = written.spot(0)
    assert f"/s/fixing/act/redrive?id={spot}" in html
    assert f"/s/fixing/act/skip_one?id={spot}" in html
    assert f'href="/t/persistent/public/default/orders/m/{stored}"' in html
    assert f'href="/t/persistent/public/default/orders/m/{shop.sealed.pk}:6"' in html, (
        "as C++ clients write ids"
    )
    assert "999999:1:-1 no longer stored" in words
    assert "nothing to redrive or discard" in words, "of the subscription that has acked everything"
    form = operator.get(f"/t/persistent/public/default/orders-billing-DLQ/s/fixing/act/redrive?id={spot}")
    assert f'value="{spot}"' in form.content.decode()
    assert "No letter waits" in text_of(operator.get(f"{PAGE}?sub=other"))
    grouped = text_of(operator.get(f"{PAGE}?by=ORIGIN_MESSAGE_ID"))
    assert f"1 {stored}:-1 ORIGIN_MESSAGE_ID" in grouped


def test_a_subscription_that_the_list_has_no_room_for_can_be_chosen(
    operator: Client, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.views.dead_letters.one_topic.ROWS", 1)
    written = write_log(DLQ, [letter(0), letter(1)])
    subscribe(written, "first")
    subscribe(written, "second", acked=2)
    assert "No letter waits" not in text_of(operator.get(PAGE))
    words = text_of(operator.get(f"{PAGE}?sub=second"))
    assert "No letter waits" in words
    assert "second 0" in words
    assert operator.get(f"{PAGE}?sub=third").status_code == 200


def test_new_letters_do_not_each_start_a_search(operator: Client, shop: Shop) -> None:
    written = write_log(DLQ, [letter(0)])
    triggers = dict(
        re.findall(
            r'hx-get="[^"]*part=(\w+)[^>]*?hx-trigger="([^"]*)"',
            operator.get(PAGE).content.decode(),
        )
    )
    assert f"sse:topic:{written.topic.pk}" in triggers["readers"]
    assert triggers["letters"] == "every 30s, refresh"


@pytest.mark.parametrize(
    ("rest", "member"), [("", ""), (":-1", ""), (":2", ""), (":2:1", ":1"), (":-1:3", ":3")]
)
def test_a_letter_leads_to_its_original_on_any_partition(
    rest: str, member: str, operator: Client, shop: Shop
) -> None:
    place = f"{shop.open.pk}:3"
    subscribe(write_log(DLQ, [letter(0, ORIGIN_MESSAGE_ID=place + rest)]))
    assert (
        f'href="/t/persistent/public/default/orders/m/{place}{member}"' in operator.get(PAGE).content.decode()
    )


def test_a_reason_of_several_lines_is_not_offered_as_a_filter(operator: Client, shop: Shop) -> None:
    written = write_log(DLQ, [letter(0, exception="card declined\n  at pay()"), letter(1, exception="a\rb")])
    subscribe(written)
    response = operator.get(PAGE)
    assert "property_value=card" not in response.content.decode(), (
        "a field of one line would lose the line break"
    )
    assert text_of(response).count("has several lines") == 2


def test_letters_are_not_called_all_when_the_search_stopped_early(
    operator: Client, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribe(write_log(DLQ, [letter(number) for number in range(5)]))
    assert "All of them" in text_of(operator.get(PAGE))
    monkeypatch.setattr("console.letters.browse.PAGE_BOUNDS", replace(PAGE_BOUNDS, entries=3))
    some = text_of(operator.get(PAGE))
    assert "The oldest 3" in some
    assert "Find messages shows the others" in some

    def cancelled(_: LaneReader) -> None:
        raise OperationalError from QueryCanceled()

    monkeypatch.setattr(LaneReader, "next_piece", cancelled)
    none = text_of(operator.get(PAGE))
    assert "No letter found so far" in none
    for words in (some, none):
        assert "there may be more" in words
        assert "All of them" not in words
        assert "No letter waits" not in words


def test_a_topic_without_a_subscription_says_how_to_keep_its_letters(operator: Client, shop: Shop) -> None:
    write_log(DLQ, [letter(0)])
    response = operator.get(PAGE)
    words = text_of(response)
    assert "The topic has no subscription" in words
    link = re.search(r'href="([^"]*)">Create a subscription', response.content.decode())
    assert link is not None
    form = operator.get(unescape(link[1]))
    assert form.status_code == 200
    assert 'name="name" value="letters"' in form.content.decode()
    assert f"vela subscriptions create {DLQ} letters --earliest" in words
    assert "Stored letters" in words
    assert "letter 0" in words


def test_a_user_who_may_not_read_payloads_sees_numbers_only(looker: Client, shop: Shop) -> None:
    written = write_log(
        DLQ, [letter(0, exception="secret reason", ORIGIN_MESSAGE_ID=f"{shop.sealed.pk}:5:-1")]
    )
    subscribe(written)
    response = looker.get(f"{PAGE}?by=exception")
    words = text_of(response)
    assert "secret" not in response.content.decode()
    assert "letter 0" not in words
    assert "the reasons are hidden" in words
    assert "/act/" not in response.content.decode()
    assert f"/m/{shop.sealed.pk}:5" not in response.content.decode()


def test_hostile_properties_are_shown_and_break_nothing(operator: Client, shop: Shop) -> None:
    hostile: list[dict[str, str]] = [
        {"REAL_TOPIC": HOSTILE, "ORIGIN_MESSAGE_ID": HOSTILE, "exception": HOSTILE},
        {
            "REAL_TOPIC": "",
            "REAL_SUBSCRIPTION": "",
            "ORIGIN_MESSAGE_ID": "9223372036854775807:9223372036854775807",
        },
        {"exception": "x" * 100_000, "REAL_SUBSCRIPTION": "y" * 5000},
        {"ORIGIN_MESSAGE_ID": "99999999999999999999:1", "exception\x00": "z", "": "empty name"},
        {"exception": "nul\x00inside", "REAL_SUBSCRIPTION": "n\x00"},
    ]
    written = write_log(
        DLQ, [*(letter(n, **each) for n, each in enumerate(hostile)), encrypted(letter(9)), b"broken"]
    )
    subscribe(written)
    response = operator.get(PAGE)
    html = response.content.decode()
    assert response.status_code == 200
    assert "<script>alert" not in html
    assert "\u202e" not in html
    assert "\x07" not in html
    assert "x" * 400 not in html
    assert "cannot be decoded" in html
    assert "too long to filter by" in html
    for by in (quote(HOSTILE), "x" * 5000):
        assert operator.get(f"{PAGE}?by={by}&sub={by}").status_code == 200


def test_a_partitioned_topic_leads_to_its_partitions(operator: Client, shop: Shop) -> None:
    parent = make_topic(DLQ)
    parent.partitions = 1
    parent.save()
    written = write_log(f"{DLQ}-partition-0", [letter(0)], parent=parent)
    written.topic.partition = 0
    written.topic.save()
    subscribe(written)
    response = operator.get(PAGE)
    assert "You redrive and discard on one partition at a time" in text_of(response)
    assert "orders-billing-DLQ-partition-0/s/fixing/act/redrive?id=" in response.content.decode()
    assert f"sse:topic:{written.topic.pk} " in response.content.decode()


def test_the_list_costs_as_many_queries_for_fifty_topics_as_for_one(
    operator: Client, shop: Shop, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    subscribe(write_log(DLQ, [letter(0)]))
    with django_assert_num_queries(4 + 7):
        operator.get("/dlq")
    for number in range(30):
        subscribe(write_log(f"persistent://public/default/t{number}-s-DLQ", [letter(0)]))
    with django_assert_num_queries(4 + 7):
        operator.get("/dlq")


def test_the_list_walks_the_index_of_dead_letter_topics(db: None) -> None:
    """Sorted by name, the list walks the index of dead-letter topics and reads no other topic."""
    tenant = Tenant.objects.create(name="many")
    namespace = Namespace.objects.create(tenant=tenant, name="topics")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO vela_topic (namespace_id, name, partitions, partition, properties, policies, created_at)"
            " SELECT %s, 'persistent://many/topics/t' || n || CASE WHEN n %% 50 = 0 THEN '-DLQ' ELSE '' END, 0, -1,"
            " '{}', '{}', now() FROM generate_series(1, 20000) n",
            [namespace.pk],
        )
        cursor.execute("ANALYZE vela_topic")
        values: dict[str, Any] = {"pattern": "", "after_name": "", "after_value": 0.0, "limit": 51}
        values |= EVERYTHING.of_topics
        for order in ("by_name", "by_waiting"):
            cursor.execute(f"EXPLAIN (FORMAT JSON) {over_letters(order)}", values)
            plan = cursor.fetchone()[0]
            assert "vela_topic_dead_letters" in json.dumps(plan), order


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (DLQ, [("orders", "billing")]),
        (f"{DLQ}-partition-12", [("orders", "billing")]),
        ("persistent://a/b/x-y-z-DLQ", [("x", "y-z"), ("x-y", "z")]),
        ("persistent://a/b/-DLQ", []),
        ("persistent://a/b/s-DLQ", []),
        ("persistent://a/b/orders", []),
        ("persistent://a/b/" + "-" * 200 + "-DLQ", None),
    ],
)
def test_the_name_of_a_dead_letter_topic_yields_every_possible_topic_and_subscription(
    name: str, expected: list[tuple[str, str]] | None
) -> None:
    found = list(possible_origins(name))
    if expected is None:
        assert len(found) == 40
    else:
        assert [(topic.rpartition("/")[2], subscription) for topic, subscription in found] == expected
