"""The block "Why" of a subscription's page, and the same in the API: causes from stored rows, with cures that open
forms with values filled in.
"""

from __future__ import annotations

import html
import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.test import Client
from django.utils.timezone import now
from pytest_django import Settings

from broker.models import (
    Act,
    BrokerProcess,
    ConsumerDeparture,
    ConsumerSession,
    Cursor,
    DelayedEntry,
    Heartbeat,
    Namespace,
    PendingAck,
    Segment,
    Subscription,
    SubscriptionObstacles,
    SubscriptionSummary,
    TopicSummary,
)
from console.diagnosis.snapshot import Database, Snapshot
from console.queries.diagnosis.snapshots import read_snapshots
from console.queries.subscription import subscription_head
from tests.integration.console.pages import text_of
from tests.integration.console.shop import NEVER_SILENT, ORDERS, Shop, connect, make_topic
from tests.support.waiting import wait_until

BILLING = "/t/persistent/public/default/orders/s/billing"
DIAGNOSIS = "/api/v1/topics/persistent/public/default/orders/subscriptions/billing/diagnosis"


@pytest.fixture(autouse=True)
def beating(db: None) -> None:
    """Store fresh heartbeats of beat and worker."""
    for name in ("beat", "worker"):
        Heartbeat.objects.update_or_create(name=name, defaults={"at": now() + NEVER_SILENT})


def findings(client: Client) -> list[dict[str, Any]]:
    answer = client.get(DIAGNOSIS)
    assert answer.status_code == 200, answer.content
    found: list[dict[str, Any]] = answer.json()["findings"]
    return found


def leads(client: Client) -> str:
    return str(findings(client)[0]["rule"])


def snapshot(shop: Shop) -> Snapshot:
    head = subscription_head(ORDERS, "billing")
    assert head is not None
    found = read_snapshots([head], now_ms=shop.now_ms).get(head.id)
    assert found is not None
    return found


def test_a_wrong_clock_of_the_console_does_not_make_the_processes_look_silent(shop: Shop) -> None:
    BrokerProcess.objects.update(seen_at=now())
    Heartbeat.objects.update(at=now())
    head = subscription_head(ORDERS, "billing")
    assert head is not None
    for wrong_ms in (86_400_000, -86_400_000):
        found = read_snapshots([head], now_ms=shop.now_ms + wrong_ms)[head.id]
        seen = (found.processes.broker_seen_ms, found.processes.beat_seen_ms, found.processes.worker_seen_ms)
        assert all(abs(found.now_ms - each) < 3_600_000 for each in seen)


def test_the_page_begins_with_the_cause(operator: Client, shop: Shop) -> None:
    words = text_of(operator.get(f"{BILLING}?part=why"))
    assert "Why ✕ critical clerk has as many unacked messages as one consumer may have" in words
    assert "in flight at clerk 1 message" in words
    page = operator.get(BILLING).content.decode()
    assert page.index('id="part-why"') < page.index('id="part-numbers"')


def test_every_finding_leads_to_the_runbook(operator: Client, shop: Shop) -> None:
    why = operator.get(f"{BILLING}?part=why").content.decode()
    assert 'href="/help/runbook/consumer-limit"' in why
    assert [each["runbook"] for each in findings(operator)] == [
        f"http://testserver/help/runbook/{each['rule'].replace('_', '-')}" for each in findings(operator)
    ]


def test_a_cure_is_one_button_from_its_preview(operator: Client, shop: Shop) -> None:
    ConsumerSession.objects.update(blocked=False, permits=5, writable=True)
    why = operator.get(f"{BILLING}?part=why").content.decode()
    assert "was redelivered 3 times" in why
    (link,) = re.findall(r'form="cures"\s+formaction="([^"]*skip_one[^"]*)"', why)
    assert '<form method="post" id="cures">' in operator.get(BILLING).content.decode()
    form = operator.get(html.unescape(link)).content.decode()
    assert f'value="{shop.sealed.pk}:5"' in form


def test_a_viewer_sees_what_helps_without_a_button(looker: Client, shop: Shop) -> None:
    why = looker.get(f"{BILLING}?part=why").content.decode()
    assert "Redeliver the messages that clerk has" in why
    assert "/act/" not in why


