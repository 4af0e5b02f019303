"""The job insights: the numbers of each hour, which are the same however often the job runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from pipeline.errors import TopicNotFound
from tests.integration.pipeline.jobs import JobRunner
from tests.integration.pipeline.publishing import (
    create_partitioned,
    create_subscription,
    create_topic,
    trim_first_ledger,
)
from vela.wire.entry import OutgoingMessage

HOUR_MS = 3_600_000


@pytest.fixture
def job(spark: SparkSession, log_url: str, tmp_path: Path) -> JobRunner:
    return JobRunner(url=log_url, folder=tmp_path, spark=lambda: spark)


def test_an_hour_begins_where_charts_begin_it_whatever_zone_spark_has(
    job: JobRunner, spark: SparkSession, log_url: str
) -> None:
    now_ms = time.time_ns() // 1_000_000
    topic = create_topic(log_url, "insights-zone")
    topic.open_ledger(1)
    topic.append_ms = now_ms - now_ms % HOUR_MS - HOUR_MS + 1000
    topic.publish(OutgoingMessage(payload=b"x"))
    zone = spark.conf.get("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")  # this zone's hours begin at half past
    try:
        job("insights", "insights-zone", hours="1")
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone or "UTC")
    assert [hour["hour_ms"] for hour in hours_of(log_url, topic.topic_id)] == [
        now_ms - now_ms % HOUR_MS - HOUR_MS
    ]


def hours_of(url: str, topic_id: int) -> list[dict[str, Any]]:
    with psycopg.connect(url, row_factory=psycopg.rows.dict_row) as connection:
        return connection.execute(
            "SELECT * FROM vela_insight_hour WHERE topic_id = %s ORDER BY hour_ms", (topic_id,)
        ).fetchall()


def test_each_hour_is_computed_once(job: JobRunner, log_url: str) -> None:
    now_ms = time.time_ns() // 1_000_000
    this_hour_ms = now_ms - now_ms % HOUR_MS
    topic = create_topic(log_url, "insights")
    topic.open_ledger(1)
    topic.append_ms = this_hour_ms - 3 * HOUR_MS + 1000  # before the hour that hours = 1 asks for
    topic.publish(OutgoingMessage(payload=b"long ago"))
    topic.append_ms = this_hour_ms - HOUR_MS + 1000
    for number in range(8):
        topic.publish(OutgoingMessage(payload=b"x" * (number + 1), key="hot" if number < 6 else "a\0b"))
    topic.append_ms = this_hour_ms
    letter = {"REAL_TOPIC": "persistent://public/default/orders", "REAL_SUBSCRIPTION": "billing"}
    topic.publish_batch([OutgoingMessage(payload=b"dead", properties=letter)] * 3)

    done = job("insights", "insights", hours="1")
    again = job("insights", "insights", hours="1")

    assert (done["hours"], done["messages"], again["messages"]) == (2, 11, 11)
    before, now = hours_of(log_url, topic.topic_id)
    assert (before["hour_ms"], now["hour_ms"]) == (this_hour_ms - HOUR_MS, this_hour_ms)
    assert (before["messages"], before["size_bytes"], before["size_most"]) == (8, 36, 8)
    assert (before["size_p50"], before["size_p99"]) == (4, 8)
    assert (before["keyed_messages"], before["keys"]) == (8, 2)
    assert before["top_keys"] == [
        {"key": "hot", "messages": 6, "bytes": 21},
        {"key": "a\ufffdb", "messages": 2, "bytes": 15},
    ]
    assert (now["messages"], now["keys"], now["top_keys"]) == (3, 0, [])
    assert now["letters"] == [{"topic": letter["REAL_TOPIC"], "subscription": "billing", "messages": 3}]
    job("insights", "insights", hours="4")
    assert [hour["messages"] for hour in hours_of(log_url, topic.topic_id)] == [1, 8, 3]


def test_trimmed_messages_stay_in_the_numbers_of_past_hours(job: JobRunner, log_url: str) -> None:
    topic = create_topic(log_url, "insights-trimmed")
    now_ms = time.time_ns() // 1_000_000
    for _ in range(2):
        topic.open_ledger(1)
        topic.append_ms = now_ms - now_ms % HOUR_MS
        topic.publish_batch([OutgoingMessage(payload=b"x")] * 5)
    job("insights", "insights-trimmed", hours="0")
    trim_first_ledger(topic)
    done = job("insights", "insights-trimmed", hours="0")
    assert done["messages"] == 5
    assert [hour["messages"] for hour in hours_of(log_url, topic.topic_id)] == [10]


def test_what_subscriptions_did_is_stored_although_the_messages_are_trimmed(
    job: JobRunner, log_url: str
) -> None:
    """Without retention, messages are often gone before the points of their hour exist."""
    topic = create_topic(log_url, "insights-late")
    now_ms = time.time_ns() // 1_000_000
    hour_ms = now_ms - now_ms % HOUR_MS - HOUR_MS
    for append_ms in (hour_ms, now_ms):
        topic.open_ledger(1)
        topic.append_ms = append_ms
        topic.publish_batch([OutgoingMessage(payload=b"x")] * 5)
    create_subscription(topic, "billing", last_acked=0)
    job("insights", "insights-late", hours="1")
    trim_first_ledger(topic)
    with psycopg.connect(log_url) as connection:
        connection.execute(
            "INSERT INTO vela_stats_point_3600s (at_ms, topic_id, subscription_id, messages_out, messages_acked,"
            " messages_redelivered) SELECT %s, topic_id, id, 7, 5, 2 FROM vela_subscription WHERE topic_id = %s",
            (hour_ms, topic.topic_id),
        )
    job("insights", "insights-late", hours="1")
    before, _ = hours_of(log_url, topic.topic_id)
    assert (before["messages"], before["subscriptions"][0]["acked"]) == (5, 5)


def test_messages_that_retention_trims_meanwhile_do_not_fail_the_job(
    log_url: str, tmp_path: Path, spark: SparkSession
) -> None:
    """The last ledger of the planned range is trimmed while Spark starts. The topic continues in another ledger."""
    topic = create_topic(log_url, "insights-meanwhile")
    topic.open_ledger(1)
    topic.append_ms = time.time_ns() // 1_000_000
    topic.publish_batch([OutgoingMessage(payload=b"x")] * 5)

    def started() -> SparkSession:
        topic.open_ledger(1)
        topic.publish_batch([OutgoingMessage(payload=b"x")] * 2)
        trim_first_ledger(topic)
        return spark

    job = JobRunner(url=log_url, folder=tmp_path, spark=started)
    assert job("insights", "insights-meanwhile", hours="1")["messages"] == 0


def test_partitions_and_subscriptions_are_summed(job: JobRunner, log_url: str) -> None:
    parts = create_partitioned(log_url, "insights-parts", 2)
    now_ms = time.time_ns() // 1_000_000
    hour_ms = now_ms - now_ms % HOUR_MS
    with psycopg.connect(log_url) as connection:
        (parent_id,) = connection.execute(
            "SELECT parent_id FROM vela_topic WHERE id = %s", (parts[0].topic_id,)
        ).fetchone() or (0,)
        for part in parts:
            part.open_ledger(1)
            part.append_ms = hour_ms
            part.publish(OutgoingMessage(payload=b"x"))
            create_subscription(part, "billing", last_acked=0)
            (subscription_id,) = connection.execute(
                "SELECT id FROM vela_subscription WHERE topic_id = %s", (part.topic_id,)
            ).fetchone() or (0,)
            connection.execute(
                "INSERT INTO vela_stats_point_3600s (at_ms, topic_id, subscription_id, messages_out, messages_acked,"
                " messages_redelivered, ack_latencies) VALUES (%s, %s, %s, 7, 5, 2, %s)",
                (hour_ms, part.topic_id, subscription_id, [0] * 7 + [5] if part is parts[0] else [5]),
            )
            connection.execute(
                "INSERT INTO vela_pending_ack (delivery_id, owner_epoch, topic_id, subscription_id, consumer_key,"
                " consumer_name, ledger_id, first_entry, last_entry, messages, delivered_ms, redelivery_count)"
                " VALUES (%s, 1, %s, %s, 1, 'c', %s, 0, 0, 1, 0, %s)",
                (
                    part.topic_id,
                    part.topic_id,
                    subscription_id,
                    part.ledger_id,
                    3 if part is parts[0] else 2,
                ),
            )

    job("insights", "insights-parts", hours="0")

    (hour,) = hours_of(log_url, parent_id)
    assert hour["messages"] == 2
    assert hour["subscriptions"] == [
        {
            "name": "billing",
            "acked": 10,
            "redelivered": 4,
            "out": 14,
            "ack_p50_ms": 0,
            "ack_p95_ms": 122,
            "ack_p99_ms": 127,
        }
    ]
    assert hour["poison"] == [{"subscription": "billing", "id": f"{parts[0].ledger_id}:0", "count": 3}]


def test_a_topic_that_is_not_there_is_named(job: JobRunner) -> None:
    with pytest.raises(TopicNotFound, match="insights-missing does not exist"):
        job("insights", "insights-missing")
