"""A round through the alert rules in PostgreSQL, and notifications that reach a real HTTP server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import psycopg
import pytest
from django.core import mail

from broker.conf import BrokerSettings
from broker.storage import alerts as store
from broker.storage.queries import query
from broker.upkeep.alerts import send, webhook
from broker.upkeep.alerts.evaluate import evaluate
from broker.upkeep.tasks.alerts import check_alerts
from tests.support.broker_harness import one_row, rows

NOW_MS = 1_790_000_000_000


@dataclass
class Receiver:
    """A webhook server: it keeps the requests that it gets, and answers as the test says."""

    url: str = ""
    status: int = 204
    location: str = ""
    got: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    state = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            state.got.append((self.path, json.loads(body)))
            self.send_response(state.status)
            if state.location:
                self.send_header("Location", state.location)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}/hook?key=secret"
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def url(broker_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The database that the tasks use; webhooks may go to this machine."""
    monkeypatch.setattr("broker.storage.short_connection.conninfo", lambda: broker_url)
    settings = BrokerSettings.from_environment({"VELA_ALERT_LOCAL_WEBHOOKS": "1"})
    monkeypatch.setattr(send, "broker_settings", lambda: settings)
    return broker_url


def do(url: str, sql: str, *parameters: object) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(sql.encode(), parameters)


def a_topic(url: str, local: str = "orders", *, published: int = 100, namespace: str = "default") -> int:
    """Insert a topic with its summary, and return its id."""
    do(url, "INSERT INTO vela_tenant (name, created_at) VALUES ('shop', now()) ON CONFLICT DO NOTHING")
    do(
        url,
        "INSERT INTO vela_namespace (tenant_id, name, policies, created_at) SELECT id, %s, '{}', now() FROM vela_tenant"
        " WHERE name = 'shop' ON CONFLICT DO NOTHING",
        namespace,
    )
    (topic,) = one_row(
        url,
        "INSERT INTO vela_topic (namespace_id, name, partitions, partition, properties, policies, created_at)"
        " SELECT n.id, %s, 0, -1, '{}', '{}', now() FROM vela_namespace n WHERE n.name = %s RETURNING id",
        f"persistent://shop/{namespace}/{local}",
        namespace,
    )
    do(
        url,
        "INSERT INTO vela_topic_summary (topic_id, messages_in, bytes_in, stored_bytes, producers, message_rate_in,"
        " byte_rate_in, last_append_ms, max_backlog_messages, updated_ms) VALUES (%s, %s, 1, 5000, 0, 0, 0, %s, %s, 1)",
        topic,
        published,
        NOW_MS,
        published,
    )
    return int(topic)


def a_subscription(
    url: str, topic: int, name: str = "billing", *, acked: int = 0, state: int = 6, consumers: int = 1
) -> int:
    """Insert a subscription with its summary, and return its id."""
    (subscription,) = one_row(
        url,
        "INSERT INTO vela_subscription (topic_id, name, type, properties, created_at)"
        " VALUES (%s, %s, 'Shared', '{}', to_timestamp(0)) RETURNING id",
        topic,
        name,
    )
    do(
        url,
        "INSERT INTO vela_subscription_summary (subscription_id, acked_messages, read_ledger, read_entry, consumers,"
        " unacked_messages, replay_entries, message_rate_out, message_rate_acked, messages_redelivered, updated_ms,"
        " state, state_since_ms, last_used_ms) VALUES (%s, %s, 1, 0, %s, 0, 0, 0, 0, 0, 1, %s, %s, %s)",
        subscription,
        acked,
        consumers,
        state,
        NOW_MS - 120_000,
        NOW_MS - 120_000,
    )
    return int(subscription)


def a_rule(url: str, measure: str = "backlog", threshold: int | None = 50, **others: Any) -> int:
    given = {
        "name": f"{measure} {threshold}",
        "measure": measure,
        "threshold": threshold,
        "within_ms": None,
        "for_ms": 0,
        "namespaces": "*",
        "topics": "*",
        "subscriptions": "*",
        "severity": "warning",
        "webhook_url": "",
        "email": "",
        "silent_until": None,
        "who": "ada",
    } | others
    columns, places = ", ".join(given), ", ".join(["%s"] * len(given))
    (rule,) = one_row(
        url, f"INSERT INTO vela_alert_rule ({columns}) VALUES ({places}) RETURNING id", *given.values()
    )
    return int(rule)


