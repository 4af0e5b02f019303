"""The first page: the worst subscriptions with cause and cure, and the latest acts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils.timezone import now

from broker.models import Act, Cursor, Heartbeat, Subscription, SubscriptionState, SubscriptionSummary
from console.views.overview import EXPLAINED
from tests.integration.console.pages import text_of
from tests.integration.console.shop import NEVER_SILENT, ORDERS, Shop, make_topic


@pytest.fixture(autouse=True)
def beating(db: None) -> None:
    """Beat and worker give signs of life."""
    for name in ("beat", "worker"):
        Heartbeat.objects.update_or_create(name=name, defaults={"at": now() + NEVER_SILENT})


def judge(subscription: Subscription, state: SubscriptionState, since_ms: int = 1) -> None:
    SubscriptionSummary.objects.filter(subscription=subscription).update(
        state=state.value, state_since_ms=since_ms
    )


def subscribe(name: str, state: SubscriptionState, *, since_ms: int) -> None:
    """A subscription of a topic of its own, without messages."""
    topic = make_topic(f"persistent://public/default/of-{name}", backlog=5)
    subscription = Subscription.objects.create(topic=topic, name=name, type="Shared")
    Cursor.objects.create(
        subscription=subscription,
        mark_delete_ledger=-1,
        mark_delete_entry=-1,
        acked_messages=0,
        acked_entries=0,
        acked_bytes=0,
    )
    SubscriptionSummary.objects.create(
        subscription=subscription,
        read_ledger=0,
        read_entry=0,
        consumers=0,
        unacked_messages=0,
        replay_entries=0,
        message_rate_out=0.0,
        message_rate_acked=0.0,
        messages_redelivered=0,
        updated_ms=1,
        state=state.value,
        state_since_ms=since_ms,
    )


def test_a_new_vela_says_that_nothing_is_reported(looker: Client) -> None:
    shown = text_of(looker.get("/"))
    assert "The broker has not reported a subscription yet" in shown
    assert "Nobody has requested an act yet" in shown


def test_the_worst_subscription_comes_with_cause_and_cure(operator: Client, shop: Shop) -> None:
    Subscription.objects.filter(pk=shop.billing.pk).update(paused=True)
    judge(shop.billing, SubscriptionState.PAUSED)
    answer = operator.get("/")
    shown = text_of(answer)
    assert "An operator paused" in shown or "paused it" in shown
    assert f"{shop.backlog:,}".replace(",", "\u202f") in shown
    assert "/s/billing/act/resume" in answer.content.decode()


def test_a_viewer_sees_the_cause_and_no_button(looker: Client, shop: Shop) -> None:
    Subscription.objects.filter(pk=shop.billing.pk).update(paused=True)
    judge(shop.billing, SubscriptionState.PAUSED)
    answer = looker.get("/")
    assert "paused" in text_of(answer)
    assert "/act/" not in answer.content.decode()


def test_subscriptions_that_get_on_are_only_counted(looker: Client, shop: Shop) -> None:
    judge(shop.billing, SubscriptionState.KEEPING_UP)
    shown = text_of(looker.get("/?part=worst"))
    assert "keeping up" in shown
    assert "No subscription is stuck, falling behind, paused or draining." in shown
    assert "billing" not in shown


def test_the_worst_state_leads_and_in_it_the_longest(looker: Client, shop: Shop) -> None:
    judge(shop.billing, SubscriptionState.DRAINING)
    for number, (name, state) in enumerate(
        [
            ("young", SubscriptionState.STUCK),
            ("slow", SubscriptionState.FALLING_BEHIND),
            ("old", SubscriptionState.STUCK),
        ]
    ):
        subscribe(name, state, since_ms=100 - number)
    html = looker.get("/?part=worst").content.decode()
    names = ["old", "young", "slow", "billing"]
    assert sorted(names, key=lambda name: html.index(f"/s/{name}")) == names
    assert len(names) == EXPLAINED, "each of these four has its cause"
    assert "See why" not in html


def test_the_latest_acts_are_listed(looker: Client, shop: Shop) -> None:
    for number in range(10):
        Act.objects.create(
            kind="skip",
            state="applied",
            topic=shop.topic,
            subscription=shop.billing,
            topic_name=ORDERS,
            subscription_name="billing",
            parameters={"messages": number + 1},
            who="ada",
            origin="console 127.0.0.1",
            requested_at=now() - timedelta(seconds=number),
        )
    html = looker.get("/?part=acts").content.decode()
    assert html.count('class="name"') == 8
    assert "ada" in html
