"""A shop with something on every page: bookmarks, acts, letters, runs, insights, alerts, users."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from django.contrib.auth.models import User
from django.db import connection
from django.utils.timezone import now

from broker.models import (
    AccessToken,
    Act,
    AlertFiring,
    AlertRule,
    Bookmark,
    Cursor,
    InsightHour,
    ParkedPulls,
    PipelineRun,
    PipelineSchedule,
    Subscription,
    SubscriptionState,
    Topic,
    TopicSummary,
)
from console.access import Role
from tests.integration.console.conftest import granted
from tests.integration.console.messages import write_log
from tests.integration.console.shop import INSERT, Shop, make_topic
from tests.integration.console.test_partitioned import add_partition
from tests.support.plans import a_plan
from vela.wire.entry import encode_single

__all__ = ["BILLING", "furnish", "furnish_everything", "put_message"]

ORDERS: Final = "/t/persistent/public/default/orders"
BILLING: Final = f"{ORDERS}/s/billing"
DATES: Final = "/t/persistent/public/default/dates"


def furnish_everything(shop: Shop, word: str) -> dict[str, list[str]]:
    """Fill the shop and add a partitioned topic. Return the addresses of every page, by its name in `console.urls`."""
    furnish(shop, word)
    dates = make_topic("persistent://public/default/dates")
    dates.partitions = 2
    dates.save()
    for number, acked in ((0, 900), (1, 400)):
        add_partition(dates, number, acked, shop.now_ms)
    return _addresses(shop, word)


def furnish(shop: Shop, word: str) -> None:
    """Fill the shop's tables. Every name and text that users choose is `word`."""
    shop.topic.refresh_from_db()
    shop.billing.refresh_from_db()
    put_message(shop, word)
    Bookmark.objects.create(topic=shop.topic, name=word, ledger_id=shop.sealed.pk, entry_id=3, who=word[:150])
    _acts(shop, word)
    _letters(shop, word)
    _jobs(shop, word)
    _insights(shop, word)
    _alerts(shop, word)
    AccessToken.objects.create(id=word, role=word, created_by=word, created_at=now())
    granted(
        User.objects.create_user(word[:150]),
        {f"{word[:255]}/{word[:255]}": Role.OPERATOR, "*": Role.VIEWER},
    )


def put_message(shop: Shop, word: str, *, producer: str = "") -> None:
    """Write the word into entry 6 of the sealed ledger."""
    data = encode_single(
        producer_name=producer or word,
        sequence_id=1,
        publish_time_ms=shop.now_ms,
        payload=word.encode(),
        properties={word: word, "region": "eu", "kind": "order"},
        key=word,
    )
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM vela_entry_1 WHERE ledger_id = %s AND entry_id = 6", [shop.sealed.pk])
        cursor.execute(
            INSERT.replace("vela_entry", "vela_entry_1"), [shop.sealed.pk, 6, 1, shop.now_ms, 7, 700, data]
        )


def _acts(shop: Shop, word: str) -> None:
    """Add a plan, which waits to be applied, and a refused act, whose reason is the word."""
    about: dict[str, Any] = {
        "kind": "reset",
        "topic": shop.topic,
        "subscription": shop.billing,
        "topic_name": shop.topic.name,
        "subscription_name": shop.billing.name,
        "parameters": {"to": "earliest"},
        "plan": a_plan(),
        "who": word[:150],
        "origin": "console 127.0.0.1",
        "reason": word,
        "requested_at": now(),
    }
    Act.objects.create(state="planned", **about)
    Act.objects.create(state="refused", error=word, finished_at=now(), **about)


def _letters(shop: Shop, word: str) -> None:
    """Add a dead-letter topic with two letters, and a parked pull."""
    properties = {"REAL_TOPIC": word, "REAL_SUBSCRIPTION": word, "exception": word, "ORIGIN_MESSAGE_ID": word}
    data = encode_single(
        producer_name=word,
        sequence_id=1,
        publish_time_ms=shop.now_ms,
        payload=word.encode(),
        properties=properties,
    )
    letters = write_log(f"{shop.topic.name}-{shop.billing.name}-DLQ", [data, data], begin_ms=shop.now_ms)
    fixing = Subscription.objects.create(topic=letters.topic, name=word, type="Shared")
    Cursor.objects.create(
        subscription=fixing,
        mark_delete_ledger=letters.ledgers[0].pk,
        mark_delete_entry=-1,
        acked_messages=0,
        acked_entries=0,
        acked_bytes=0,
    )
    TopicSummary.objects.create(
        topic=letters.topic,
        messages_in=2,
        bytes_in=200,
        stored_bytes=200,
        producers=0,
        message_rate_in=0.0,
        byte_rate_in=0.0,
        last_append_ms=shop.now_ms,
        max_backlog_messages=2,
        worst_subscription=word,
        updated_ms=shop.now_ms,
        state=SubscriptionState.STUCK,
    )
    pull = {"offset": 7, "parked_ms": 1, "due_ms": shop.now_ms, "is_filtered": True, "address": word}
    ParkedPulls.objects.create(topic_id=shop.topic.pk, pulls=1, oldest=[pull], updated_ms=shop.now_ms)