def firing(url: str) -> list[tuple[Any, ...]]:
    """Return what is firing: the last part of the topic's name, the subscription and the value."""
    found = rows(
        url,
        "SELECT topic_name, subscription_name, value FROM vela_alert_firing"
        " WHERE fired_ms IS NOT NULL AND cleared_ms IS NULL ORDER BY topic_name, subscription_name",
    )
    return [(topic.rpartition("/")[2], subscription, value) for topic, subscription, value in found]


def test_a_backlog_fires_and_clears(url: str) -> None:
    topic = a_topic(url)
    billing = a_subscription(url, topic)
    a_subscription(url, topic, "fraud", acked=60)
    a_rule(url, for_ms=20_000)
    evaluate(NOW_MS)
    assert firing(url) == []
    evaluate(NOW_MS + 10_000)
    evaluate(NOW_MS + 20_000)
    assert firing(url) == [("orders", "billing", 100)]
    do(url, "UPDATE vela_subscription_summary SET acked_messages = 90 WHERE subscription_id = %s", billing)
    evaluate(NOW_MS + 30_000)
    evaluate(NOW_MS + 40_000)
    assert firing(url) == [("orders", "billing", 100)]
    evaluate(NOW_MS + 50_000)
    assert firing(url) == []
    assert rows(url, "SELECT fired_ms, cleared_ms FROM vela_alert_firing") == [
        (NOW_MS + 20_000, NOW_MS + 50_000)
    ]
    do(url, "UPDATE vela_subscription_summary SET acked_messages = 0 WHERE subscription_id = %s", billing)
    evaluate(NOW_MS + 60_000)
    evaluate(NOW_MS + 80_000)
    assert len(rows(url, "SELECT 1 FROM vela_alert_firing")) == 2  # one row per firing


def test_a_backlog_that_did_not_last_leaves_no_row(url: str) -> None:
    billing = a_subscription(url, a_topic(url))
    a_rule(url, for_ms=20_000)
    evaluate(NOW_MS)
    assert rows(url, "SELECT fired_ms FROM vela_alert_firing") == [(None,)]
    do(url, "UPDATE vela_subscription_summary SET acked_messages = 90 WHERE subscription_id = %s", billing)
    evaluate(NOW_MS + 10_000)
    assert rows(url, "SELECT 1 FROM vela_alert_firing") == []


def test_patterns_limit_a_rule(url: str) -> None:
    for namespace in ("default", "eu"):
        for local in ("orders", "mails"):
            topic = a_topic(url, local, namespace=namespace)
            a_subscription(url, topic, "billing")
            a_subscription(url, topic, "audit")
    a_rule(url, namespaces="shop/eu", topics="ord*", subscriptions="b*")
    evaluate(NOW_MS)
    assert firing(url) == [("orders", "billing", 100)]
    assert one_row(url, "SELECT topic_name FROM vela_alert_firing") == ("persistent://shop/eu/orders",)


@pytest.mark.parametrize(
    ("measure", "state", "found"),
    [("stuck", 1, True), ("stuck", 2, False), ("behind", 1, True), ("behind", 2, True), ("behind", 6, False)],
)
def test_a_rule_about_states_fires_after_the_state_has_lasted(
    url: str, measure: str, state: int, found: bool
) -> None:
    a_subscription(url, a_topic(url), state=state)
    a_rule(url, measure, None, for_ms=120_000)
    a_rule(url, measure, None, for_ms=121_000, name="later")
    evaluate(NOW_MS)
    assert firing(url) == ([("orders", "billing", 120_000)] if found else [])


def test_a_subscription_without_a_consumer_fires(url: str) -> None:
    topic = a_topic(url)
    a_subscription(url, topic, consumers=0)
    a_subscription(url, topic, "fraud", consumers=2)
    a_rule(url, "no_consumer", None, for_ms=60_000)
    evaluate(NOW_MS)
    assert firing(url) == [("orders", "billing", 120_000)]


def test_more_stored_bytes_than_the_limit_fire(url: str) -> None:
    a_topic(url)
    a_rule(url, "stored", 5000)
    a_rule(url, "stored", 4999)
    evaluate(NOW_MS)
    assert firing(url) == [("orders", "", 5000)]


