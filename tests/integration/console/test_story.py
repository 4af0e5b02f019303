"""The delivery story of a message: on the message's page, in `/api/v1`, and if nothing is recorded."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from django.test import Client

from broker.models import Act, DeliveryStory, StoryEvent, Topic
from tests.integration.console.pages import text_of
from tests.integration.console.shop import BATCH_ENTRY, Shop

ORDERS = "/t/persistent/public/default/orders"
API = "/api/v1/topics/persistent/public/default/orders"
OLDER = "There may be older events, which are not shown."
_IDS = count(1)


def row(shop: Shop, event: StoryEvent, at_ms: int, entry: int = 5, **more: Any) -> None:
    """Record an event of the subscription billing, `at_ms` after the shop's now. `at_ms` may be negative."""
    DeliveryStory.objects.create(
        **{
            "id": next(_IDS),
            "subscription_id": shop.billing.pk,
            "event": event,
            "ledger_id": shop.sealed.pk,
            "first_entry": entry,
            "last_entry": entry,
            "at_ms": shop.now_ms + at_ms,
            "until_ms": shop.now_ms + at_ms,
            "events": 1,
            "redelivery_count": 0,
            "consumer_name": "clerk",
            "consumer_address": "10.0.0.7:4000",
            "detail": "",
            "expires_ms": shop.now_ms + 1000,
            **more,
        }
    )


def act(
    shop: Shop,
    kind: str,
    *,
    result: dict[str, Any],
    plan: dict[str, Any] | None = None,
    undo_of: Act | None = None,
) -> Act:
    now = datetime.fromtimestamp((shop.now_ms - 500) / 1000, UTC)
    return Act.objects.create(
        kind=kind,
        state="applied",
        topic=shop.topic,
        subscription=shop.billing,
        topic_name=shop.topic.name,
        subscription_name="billing",
        plan=plan,
        result=result,
        undo_of=undo_of,
        who="alice",
        origin="test",
        requested_at=now,
        finished_at=now,
    )


def billing(client: Client, spot: str) -> dict[str, Any]:
    answer = client.get(f"{API}/messages/{spot}/story")
    assert answer.status_code == 200, answer.content
    return next(each for each in answer.json()["subscriptions"] if each["subscription"] == "billing")


def test_a_story_is_told_in_the_order_in_which_things_happened(operator: Client, shop: Shop) -> None:
    row(
        shop,
        StoryEvent.ACKED,
        -9000,
        consumer_name="till",
        first_entry=0,
        last_entry=9,
        until_ms=shop.now_ms - 1000,
    )
    row(shop, StoryEvent.DELIVERED, -8000, first_entry=3)
    row(shop, StoryEvent.ASKED_AGAIN, -5000)
    row(shop, StoryEvent.DELIVERED, -3000, redelivery_count=1)
    row(shop, StoryEvent.DELIVERED, -7000, entry=6)  # of another message
    spot = f"{shop.sealed.pk}:5"
    told = billing(operator, spot)
    assert [(each["event"], each["consumer"], each["redelivery_count"]) for each in told["events"]] == [
        ("delivered", "clerk", 0),
        ("asked_again", "clerk", 0),
        ("delivered", "clerk", 1),
        ("acked", "till", 0),
    ]
    assert told["events"][1]["words"] == (
        "given back by clerk (10.0.0.7:4000, a negative ack, or its client's ack timeout)"
    )
    words = text_of(operator.get(f"{ORDERS}/m/{spot}"))
    assert "delivered to clerk 10.0.0.7:4000" in words
    assert "· redelivery count 1" in words
    assert words.index("given back by clerk") < words.index("acked by till")
    assert "Only messages that came back are recorded" in words


def test_a_viewer_reads_the_story_without_key_and_payload(looker: Client, shop: Shop) -> None:
    row(shop, StoryEvent.DELIVERED, -8000)
    answer = looker.get(f"{API}/messages/{shop.sealed.pk}:5/story").json()
    assert (answer["producer"], answer["recorded"], answer["kept_ms"]) == ("till", "redelivered", 86_400_000)
    assert "customer-5" not in str(answer)


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("off", "delivery_story is off"),
        ("all", "Every delivery and ack is recorded"),
        ("redelivered", "older than 24 h, or"),
    ],
)
def test_the_page_says_what_is_recorded(operator: Client, shop: Shop, mode: str, words: str) -> None:
    Topic.objects.filter(pk=shop.topic.pk).update(policies={"delivery_story": mode})
    text = text_of(operator.get(f"{ORDERS}/m/{shop.sealed.pk}:5")).replace("\u202f", " ")
    assert words in text


def test_acts_that_passed_a_message_or_brought_it_back_are_in_its_story(operator: Client, shop: Shop) -> None:
    ledger = shop.sealed.pk
    passed = act(shop, "skip", result={"before": f"{ledger}:4", "after": f"{ledger}:6"})
    back = act(shop, "reset", result={"before": f"{ledger}:6", "after": f"{ledger}:-1"})
    # This act did not touch the message.
    act(shop, "skip", result={"before": f"{ledger}:5", "after": f"{ledger}:6"})
    told = billing(operator, f"{ledger}:5")
    assert [(each["event"], each["act"], each["who"]) for each in told["events"]] == [
        ("passed", passed.pk, "alice"),
        ("brought_back", back.pk, "alice"),
    ]
    html = operator.get(f"{ORDERS}/m/{ledger}:5").content.decode()
    assert f"/acts/{passed.pk}" in html