def test_the_block_is_read_again_every_ten_seconds(operator: Client, shop: Shop) -> None:
    assert re.search(
        r'id="part-why".*?hx-trigger="[^"]*every 10s', operator.get(BILLING).content.decode(), re.DOTALL
    )


def test_names_in_a_finding_are_shown_as_text(operator: Client, shop: Shop) -> None:
    ConsumerSession.objects.update(name="<b>x</b>\u202e")
    why = operator.get(f"{BILLING}?part=why").content.decode()
    assert "<b>" not in why
    assert "\u202e" not in re.sub(r'href="[^"]*"', "", why)


def test_a_paused_subscription_says_who_paused_it_last(operator: Client, shop: Shop) -> None:
    Subscription.objects.update(paused=True)
    for who, minutes in (("ada", 1), ("bob", 9)):  # Bob planned his pause later, and applied it earlier
        Act.objects.create(
            kind="pause",
            state="applied",
            subscription=shop.billing,
            topic_name=ORDERS,
            subscription_name="billing",
            who=who,
            origin="console",
            reason="deploy",
            requested_at=now(),
            finished_at=now() - timedelta(minutes=minutes),
        )
    found = findings(operator)[0]
    assert (found["rule"], found["severity"]) == ("paused", "stopped")
    assert found["sentence"].startswith("ada paused the subscription")
    assert {"label": "reason", "value": "deploy", "unit": "text"} in found["evidence"]
    assert found["cures"] == [
        {"text": "Resume", "act": "resume", "parameters": {}, "block": "", "topic": "", "letters": ""}
    ]


def test_without_a_consumer_the_diagnosis_says_who_left(operator: Client, shop: Shop) -> None:
    ConsumerSession.objects.all().delete()
    PendingAck.objects.all().delete()
    SubscriptionSummary.objects.update(consumers=0)
    ConsumerDeparture.objects.create(
        subscription=shop.billing,
        name="clerk",
        address="10.0.0.9:5000",
        client_version="Pulsar-CPP-v3.8.0",
        cause="broker",
        detail="an operator disconnected it",
        connected_ms=shop.now_ms - 90_000,
        left_ms=shop.now_ms - 20_000,
    )
    found = findings(operator)[0]
    assert found["rule"] == "no_consumer"
    assert "the broker closed it: an operator disconnected it" in found["sentence"]
    assert {"label": "left", "value": shop.now_ms - 20_000, "unit": "time"} in found["evidence"]


def test_without_a_broker_the_first_cause_is_the_missing_broker(operator: Client, shop: Shop) -> None:
    BrokerProcess.objects.update(seen_at=now() - timedelta(seconds=20))
    assert leads(operator) == "no_broker"


def test_an_obstacle_that_the_broker_reported_is_a_finding(operator: Client, shop: Shop) -> None:
    row = SubscriptionObstacles.objects.create(
        subscription=shop.billing,
        blocked=True,
        rate_limited=False,
        gap="",
        read_fault="",
        active_consumer=0,
        first_redeliveries=0,
        key_slot=-1,
        key_consumer=0,
        key_waiting_entries=0,
        key_is_draining=False,
    )
    ConsumerSession.objects.update(blocked=False)
    assert leads(operator) == "subscription_limit"
    row.gap = "entry 3:4 is missing"
    row.save()
    assert leads(operator) == "log_gap"
    row.gap, row.read_fault = "", "cannot read s3://history/7/12-a.parquet: no answer"
    row.save()
    found = findings(operator)[0]
    assert found["rule"] == "unreadable_log"
    assert {"label": "the latest attempt", "value": row.read_fault, "unit": "text"} in found["evidence"]
    assert "or the file, from a backup" in found["cures"][0]["text"]


def test_the_diagnosis_counts_the_cursor_in_entries(shop: Shop) -> None:
    found = snapshot(shop).cursor
    # 16 entries; 0-4 and 7 are acked, 5 is in flight, the read position is 6.
    assert (found.unacked_entries, found.unread_entries, found.in_flight_entries) == (10, 9, 1)
    assert (found.first_hole_entries, found.acked_behind_entries) == (2, 1)
    assert found.first is not None
    assert (found.first.position, found.first.consumer_name) == (f"{shop.sealed.pk}:5", "clerk")
    assert found.first.redelivery_count == 3