def a_point(url: str, table: str, at_ms: int, topic: int, subscription: int = 0, **numbers: int) -> None:
    do(
        url,
        f"INSERT INTO vela_stats_point_{table} (at_ms, topic_id, subscription_id, messages_in, messages_out,"
        " messages_acked, messages_redelivered) VALUES (%s, %s, %s, %s, 0, 0, %s)",
        at_ms,
        topic,
        subscription,
        numbers.get("published"),
        numbers.get("redelivered", 0),
    )


def test_dead_letters_within_the_window_are_counted_once_and_fire(url: str) -> None:
    letters, quiet = a_topic(url, "orders-billing-DLQ"), a_topic(url, "mails-x-DLQ")
    other = a_topic(url, "orders")
    until_ms = NOW_MS // 60_000 * 60_000 - 60_000
    do(url, "INSERT INTO vela_stats_progress (resolution_s, until_ms) VALUES (60, %s)", until_ms)
    for topic in (letters, other):
        a_point(url, "60s", until_ms - 60_000, topic, published=3)
        a_point(url, "10s", until_ms - 60_000, topic, published=3)  # the same messages, rolled up
        a_point(url, "10s", until_ms, topic, published=4)
        a_point(url, "60s", until_ms - 3_600_000, topic, published=1000)
    a_point(url, "10s", until_ms, quiet, published=1)
    a_rule(url, "dead_letters", 5, within_ms=600_000)
    evaluate(NOW_MS)
    assert firing(url) == [("orders-billing-DLQ", "", 7)]


def test_more_redeliveries_per_second_than_the_limit_fire(url: str) -> None:
    topic = a_topic(url)
    billing, fraud = a_subscription(url, topic), a_subscription(url, topic, "fraud")
    a_point(url, "10s", NOW_MS - 30_000, topic, billing, redelivered=600)
    a_point(url, "10s", NOW_MS - 30_000, topic, fraud, redelivered=300)
    a_point(url, "10s", NOW_MS - 300_000, topic, fraud, redelivered=9000)
    a_rule(url, "redeliveries", 9)
    evaluate(NOW_MS)
    assert firing(url) == [("orders", "billing", 10)]


def test_an_unacked_message_older_than_the_limit_fires(url: str) -> None:
    topic = a_topic(url)
    billing, fraud = a_subscription(url, topic), a_subscription(url, topic, "fraud")
    mail = a_subscription(url, topic, "mail")
    (segment,) = one_row(url, "SELECT id FROM vela_segment ORDER BY id LIMIT 1")

    def a_ledger(state: str, entries: int) -> int:
        (ledger_id,) = one_row(
            url,
            "INSERT INTO vela_ledger (topic_id, segment_id, state, entries, messages, size_bytes, entries_before,"
            " messages_before, bytes_before, opened_ms, first_append_ms, last_append_ms)"
            " VALUES (%s, %s, %s, %s, 0, 0, 0, 0, 0, 0, 0, 0) RETURNING id",
            topic,
            segment,
            state,
            entries,
        )
        return int(ledger_id)

    acked = a_ledger("sealed", 1)
    a_ledger("sealed", 0)  # no append came before its segment was closed
    ledger = a_ledger("open", 0)
    for entry, append_ms in enumerate((NOW_MS - 500_000, NOW_MS - 5000)):
        do(
            url,
            f"INSERT INTO vela_entry_{segment} (ledger_id, entry_id, messages, flags, append_ms, deliver_at_ms,"
            " cumulative_messages, cumulative_bytes, data) VALUES (%s, %s, 1, 0, %s, 0, 1, 1, '')",
            ledger,
            entry,
            append_ms,
        )
    for subscription, at, entry in ((billing, ledger, -1), (fraud, ledger, 0), (mail, acked, 0)):
        do(
            url,
            "INSERT INTO vela_cursor (subscription_id, mark_delete_ledger, mark_delete_entry, acked_messages,"
            " acked_entries, acked_bytes, version) VALUES (%s, %s, %s, 0, 0, 0, 0)",
            subscription,
            at,
            entry,
        )
    a_rule(url, "age", 60_000)
    evaluate(NOW_MS)
    assert firing(url) == [("orders", "billing", 500_000), ("orders", "mail", 500_000)]


