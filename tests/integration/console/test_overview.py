"""The first page: the worst subscriptions with cause and cure, and the latest acts."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.utils.timezone import now

from broker.acts import requests as acts
from broker.models import (
    Act,
    BrokerProcess,
    Cursor,
    Heartbeat,
    Subscription,
    SubscriptionObstacles,
    SubscriptionState,
    SubscriptionSummary,
    Topic,
    TopicSummary,
)
from console.queries.overview import WORST, DatabaseConnections
from tests.integration.console.fake_acts import FakeActs
from tests.integration.console.pages import text_of
from tests.integration.console.shop import NEVER_SILENT, ORDERS, Shop, make_topic


@pytest.fixture(autouse=True)
def beating(db: None) -> None:
    """Heartbeats of beat and worker that stay fresh for the whole test."""
    for name in ("beat", "worker"):
        Heartbeat.objects.update_or_create(name=name, defaults={"at": now() + NEVER_SILENT})


def judge(subscription: Subscription, state: SubscriptionState, since_ms: int = 1) -> None:
    SubscriptionSummary.objects.filter(subscription=subscription).update(
        state=state.value, state_since_ms=since_ms
    )


def add_cursor(subscription: Subscription) -> None:
    Cursor.objects.create(
        subscription=subscription,
        mark_delete_ledger=-1,
        mark_delete_entry=-1,
        acked_messages=0,
        acked_entries=0,
        acked_bytes=0,
    )


def subscribe(name: str, state: SubscriptionState, *, since_ms: int, waiting: int = 100) -> None:
    """Make a topic with one subscription in this state, with a backlog of `waiting` and no stored messages."""
    topic = make_topic(f"persistent://public/default/of-{name}", backlog=5)
    TopicSummary.objects.filter(topic=topic).update(messages_in=waiting)
    subscription = Subscription.objects.create(topic=topic, name=name, type="Shared")
    add_cursor(subscription)
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
    assert "An operator paused" in shown or "paused the subscription" in shown
    assert f"{shop.backlog:,}".replace(",", "\u202f") in shown
    assert "/s/billing/act/resume" in answer.content.decode()


def test_a_row_says_besides_its_cause_that_a_quota_stops_producers(looker: Client, shop: Shop) -> None:
    Subscription.objects.filter(pk=shop.billing.pk).update(paused=True)
    judge(shop.billing, SubscriptionState.PAUSED)
    assert "producers are stopped" not in text_of(looker.get("/?part=worst"))
    Topic.objects.filter(pk=shop.topic.pk).update(policies={"backlog_quota_bytes": 1})
    shown = text_of(looker.get("/?part=worst"))
    assert "paused" in shown
    assert "This backlog has reached the backlog quota: producers are stopped until it has drained." in shown


def test_a_viewer_sees_the_cause_and_no_button(looker: Client, shop: Shop) -> None:
    Subscription.objects.filter(pk=shop.billing.pk).update(paused=True)
    judge(shop.billing, SubscriptionState.PAUSED)
    answer = looker.get("/")
    assert "paused" in text_of(answer)
    assert "/act/" not in answer.content.decode()


def test_subscriptions_that_keep_up_are_only_counted(looker: Client, shop: Shop) -> None:
    judge(shop.billing, SubscriptionState.KEEPING_UP)
    shown = text_of(looker.get("/?part=worst"))
    assert "keeping up" in shown
    assert "No subscription is stuck, falling behind, paused or draining." in shown
    assert "billing" not in shown


def test_a_subscription_that_is_not_yet_judged_is_not_said_to_be_well(looker: Client, shop: Shop) -> None:
    judge(shop.billing, SubscriptionState.WATCHING)
    shown = text_of(looker.get("/?part=worst"))
    assert "No subscription is known to be stuck: the broker has not judged 1 of them yet." in shown
    assert "No subscription is stuck" not in shown


def test_subscriptions_are_in_order_of_state_then_backlog_then_time_in_the_state(
    looker: Client, shop: Shop
) -> None:
    judge(shop.billing, SubscriptionState.DRAINING)
    for number, (name, state) in enumerate(
        [
            ("young", SubscriptionState.STUCK),
            ("slow", SubscriptionState.FALLING_BEHIND),
            ("old", SubscriptionState.STUCK),
        ]
    ):
        subscribe(name, state, since_ms=100 - number)
    subscribe("large", SubscriptionState.STUCK, since_ms=1000, waiting=101)
    html = looker.get("/?part=worst").content.decode()
    names = ["large", "old", "young", "slow", "billing"]
    assert sorted(names, key=lambda name: html.index(f"/s/{name}")) == names


def test_the_history_of_everything_says_which_topic_an_act_was_on(looker: Client, shop: Shop) -> None:
    Act.objects.create(
        kind="clear",
        state="applied",
        topic=shop.topic,
        subscription=shop.billing,
        topic_name=ORDERS,
        subscription_name="billing",
        who="ada",
        origin="console 127.0.0.1",
        requested_at=now(),
        finished_at=now(),
    )
    assert "on billing orders by ada" in text_of(looker.get("/?part=history_table"))


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


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, shop: Shop) -> FakeActs:
    """A broker that answers at once."""
    fake = FakeActs()
    for name in ("plan", "get"):
        monkeypatch.setattr(acts, name, getattr(fake, name))
    return fake


def poison(subscription: Subscription, redeliveries: int) -> None:
    """Report, as the broker does, that the first message was redelivered while the others got through."""
    judge(subscription, SubscriptionState.KEEPING_UP)
    SubscriptionObstacles.objects.create(
        subscription=subscription,
        blocked=False,
        rate_limited=False,
        gap="",
        active_consumer=0,
        first_redeliveries=redeliveries,
        key_slot=-1,
        key_consumer=0,
        key_waiting_entries=0,
        key_is_draining=False,
    )


def press(client: Client, html: str, address: str) -> Any:
    """Press the button whose address ends with `address`, and return the page that it leads to."""
    (found,) = (
        unescape(each)
        for each in re.findall(r'formaction="([^"]*)"', html)
        if unescape(each).endswith(address)
    )
    answer = client.post(found, {"plan": "address"}, follow=True)
    assert answer.redirect_chain == [("/acts/1", 302)], text_of(answer)
    return answer


def test_a_poison_message_beside_good_ones_is_one_button_from_its_preview(
    operator: Client, shop: Shop, broker: FakeActs
) -> None:
    poison(shop.billing, 3)
    html = operator.get("/?part=decisions").content.decode()
    press(operator, html, f"/s/billing/act/send_to_dead_letters?id={shop.sealed.pk}%3A5")
    kind, topic, subscription, parameters, *_ = broker.asked[0][1]
    assert (kind, topic, subscription) == ("send_to_dead_letters", ORDERS, "billing")
    assert parameters == {"id": f"{shop.sealed.pk}:5"}


def test_a_poison_message_is_listed_if_too_many_subscriptions_are_worse(operator: Client, shop: Shop) -> None:
    poison(shop.billing, 3)
    judge(shop.billing, SubscriptionState.STUCK, since_ms=10_000)
    # It is in the list of the worst subscriptions.
    assert "billing" not in text_of(operator.get("/?part=decisions"))
    for number in range(WORST):
        subscribe(f"s{number}", SubscriptionState.STUCK, since_ms=number, waiting=10_000)
    assert "billing" not in text_of(operator.get("/?part=worst"))
    assert "billing" in text_of(operator.get("/?part=decisions"))


def test_a_message_that_came_back_twice_is_not_poison(operator: Client, shop: Shop) -> None:
    poison(shop.billing, 2)
    assert "billing" not in text_of(operator.get("/?part=decisions"))


@pytest.mark.parametrize(
    ("state", "address", "kind", "said"),
    [
        (1, "-DLQ/s/fixing/act/redrive", "redrive", "7 dead letters wait, and no consumer reads them."),
        (
            None,
            "-DLQ/act/subscription?name=letters&to=earliest&type=Shared",
            "create_subscription",
            "7 dead letters were written, and the topic has no subscription",
        ),
    ],
)
def test_letters_that_nobody_reads_are_one_button_from_the_preview_of_their_cure(
    state: int | None, address: str, kind: str, said: str, operator: Client, looker: Client, broker: FakeActs
) -> None:
    letters = make_topic(f"{ORDERS}-billing-DLQ", backlog=0 if state is None else 7)
    if state is not None:
        fixing = Subscription.objects.create(topic=letters, name="fixing", type="Shared")
        add_cursor(fixing)
    TopicSummary.objects.filter(topic=letters).update(
        messages_in=7, state=state, worst_subscription="" if state is None else "fixing"
    )
    page = operator.get("/?part=decisions")
    assert said in text_of(page)
    press(operator, page.content.decode(), address)
    assert broker.asked[0][1][:3] == (kind, letters.name, "fixing" if state else "")
    assert "formaction" not in looker.get("/?part=decisions").content.decode()


def test_each_subscription_has_its_cause_and_a_link_leads_to_the_others(looker: Client, shop: Shop) -> None:
    for number in range(WORST + 1):
        subscribe(f"s{number}", SubscriptionState.STUCK, since_ms=number)
    shown = text_of(looker.get("/?part=worst"))
    assert "See why" not in shown
    assert "There are more: all topics, the worst first" in shown


def test_the_page_says_once_that_no_broker_runs_and_each_row_has_its_own_cause(
    looker: Client, shop: Shop
) -> None:
    for number in range(3):
        subscribe(f"s{number}", SubscriptionState.STUCK, since_ms=number)
    BrokerProcess.objects.update(seen_at=now() - timedelta(minutes=1))
    shown = text_of(looker.get("/?part=worst"))
    assert shown.count("No broker answers, so nothing is delivered.") == 1
    assert shown.count("so it gets nothing more until half of them are acked") == 1
    assert shown.count("See why") == 3
    BrokerProcess.objects.update(seen_at=now() + NEVER_SILENT)
    assert "No broker answers" not in text_of(looker.get("/?part=worst"))


def test_processes_and_database_are_one_line(looker: Client, shop: Shop) -> None:
    words = text_of(looker.get("/?part=health"))
    assert "Broker ● runs on shop-1 Celery beat ● ticks Tick worker ● ticks Database ● answers" in words
    assert re.search(r"PostgreSQL [\d.]+, \d+ of \d+ connections in use", words)
    BrokerProcess.objects.update(stopped_at=now())
    Heartbeat.objects.all().delete()
    words = text_of(looker.get("/?part=health"))
    assert "Broker ✕ stopped What to do Celery beat ▲ silent What to do Tick worker ○ unknown" in words


@pytest.mark.parametrize(
    ("in_use", "words"),
    [(79, "● answers"), (80, "▲ few connections left"), (95, "✕ almost no connections left")],
)
def test_the_first_page_warns_when_connections_to_the_database_run_out(
    in_use: int, words: str, looker: Client, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = DatabaseConnections(in_use=in_use, most=100, version="16.4")
    monkeypatch.setattr("console.views.overview.database_connections", lambda: found)
    shown = text_of(looker.get("/?part=health"))
    assert f"Database {words} PostgreSQL 16.4, {in_use} of 100 connections in use" in shown