def test_the_redelivery_count_of_an_entry_that_waits_comes_from_the_broker(shop: Shop) -> None:
    PendingAck.objects.all().delete()
    SubscriptionObstacles.objects.create(
        subscription=shop.billing,
        blocked=False,
        rate_limited=True,
        gap="",
        read_fault="",
        active_consumer=0,
        first_redeliveries=7,
        key_slot=12,
        key_consumer=1,
        key_waiting_entries=4,
        key_is_draining=True,
    )
    found = snapshot(shop)
    assert found.cursor.first is not None
    assert (found.cursor.first.redelivery_count, found.cursor.first.consumer_key) == (7, 0)
    assert found.subscription.is_rate_limited
    block = found.subscription.key_block
    assert block is not None
    assert (block.slot, block.consumer_name, block.waiting_entries) == (12, "clerk", 4)


def test_delayed_entries_that_are_acked_do_not_count(shop: Shop) -> None:
    due_ms = shop.now_ms + 60_000
    for number, entry in enumerate((3, 6, 7, 8)):  # 3 and 7 are acked
        DelayedEntry.objects.create(
            topic_id=shop.topic.pk, deliver_at_ms=due_ms + number, ledger_id=shop.sealed.pk, entry_id=entry
        )
    DelayedEntry.objects.create(
        topic_id=shop.topic.pk, deliver_at_ms=shop.now_ms - 1, ledger_id=shop.sealed.pk, entry_id=9
    )
    found = snapshot(shop).delayed
    assert found is not None
    assert (found.entries, found.next_due_ms, found.is_whole) == (2, due_ms + 1, True)