def test_a_silent_broker_fires(url: str) -> None:
    do(
        url,
        "INSERT INTO vela_broker (id, host, pid, started_at, seen_at, http_url, pulsar_url)"
        " VALUES (1, 'h', 1, now(), to_timestamp(%s), '', '')"
        " ON CONFLICT (id) DO UPDATE SET seen_at = EXCLUDED.seen_at",
        NOW_MS / 1000 - 40,
    )
    a_rule(url, "broker", None, for_ms=30_000)
    a_rule(url, "broker", None, for_ms=60_000, name="later")
    evaluate(NOW_MS)
    assert firing(url) == [("", "", 40_000)]


def test_a_round_has_a_fixed_number_of_statements(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []

    def counting(file: str, name: str) -> bytes:
        counted.append(name)
        return query(file, name)

    monkeypatch.setattr(store, "query", counting)
    topic = a_topic(url)
    for number in range(5):
        a_subscription(url, topic, f"s{number}")
        a_rule(url, name=f"r{number}", webhook_url="http://127.0.0.1:1/x")
    evaluate(NOW_MS)
    assert len(firing(url)) == 25
    assert sorted(counted) == sorted(["lock", "rules", "matches", "open", "insert", "notify", "evaluated"])


def test_a_rule_sends_one_notification_for_all_that_fires(url: str, receiver: Receiver) -> None:
    topic = a_topic(url)
    for number in range(30):
        a_subscription(url, topic, f"s{number:02}")
    rule = a_rule(url, name="too much", webhook_url=receiver.url)
    evaluate(NOW_MS)
    evaluate(NOW_MS + 20_000)
    assert send.send_due(budget_s=5) == 1
    assert send.send_due(budget_s=5) == 0
    ((path, body),) = receiver.got
    assert path == "/hook?key=secret"
    assert (body["rule"], body["rule_id"], body["firing_count"]) == ("too much", rule, 30)
    assert body["title"] == "too much: 30 firing"
    assert len(body["firing"]) == 20
    assert body["text"].splitlines()[0] == "firing: s00 of persistent://shop/default/orders (100 messages)"
    assert body["text"].splitlines()[-1] == "and 10 more"
    do(url, "UPDATE vela_subscription_summary SET acked_messages = 100")
    evaluate(NOW_MS + 40_000)
    send.send_due(budget_s=5)
    assert receiver.got[1][1]["title"] == "too much: 30 cleared"


def test_a_clearing_within_the_send_limit_is_notified_later(url: str, receiver: Receiver) -> None:
    topic = a_topic(url)
    billing = a_subscription(url, topic)
    a_rule(url, name="r", webhook_url=receiver.url)
    evaluate(NOW_MS)
    do(url, "UPDATE vela_subscription_summary SET acked_messages = 100 WHERE subscription_id = %s", billing)
    evaluate(NOW_MS + 5000)  # too soon after the first notification
    assert one_row(url, "SELECT count(*) FROM vela_alert_notification") == (1,)
    evaluate(NOW_MS + 15_000)
    evaluate(NOW_MS + 45_000)
    send.send_due(budget_s=5)
    assert [body["title"] for _, body in receiver.got] == ["r: 1 firing", "r: 1 cleared"]


def test_a_silenced_rule_sends_its_notification_when_the_silence_ends(url: str, receiver: Receiver) -> None:
    a_subscription(url, a_topic(url))
    a_rule(url, name="r", webhook_url=receiver.url)
    do(url, "UPDATE vela_alert_rule SET silent_until = to_timestamp(%s)", NOW_MS / 1000 + 60)
    evaluate(NOW_MS)
    assert len(firing(url)) == 1
    assert one_row(url, "SELECT count(*) FROM vela_alert_notification") == (0,)
    evaluate(NOW_MS + 60_000)
    assert one_row(url, "SELECT count(*) FROM vela_alert_notification") == (1,)


def test_a_refused_notification_is_sent_again(
    url: str, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    a_subscription(url, a_topic(url))
    a_rule(url, name="far behind", webhook_url=receiver.url)
    receiver.status = 500
    evaluate(NOW_MS)
    assert send.send_due(budget_s=5) == 1
    assert "a notification of the alert rule 'far behind' was not delivered" in caplog.text
    attempts, error, wait_s = one_row(
        url, "SELECT attempts, error, extract(epoch FROM next_at - now()) FROM vela_alert_notification"
    )
    assert (attempts, 5 < wait_s <= 15) == (1, True)
    assert error.endswith("answered with status 500")
    assert "secret" not in error
    assert send.send_due(budget_s=5) == 0
    receiver.status = 200
    do(url, "UPDATE vela_alert_notification SET next_at = now()")
    assert send.send_due(budget_s=5) == 1
    assert one_row(url, "SELECT sent_at IS NULL, next_at, error FROM vela_alert_notification") == (
        False,
        None,
        "",
    )
    assert len(receiver.got) == 2


def test_a_sender_that_died_leaves_the_notification_to_the_next(url: str, receiver: Receiver) -> None:
    a_subscription(url, a_topic(url))
    a_rule(url, webhook_url=receiver.url)
    evaluate(NOW_MS)
    assert store.claim(lease_s=0) is not None  # the sender that has claimed it dies
    assert send.send_due(budget_s=5) == 1
    assert len(receiver.got) == 1


def test_a_notification_is_given_up_in_the_end(url: str) -> None:
    a_subscription(url, a_topic(url))
    a_rule(url, webhook_url="http://127.0.0.1:1/")
    evaluate(NOW_MS)
    do(url, "UPDATE vela_alert_notification SET attempts = 7")
    assert send.send_due(budget_s=5) == 1
    assert one_row(url, "SELECT attempts, next_at, sent_at FROM vela_alert_notification") == (8, None, None)


def test_an_e_mail_goes_through_django(url: str) -> None:
    a_subscription(url, a_topic(url))
    a_rule(url, name="r\nx", email="ops@example.org")
    evaluate(NOW_MS)
    assert send.send_due(budget_s=5) == 1
    (letter,) = mail.outbox
    assert (letter.to, letter.subject) == (["ops@example.org"], "[Vela warning] r x: 1 firing")
    assert "billing of persistent://shop/default/orders (100 messages)" in letter.body


def test_redirects_are_not_followed(receiver: Receiver) -> None:
    receiver.status, receiver.location = 302, receiver.url
    with pytest.raises(webhook.WebhookFailed, match="redirects are not followed"):
        webhook.post(receiver.url, {}, allows_local=True)
    assert len(receiver.got) == 1


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "0.0.0.0", "127.1"]
)
def test_addresses_of_this_machine_are_refused(host: str, receiver: Receiver) -> None:
    port = receiver.url.split(":")[2].split("/")[0]
    with pytest.raises(webhook.WebhookFailed, match="VELA_ALERT_LOCAL_WEBHOOKS") as refused:
        webhook.post(f"http://{host}:{port}/", {}, allows_local=False)
    assert receiver.got == []
    if host == "127.0.0.1":
        assert str(refused.value).startswith("127.0.0.1 is a local address;")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://a/", "http://", "gopher://127.0.0.1/"])
