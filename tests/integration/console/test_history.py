"""The past on pages and in the API: a table without scripts, sparklines in lists, the acts of that time."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils.timezone import now

from broker.models import Act, Cursor, StatsPoint10s, StatsPoint60s, StatsProgress, Subscription, Topic
from console.queries.history import history_of_partitions
from console.queries.numbers import cursors_named
from console.queries.topics.log import ends_of
from tests.integration.console.pages import text_of
from tests.integration.console.shop import LONG_AGO, Shop, make_topic

ORDERS = "/t/persistent/public/default/orders"
BILLING = f"{ORDERS}/s/billing"
API = "/api/v1/topics/persistent/public/default/orders"
NOW_MS = int(time.time() * 1000)


def minutes_ago(minutes: int) -> int:
    """Return the beginning of a bucket."""
    return NOW_MS // 60_000 * 60_000 - minutes * 60_000


def add(model: Any, topic_id: int, subscription_id: int = 0, *, minutes: int, **values: int | None) -> None:
    """Add a point of 10 messages a second, after which the backlog is 14."""
    length_s = int(re.findall(r"\d+", model._meta.db_table)[0])
    model.objects.create(
        **{
            "at_ms": minutes_ago(minutes),
            "topic_id": topic_id,
            "subscription_id": subscription_id,
            "messages_in": None if subscription_id else 10 * length_s,
            "bytes_in": None if subscription_id else 1000 * length_s,
            "messages_out": 5 * length_s,
            "messages_acked": 4 * length_s,
            "messages_redelivered": length_s,
            "backlog_before": 20,
            "backlog": 14,
            "backlog_most": 1234,
            "stored_bytes": None if subscription_id else 5_000_000,
            "ack_latencies": [0] * 6 + [40] if subscription_id else None,  # 32 to 63 ms
            **values,
        }
    )


@pytest.fixture
def past(shop: Shop) -> Shop:
    """Points half an hour ago."""
    for subscription_id in (0, shop.billing.pk):
        add(StatsPoint10s, shop.topic.pk, subscription_id, minutes=30)
        add(StatsPoint60s, shop.topic.pk, subscription_id, minutes=30)
    return shop


def rolled_until(minutes: int) -> None:
    """Record that Celery has rolled up all points that are older than this."""
    StatsProgress.objects.create(resolution_s=60, until_ms=minutes_ago(minutes))


def an_act(shop: Shop, **values: Any) -> Act:
    """Add an act that was applied 20 minutes ago."""
    return Act.objects.create(
        **{
            "kind": "clear",
            "state": "applied",
            "topic": shop.topic,
            "subscription": shop.billing,
            "topic_name": shop.topic.name,
            "subscription_name": "billing",
            "who": "ada",
            "origin": "console",
            "requested_at": now(),
            "finished_at": now() - timedelta(minutes=20),
            **values,
        }
    )


def steps_of(answer: Any) -> dict[int, dict[str, Any]]:
    """Return the steps of an answer, by their beginning."""
    assert answer.status_code == 200, answer.content
    return {step["at_ms"]: step for step in answer.json()["steps"]}


@pytest.mark.parametrize("address", [API, f"{API}/subscriptions/billing"])
def test_an_hour_is_answered_in_steps_of_ten_seconds(address: str, looker: Client, past: Shop) -> None:
    answer = looker.get(f"{address}/history")
    steps = steps_of(answer)
    assert len(steps) == 360
    is_topic = address == API
    assert steps[minutes_ago(30)] == {
        "at_ms": minutes_ago(30),
        "message_rate_in": 10.0,
        "byte_rate_in": 1000.0,
        "message_rate_out": 5.0,
        "message_rate_acked": 4.0,
        "message_rate_redelivered": 1.0,
        "backlog_messages": 14,
        "backlog_most_messages": 1234,
        "stored_bytes": 5_000_000 if is_topic else None,
        "ack_p50_ms": None if is_topic else 48,
        "ack_p95_ms": None if is_topic else 62,
        "ack_p99_ms": None if is_topic else 64,
    }
    assert steps[minutes_ago(31)]["backlog_messages"] == 20
    assert steps[minutes_ago(29)] | {"at_ms": 0} == steps[minutes_ago(1)] | {"at_ms": 0}
    assert steps[minutes_ago(29)]["message_rate_in"] == 0
    assert steps[minutes_ago(29)]["backlog_messages"] == 14


def test_points_that_are_not_rolled_up_yet_fill_longer_times(looker: Client, past: Shop) -> None:
    def messages() -> float:
        steps = steps_of(looker.get(f"{API}/history?range=24h")).values()
        return sum(step["message_rate_in"] or 0 for step in steps) * 600

    assert messages() == pytest.approx(100)  # from the point of 10 s
    rolled_until(10)
    assert messages() == pytest.approx(600)  # from the point of a minute
    for window, length, count in (("6h", 60, 360), ("24h", 600, 144), ("30d", 7200, 360)):
        answer = looker.get(f"{API}/history?range={window}")
        assert (answer.json()["step_s"], len(answer.json()["steps"])) == (length, count)


def test_time_whose_points_were_never_rolled_up_is_unknown_and_not_quiet(looker: Client, past: Shop) -> None:
    add(StatsPoint10s, past.topic.pk, minutes=10 * 60, backlog=400)
    answer = looker.get(f"{API}/history?range=24h")
    steps = list(steps_of(answer).values())
    assert {steps[0][name] for name in ("message_rate_in", "backlog_messages", "stored_bytes")} == {None}
    assert {step["message_rate_in"] for step in steps[:100]} == {None}
    assert (steps[-12]["message_rate_in"], steps[-12]["backlog_messages"]) == (0, 20)


def test_a_subscription_of_partitions_is_answered_in_minutes_as_their_sum(looker: Client, past: Shop) -> None:
    parent: Topic = make_topic("persistent://public/default/spread")
    parent.partitions = 2
    parent.save()
    for number in range(2):
        topic = make_topic(f"{parent.name}-partition-{number}", parent=parent)
        topic.partition = number
        topic.save()
        both = Subscription.objects.create(topic=topic, name="both", type="Shared", paused=False)
        Subscription.objects.filter(pk=both.pk).update(created_at=LONG_AGO)
        Cursor.objects.create(
            subscription=both,
            mark_delete_ledger=1,
            mark_delete_entry=-1,
            acked_messages=0,
            acked_entries=0,
            acked_bytes=0,
        )
        for subscription_id in (0, both.pk):
            add(StatsPoint60s, topic.pk, subscription_id, minutes=30)
    an_act(past, topic=parent, topic_name=parent.name, subscription=None, subscription_name="both")
    an_act(past, topic=parent, topic_name=parent.name, subscription=None, subscription_name="other")
    rolled_until(10)
    answer = looker.get(f"{API.replace('orders', 'spread')}/subscriptions/both/history")
    steps = steps_of(answer)
    assert len(steps) == 60
    at = steps[minutes_ago(30)]
    assert (at["message_rate_in"], at["message_rate_acked"], at["backlog_messages"]) == (20.0, 8.0, 28)
    assert (at["backlog_most_messages"], at["ack_p50_ms"], at["stored_bytes"]) == (2468, 48, None)
    assert steps[minutes_ago(31)]["backlog_messages"] == 40
    assert [act["subscription"] for act in answer.json()["acts"]] == ["both"]
    page = looker.get(f"{ORDERS.replace('orders', 'spread')}/s/both")
    assert 'data-chart="acks"' in page.content.decode()
    assert "1 act in this period" in text_of(page)


def test_a_subscription_that_was_just_deleted_from_its_partitions_has_an_unknown_past(past: Shop) -> None:
    ends = ends_of(past.topic.pk)
    rows = cursors_named(past.topic.pk, ends, "billing", limit=1)
    past.billing.delete()
    found = history_of_partitions(past.topic.pk, rows, "1h")
    assert {step.message_rate_out for step in found.steps} == {None}


def test_sums_over_partitions_and_topics_are_in_minutes_and_unknown_after_the_last(
    looker: Client, past: Shop
) -> None:
    parent: Topic = make_topic("persistent://public/default/spread")
    parent.partitions, parent.created_at = 2, LONG_AGO
    parent.save()
    rolled_until(10)
    for topic_id in (parent.pk, 0):
        add(StatsPoint60s, topic_id, minutes=30)
    for address in (API.replace("orders", "spread"), "/api/v1"):
        steps = steps_of(looker.get(f"{address}/history"))
        assert len(steps) == 60
        assert steps[minutes_ago(30)]["message_rate_in"] == 10.0
        assert steps[minutes_ago(11)]["message_rate_in"] == 0
        assert steps[minutes_ago(10)]["message_rate_in"] is None
        assert steps[minutes_ago(10)]["backlog_messages"] is None


def test_the_acts_of_the_shown_time_are_listed_and_no_others(looker: Client, past: Shop) -> None:
    shown = an_act(past)
    of_topic = an_act(past, kind="truncate", subscription=None, subscription_name="")
    an_act(past, state="refused")
    an_act(past, kind="commit")
    an_act(past, finished_at=now() - timedelta(hours=2))
    other = make_topic("persistent://public/default/other")
    an_act(past, topic=other, topic_name=other.name, subscription=None, subscription_name="")
    for address in (API, f"{API}/subscriptions/billing"):
        acts = looker.get(f"{address}/history").json()["acts"]
        assert {act["id"] for act in acts} == {shown.pk, of_topic.pk}
    assert acts[0].keys() == {"id", "kind", "asked", "topic", "subscription", "who", "at_ms"}
    assert len(looker.get("/api/v1/history").json()["acts"]) == 3
    assert len(looker.get(f"{API}/history?range=6h").json()["acts"]) == 3


def test_acts_on_a_deleted_subscription_are_not_in_the_history_of_another(looker: Client, past: Shop) -> None:
    deleted = an_act(past, subscription=None, subscription_name="shipping")
    assert looker.get(f"{API}/subscriptions/billing/history").json()["acts"] == []
    (of_topic,) = looker.get(f"{API}/history").json()["acts"]
    assert of_topic["id"] == deleted.pk


@pytest.mark.parametrize("address", [ORDERS, BILLING])
def test_without_scripts_there_is_a_table(address: str, looker: Client, past: Shop) -> None:
    act = an_act(past)
    response = looker.get(f"{address}?range=1h")
    text = text_of(response)
    assert "Each row covers 60 s" in text
    assert "14 1 234 1.7/s 0.8/s 0.7/s 0.2/s" in text  # a minute of which 10 s were busy
    assert response.content.decode().count("<tr>") >= 60
    assert "clear the backlog on billing by ada" in text
    assert f'href="/acts/{act.pk}"' in response.content.decode()


def test_a_time_is_in_the_address_and_keeps_the_tab(looker: Client, past: Shop) -> None:
    html = looker.get(f"{ORDERS}?tab=ledgers&range=6h").content.decode()
    assert 'href="?tab=ledgers&amp;range=30d"' in html
    assert re.search(r'href="\?tab=ledgers&amp;range=6h"\s+aria-current="true"', html)
    assert 'data-history="/api/v1/topics/persistent/public/default/orders/history?range=6h"' in html
    assert "6 hours" in html
    assert "range=1h" in looker.get(f"{ORDERS}?range=nonsense").content.decode()


def test_lists_draw_the_last_hour(looker: Client, past: Shop) -> None:
    now_ms = int(time.time() * 1000)
    progress = StatsProgress.objects.create(resolution_s=60, until_ms=now_ms - now_ms % 60_000)
    for address in ("/topics", ORDERS):
        html = looker.get(address).content.decode()
        label = "Backlog: 20 an hour ago, at most 1 234, now 14"
        assert label in html.replace("\u202f", " ").replace("now 12", "now 14"), address
        path = re.findall(r'<path d="(M0 [^"]+H96)"', html)
        assert len(path) == 1
        assert path[0].count("V") >= 2
    make_topic("persistent://public/default/quiet")
    html = looker.get("/topics").content.decode()
    assert "an hour ago, at most" in html
    StatsProgress.objects.filter(pk=progress.pk).update(until_ms=now_ms - 900_000)
    html = looker.get("/topics").content.decode()
    assert "an hour ago, at most" not in html, "the minutes since then are not rolled up"