def test_entries_may_be_delayed_if_those_that_were_counted_are_acked(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.queries.diagnosis.snapshots._DELAYED_READ", 1)
    for number, entry in enumerate((3, 6)):  # 3 is acked
        DelayedEntry.objects.create(
            topic_id=shop.topic.pk,
            deliver_at_ms=shop.now_ms + 60_000 + number,
            ledger_id=shop.sealed.pk,
            entry_id=entry,
        )
    found = snapshot(shop)
    assert found.delayed is not None
    assert (found.delayed.entries, found.delayed.is_whole, found.ready_entries) == (0, False, None)


@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
def test_no_entry_is_delayed_on_a_subscription_that_gets_delayed_ones_at_once(kind: str, shop: Shop) -> None:
    Subscription.objects.filter(pk=shop.billing.pk).update(type=kind)
    DelayedEntry.objects.create(
        topic_id=shop.topic.pk, deliver_at_ms=shop.now_ms + 60_000, ledger_id=shop.sealed.pk, entry_id=6
    )
    found = snapshot(shop)
    assert (found.delayed, found.ready_entries) == (None, 9)


def test_no_entry_is_delayed_if_a_policy_switches_delivery_times_off(shop: Shop) -> None:
    DelayedEntry.objects.create(
        topic_id=shop.topic.pk, deliver_at_ms=shop.now_ms + 60_000, ledger_id=shop.sealed.pk, entry_id=6
    )
    assert snapshot(shop).delayed is not None
    shop.topic.policies = {"delayed_delivery": False}
    shop.topic.save()
    assert snapshot(shop).delayed is None


def test_each_limit_names_the_place_where_it_is_set(shop: Shop) -> None:
    Namespace.objects.update(policies={"dispatch_rate_bytes": 1000, "max_unacked_per_consumer": 7})
    shop.topic.policies = {"subscription_dispatch_rate_messages": 5}
    shop.topic.save()
    found = snapshot(shop).limits
    assert [(each.policy, each.per_second, each.set_on) for each in found.dispatch_rates] == [
        ("dispatch_rate_bytes", 1000, "namespace"),
        ("subscription_dispatch_rate_messages", 5, "topic"),
    ]
    assert found.unacked_per_consumer == 7
    assert found.unacked_per_subscription == 200_000


def test_a_partition_has_the_dead_letter_topic_of_its_topic(shop: Shop) -> None:
    assert snapshot(shop).dead_letters is None
    letters = make_topic(f"{ORDERS}-billing-DLQ", backlog=3)
    TopicSummary.objects.filter(topic=letters).update(messages_in=4)
    found = snapshot(shop).dead_letters
    assert found is not None
    assert (found.messages, found.subscriptions, found.consumers, found.backlog_messages) == (4, 0, 0, 3)
    parent = make_topic("persistent://public/default/parted")
    shop.topic.parent = parent
    shop.topic.save()
    assert snapshot(shop).dead_letters is None
    make_topic("persistent://public/default/parted-billing-DLQ")
    assert snapshot(shop).dead_letters is not None


def test_a_partitioned_dead_letter_topic_has_the_numbers_of_its_partitions(shop: Shop) -> None:
    letters = f"{ORDERS}-billing-DLQ"
    parent = make_topic(letters)
    parts = [make_topic(f"{letters}-partition-{number}", backlog=3, parent=parent) for number in range(2)]
    TopicSummary.objects.filter(topic__in=parts).update(messages_in=4)
    for part in parts:
        reader = Subscription.objects.create(topic=part, name="letters", type="Shared")
        SubscriptionSummary.objects.create(
            subscription=reader,
            acked_messages=1,
            acked_bytes=1,
            read_ledger=1,
            read_entry=0,
            consumers=2,
            unacked_messages=0,
            replay_entries=0,
            message_rate_out=0.0,
            message_rate_acked=0.0,
            messages_redelivered=0,
            updated_ms=shop.now_ms,
        )
    found = snapshot(shop).dead_letters
    assert found is not None
    assert (found.messages, found.subscriptions, found.consumers, found.backlog_messages) == (8, 2, 4, 6)


def test_the_oldest_delivery_of_a_consumer_is_known_beyond_the_deliveries_that_are_read(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.queries.diagnosis.snapshots.PENDING_READ", 1)
    connect(shop.billing, key=2, now_ms=shop.now_ms)
    ConsumerSession.objects.filter(key=1).update(oldest_delivered_ms=shop.now_ms - 3000)
    ConsumerSession.objects.filter(key=2).update(name="other", oldest_delivered_ms=shop.now_ms - 9000)
    clerk, other = snapshot(shop).consumers
    assert (clerk.oldest_delivered_ms, clerk.oldest_position) == (shop.now_ms - 3000, f"{shop.sealed.pk}:5")
    assert (other.oldest_delivered_ms, other.oldest_position) == (shop.now_ms - 9000, "")


def test_many_consumers_of_one_subscription_do_not_hide_those_of_another(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.queries.diagnosis.snapshots.CONSUMERS_SHOWN", 1)
    audit = Subscription.objects.create(topic=shop.topic, name="audit", type="Shared")
    Cursor.objects.create(
        subscription=audit,
        mark_delete_ledger=-1,
        mark_delete_entry=-1,
        acked_messages=0,
        acked_entries=0,
        acked_bytes=0,
    )
    for subscription, key in ((shop.billing, 2), (audit, 3)):
        connect(subscription, key=key, now_ms=shop.now_ms)
    heads = [subscription_head(ORDERS, name) for name in ("billing", "audit")]
    found = read_snapshots([head for head in heads if head is not None], now_ms=shop.now_ms)
    assert [[each.key for each in found[pk].consumers] for pk in (shop.billing.pk, audit.pk)] == [[1], [3]]


def test_only_the_subscription_that_pins_the_oldest_segment_has_the_finding(shop: Shop) -> None:
    found = snapshot(shop).oldest_segment
    assert found is not None
    assert found.ledgers == 2
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(id) - 1 FROM vela_segment")
        (older,) = cursor.fetchone()
    Segment.objects.create(pk=older, opened_ms=1, closed_ms=2, state="closed")
    assert snapshot(shop).oldest_segment is None


def test_the_diagnosis_finds_the_slowest_cursor_of_the_topic(shop: Shop) -> None:
    found = snapshot(shop).slowest
    assert found is not None
    assert (found.name, found.backlog_bytes) == ("billing", 2000 - 600)


def test_a_subscription_that_does_not_exist_gets_404(operator: Client, shop: Shop) -> None:
    assert operator.get(DIAGNOSIS.replace("billing", "nope")).status_code == 404


def stranger(**options: Any) -> psycopg.Connection[tuple[Any, ...]]:
    """Return a new connection whose name looks like one of Vela's."""
    parameters = connection.get_connection_params()
    wanted = {name: parameters[name] for name in ("host", "port", "dbname", "user", "password")}
    return psycopg.connect(**wanted, application_name="vela test", **options)


def database_with_a_wait(shop: Shop) -> Database:
    """Return what the console reads about the database once a statement of Vela waits for a lock."""

    def look() -> Database | None:
        found = snapshot(shop).database
        return found if found is not None and found.waiting_statements else None

    found = wait_until(look, "a statement that waits")
    assert found is not None
    return found


@pytest.mark.django_db(transaction=True)  # within one transaction pg_stat_activity does not change
@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        (
            "UPDATE auth_user SET password = 'pbkdf2$' || 'it''s', is_staff = true WHERE id = 4711",
            "UPDATE auth_user SET password = ? || ?, is_staff = true WHERE id = ?",
        ),
        (
            r"UPDATE auth_user SET password = E'a\'b', last_name = 'c\' WHERE first_name = 'secret'",
            "UPDATE auth_user SET password = ?, last_name = ? WHERE first_name = ?",
        ),
        ("UPDATE auth_user SET password = $x$it's secret$x$", "UPDATE auth_user SET password = ?"),
        (
            "UPDATE auth_user -- it's\nSET password = 'secret' WHERE id = -47.5",
            "UPDATE auth_user ?\nSET password = ? WHERE id = -?",
        ),
        (f"UPDATE auth_user SET password = '{'secret ' * 200}'", "UPDATE auth_user SET password = ?"),
    ],
)
def test_a_waiting_statement_is_shown_without_its_literals(shop: Shop, statement: str, shown: str) -> None:
    with stranger() as holder, stranger() as waiter, ThreadPoolExecutor(1) as pool:
        holder.execute("LOCK TABLE auth_user IN SHARE ROW EXCLUSIVE MODE")
        blocked = pool.submit(waiter.execute, statement.encode())
        found = database_with_a_wait(shop)
        waiter.cancel()
        with pytest.raises(psycopg.errors.QueryCanceled):
            blocked.result(10)
        waiter.rollback()
        assert (found.waiting_query, found.waiting_statements) == (shown, 1)
        assert (found.blocking_pid, found.blocking_program) == (holder.info.backend_pid, "vela test")


@pytest.mark.django_db(transaction=True)
def test_a_wait_counts_from_when_the_lock_was_asked_for(shop: Shop) -> None:
    """For its first half second, the statement waits for an advisory lock. This wait counts as work."""
    work = "DO 'BEGIN PERFORM pg_advisory_xact_lock(4711); LOCK TABLE auth_user; END'"
    working = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory' AND query_start < now() - interval '0.5 s'"
    with (
        stranger() as holder,
        stranger() as waiter,
        stranger(autocommit=True) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        holder.execute("LOCK TABLE auth_user IN SHARE ROW EXCLUSIVE MODE")
        other.execute("SELECT pg_advisory_lock(4711)")
        blocked = pool.submit(waiter.execute, work.encode())
        wait_until(lambda: other.execute(working.encode()).fetchone(), "half a second of work")
        asked = time.monotonic()
        other.execute("SELECT pg_advisory_unlock(4711)")
        found = database_with_a_wait(shop)
        waited_at_most_s = time.monotonic() - asked
        holder.rollback()
        blocked.result(10)
        waiter.rollback()
    assert 0 < found.longest_wait_s <= waited_at_most_s


def test_the_disk_of_the_embedded_server_is_watched(shop: Shop, settings: Settings, tmp_path: Path) -> None:
    settings.EMBEDDED_DATABASE_DIR = None
    assert snapshot(shop).disk is None
    settings.EMBEDDED_DATABASE_DIR = tmp_path
    found = snapshot(shop).disk
    assert found is not None
    assert 0 < found.free_bytes < found.total_bytes
    settings.EMBEDDED_DATABASE_DIR = tmp_path / "gone"
    assert snapshot(shop).disk is None