def test_a_webhook_that_is_not_http_is_refused(url: str) -> None:
    with pytest.raises(webhook.WebhookFailed, match="http"):
        webhook.post(url, {}, allows_local=True)


def test_a_server_that_answers_byte_by_byte_does_not_hold_up_the_sender() -> None:
    class Drip(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            try:
                while True:
                    self.wfile.write(b"H")
                    stopped.wait(0.05)
            except OSError:
                return

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    stopped = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Drip)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    began = time.monotonic()
    with pytest.raises(webhook.WebhookFailed):
        webhook.post(f"http://127.0.0.1:{server.server_port}/", {}, allows_local=True, timeout_s=0.5)
    assert time.monotonic() - began < 5
    server.shutdown()
    server.server_close()


def test_history_is_deleted_after_30_days(url: str) -> None:
    billing = a_subscription(url, a_topic(url))
    a_rule(url, webhook_url="http://127.0.0.1:1/")
    evaluate(NOW_MS)
    do(url, "UPDATE vela_subscription_summary SET acked_messages = 100 WHERE subscription_id = %s", billing)
    evaluate(NOW_MS + 20_000)
    evaluate(NOW_MS + 40_000)
    day_ms = 24 * 3600 * 1000
    do(url, "UPDATE vela_alert_firing SET cleared_ms = %s", int(time.time() * 1000) - 29 * day_ms)
    check_alerts()
    assert one_row(url, "SELECT count(*) FROM vela_alert_firing") == (1,)
    do(url, "UPDATE vela_alert_firing SET cleared_ms = %s", int(time.time() * 1000) - 31 * day_ms)
    do(url, "UPDATE vela_alert_notification SET created_at = now() - interval '31 days'")
    check_alerts()
    assert one_row(url, "SELECT count(*) FROM vela_alert_firing") == (0,)
    assert one_row(url, "SELECT count(*) FROM vela_alert_notification") == (0,)