def _jobs(shop: Shop, word: str) -> None:
    """Add a run that failed, and a schedule."""
    about = {
        "job": "replay",
        "subject": shop.topic.name,
        "topic_name": shop.topic.name,
        "options": {"where": word},
        "who": word[:150],
    }
    sample = {"id": "1:2", "batch_index": -1, "key": word, "text": word, "size_bytes": 300}
    PipelineRun.objects.create(
        state="failed",
        stages=[{"name": word, "done": 3, "of": 16, "began_ms": shop.now_ms}],
        error=word,
        log=word,
        reason=word,
        worker=word,
        result={"words": word, "messages": 1, "samples": [sample]},
        ended_at=now(),
        **about,
    )
    PipelineSchedule.objects.create(every_minutes=60, next_at=now(), **about)


def _insights(shop: Shop, word: str) -> None:
    InsightHour.objects.create(
        topic_id=shop.topic.pk,
        hour_ms=shop.now_ms - shop.now_ms % 3_600_000,
        messages=10**9,
        size_bytes=10**12,
        keyed_messages=10**9,
        keys=10**8,
        top_keys=[{"key": word, "messages": 10**8, "bytes": 10**9}],
        letters=[{"topic": shop.topic.name, "subscription": word, "messages": 10**6}],
        subscriptions=[
            {
                "name": word,
                "acked": 10**9,
                "redelivered": 0,
                "out": 10**9,
                "ack_p50_ms": 40,
                "ack_p95_ms": 10**8,
                "ack_p99_ms": 10**8,
            }
        ],
        poison=[{"subscription": word, "id": "1234567890:123456", "count": 99}],
        computed_at=now(),
    )


def _alerts(shop: Shop, word: str) -> None:
    """Add a rule, an alert that fires and one that has cleared."""
    rule = AlertRule.objects.create(
        name=word[:100],
        measure="backlog",
        threshold=10,
        for_ms=60_000,
        namespaces="public/default",
        topics=word,
        subscriptions=word,
        severity="critical",
        webhook_url="https://hooks.example.org/T0",
        email=f"{word[:200]}@example.org",
        who=word,
    )
    alert = {
        "rule": rule,
        "rule_name": rule.name,
        "severity": "critical",
        "measure": "backlog",
        "topic_id": shop.topic.pk,
        "subscription_id": shop.billing.pk,
        "namespace_id": shop.topic.namespace_id,
        "topic_name": shop.topic.name,
        "subscription_name": shop.billing.name,
        "value": 14_000,
        "over_since_ms": shop.now_ms - 120_000,
        "fired_ms": shop.now_ms - 60_000,
    }
    AlertFiring.objects.create(**alert)
    AlertFiring.objects.create(cleared_ms=shop.now_ms, **alert)


def _addresses(shop: Shop, word: str) -> dict[str, list[str]]:
    first, refused = Act.objects.order_by("id")
    letter = Topic.objects.get(name__endswith="-DLQ").name.replace("://", "/")
    tabs = ("pulls", "ledgers", "bookmarks", "insights", "compaction")
    return {
        "home": ["/"],
        "topics": ["/topics"],
        "topic_new": ["/topics/new"],
        "dead_letters": ["/dlq"],
        "dead_letter_topic": [f"/dlq/{letter}"],
        "consumers": ["/consumers"],
        "producers": ["/producers"],
        "namespaces": ["/namespaces"],
        "tokens": ["/tokens"],
        "new_namespace": ["/namespaces/new"],
        "namespace": ["/n/public/default"],
        "namespace_policies": ["/n/public/default/policies"],
        "topic": [ORDERS, DATES, *(f"{ORDERS}?tab={name}" for name in tabs)],
        "topic_past": [f"{ORDERS}/past", f"{DATES}/past"],
        "subscription_past": [f"{BILLING}/past"],
        "topic_act": [f"{ORDERS}/act/{name}" for name in ("publish", "bookmark", "delete")],
        "topic_policies": [f"{ORDERS}/policies"],
        "choose": [f"{ORDERS}/choose/reset"],
        "messages": [
            f"{ORDERS}/messages?sub=billing&start=oldest",
            f"{ORDERS}/messages?column=%24.order&column=key&column=property:region",
        ],
        "messages_follow": [f"{ORDERS}/messages/follow"],
        "messages_compare": [f"{ORDERS}/messages/compare?a={shop.sealed.pk}:5&b={shop.sealed.pk}:6"],
        "message": [f"{ORDERS}/m/{shop.sealed.pk}:6"],
        "message_again": [f"{ORDERS}/m/{shop.sealed.pk}:6/again"],
        "subscription": [BILLING, f"{DATES}/s/slow"],
        "act_form": [
            *(f"{BILLING}/act/{kind}" for kind in ("rewind", "reset", "skip", "clear", "redrive")),
            f"{BILLING}/act/disconnect?consumer=clerk&consumer_key=1",
            f"{DATES}/s/slow/act/reset",
        ],
        "bookmarks": ["/bookmarks"],
        "acts": ["/acts"],
        "act": [f"/acts/{first.pk}", f"/acts/{refused.pk}"],
        "account": ["/account"],
        "own_second_factor": ["/account/second-factor"],
        "views": ["/views"],
        "help_index": ["/help"],
        "help": ["/help/runbook/poison", "/help/reference/acts"],
        "users": ["/users"],
        "new_user": ["/users/new"],
        "user": [f"/users/u/{quote(word)}"],
        "alerts": ["/alerts"],
        "new_alert_rule": ["/alerts/new"],
        "alert_rule": [f"/alerts/{AlertRule.objects.get().pk}"],
        "pipeline": ["/pipeline"],
        "job_form": ["/pipeline/jobs/export?topic=orders"],
        "run": [f"/pipeline/runs/{PipelineRun.objects.get().pk}"],
    }