def test_acts_on_one_message_of_a_batch_appear_in_the_story_of_that_message_only(
    operator: Client, shop: Shop
) -> None:
    place = f"{shop.open.pk}:{BATCH_ENTRY}"
    pinned = {"how": "one", "position": place, "remaining": f"{0b11101:x}"}
    letter = "persistent://public/default/orders-billing-DLQ"
    result = {"before": "1:1", "after": "1:1", "letter_topic": letter}
    act(shop, "send_to_dead_letters", result=result, plan={"pinned": pinned})
    assert [each["topic"] for each in billing(operator, f"{place}:1")["events"]] == [letter]
    assert billing(operator, f"{place}:2")["events"] == []
    words = text_of(operator.get(f"{ORDERS}/m/{place}:1"))
    assert "sent to the dead letters by an operator" in words
    assert "orders-billing-DLQ" in words


def test_a_skip_into_a_batch_and_the_undo_of_an_act_on_one_message_are_in_its_story(
    operator: Client, shop: Shop
) -> None:
    batch, before = f"{shop.open.pk}:{BATCH_ENTRY}", f"{shop.open.pk}:{BATCH_ENTRY - 1}"
    stayed = {"before": before, "after": before}
    inside = {"position": batch, "remaining": f"{0b11110:x}"}
    pinned = {"how": "move", "position": before, "remaining": f"{0b11110:x}"}
    skipped = act(shop, "skip", result=stayed | {"inside": inside}, plan={"pinned": pinned})
    pinned = {"how": "one", "position": batch, "remaining": f"{0b10111:x}"}
    one = act(shop, "skip_one", result=stayed, plan={"pinned": pinned})
    undo = act(shop, "undo", result=stayed, plan={"pinned": None}, undo_of=one)
    told = {index: billing(operator, f"{batch}:{index}")["events"] for index in (0, 2, 3)}
    assert {index: [(each["event"], each["act"]) for each in events] for index, events in told.items()} == {
        0: [("passed", skipped.pk)],
        2: [],
        3: [("taken_out", one.pk), ("brought_back", undo.pk)],
    }
    assert "brought back by an undo" in text_of(operator.get(f"{ORDERS}/m/{batch}:3"))


def test_the_page_says_how_much_was_left_out(operator: Client, shop: Shop) -> None:
    for at_ms, first, events in ((-5000, 0, 1200), (-4000, 2, 34), (-4000, 6, 7)):
        row(
            shop,
            StoryEvent.UNRECORDED,
            at_ms,
            first_entry=first,
            last_entry=40_000,
            events=events,
            consumer_name="",
            consumer_address="",
        )
    told = billing(operator, f"{shop.sealed.pk}:5")
    assert told["left_out"] == {
        "at_ms": shop.now_ms - 5000,
        "until_ms": shop.now_ms - 4000,
        "events": 1234,
    }
    assert "Not everything was recorded" in text_of(operator.get(f"{ORDERS}/m/{shop.sealed.pk}:5"))


def test_a_long_story_has_only_its_newest_events(operator: Client, shop: Shop) -> None:
    for number in range(101):
        row(shop, StoryEvent.TIMED_OUT, -5000 + number)
    told = billing(operator, f"{shop.sealed.pk}:5")
    assert (len(told["events"]), told["is_cut"]) == (100, True)
    assert told["events"][0]["at_ms"] == shop.now_ms - 4999
    assert OLDER in text_of(operator.get(f"{ORDERS}/m/{shop.sealed.pk}:5"))


@pytest.mark.parametrize(("acts", "is_cut"), [(50, False), (51, True)])
def test_a_story_says_that_only_the_latest_acts_are_looked_at(
    acts: int, is_cut: bool, operator: Client, shop: Shop
) -> None:
    ledger = shop.sealed.pk
    act(shop, "skip", result={"before": f"{ledger}:4", "after": f"{ledger}:5"})
    for _ in range(acts - 1):  # these acts did not touch the message
        act(shop, "skip", result={"before": f"{ledger}:5", "after": f"{ledger}:6"})
    told = billing(operator, f"{ledger}:5")
    assert (len(told["events"]), told["is_cut"]) == (0 if is_cut else 1, is_cut)
    assert (OLDER in text_of(operator.get(f"{ORDERS}/m/{ledger}:5"))) == is_cut


def test_a_hostile_consumer_name_stays_text(operator: Client, shop: Shop) -> None:
    row(shop, StoryEvent.DELIVERED, -5000, consumer_name="<script>alert(1)</script>\u202e")
    html = operator.get(f"{ORDERS}/m/{shop.sealed.pk}:5").content.decode()
    assert "<script>alert" not in html
