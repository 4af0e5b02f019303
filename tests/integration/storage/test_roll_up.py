"""Points are rolled up into longer buckets, with equal sums even if a run is killed. Old points expire."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import count
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from broker.storage.history import roll_up as store
from broker.storage.history.roll_up import RESOLUTIONS_S, expire, roll_up
from broker.storage.short_connection import short_connection
from broker.upkeep.tasks.history import roll_up_history
from broker.upkeep.tasks.schedule import beat_schedule
from tests.support.broker_harness import one_row, rows

HOUR_MS = 3_600_000
BEGIN_MS = 1_700_000_000_000 // HOUR_MS * HOUR_MS
DAY_MS = 24 * HOUR_MS
KEPT_MS = {10: 2 * HOUR_MS, 60: DAY_MS, 600: 7 * DAY_MS, 3600: 90 * DAY_MS}
SUMS = (
    "sum(messages_in), sum(bytes_in), sum(messages_out), sum(messages_acked), sum(messages_redelivered),"
    " sum(ack_latencies[2])"
)


@pytest.fixture
def url(broker_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The database that the tasks work on."""
    monkeypatch.setattr("broker.storage.short_connection.conninfo", lambda: broker_url)
    return broker_url


def add(url: str, points: Iterable[tuple[Any, ...]]) -> None:
    """Insert points of topic 1: time, subscription (0 for the topic itself), messages, backlog before and after."""
    values = ", ".join(["%s"] * 11)
    with psycopg.connect(url) as connection:
        connection.cursor().executemany(
            f"INSERT INTO vela_stats_point_10s VALUES (%s, 1, {values})".encode(),
            [
                (
                    at_ms,
                    subscription,
                    None if subscription else messages,
                    None if subscription else 10 * messages,
                    messages,
                    messages,
                    1,
                    before,
                    after,
                    max(before, after),
                    None if subscription else 100 + after,
                    [0, messages][: messages + 1] if subscription else None,
                )
                for at_ms, subscription, messages, before, after in points
            ],
        )


def busy(url: str, buckets: int, *, every: int = 1) -> None:
    """Insert points of the topic and of subscription 7, whose backlog grows by one in each bucket."""
    add(
        url,
        [
            (BEGIN_MS + number * 10_000, subscription, number + 1, number, number + 1)
            for number in range(0, buckets, every)
            for subscription in (0, 7)
        ],
    )


def complete(now_ms: int) -> int:
    """Run until nothing is left to do, and return how many buckets were rolled up."""
    done = 0
    while piece := roll_up(now_ms, budget_s=0.5):
        done += piece
    return done


def dump(url: str) -> list[list[tuple[Any, ...]]]:
    """Return all points and the progress of rolling up."""
    return [
        rows(url, f"SELECT * FROM vela_stats_point_{each}s ORDER BY 1, 2, 3") for each in RESOLUTIONS_S
    ] + [rows(url, "SELECT * FROM vela_stats_progress ORDER BY 1")]


def test_every_resolution_has_the_same_sums_and_a_second_run_changes_nothing(url: str) -> None:
    busy(url, 2 * 360, every=7)
    now_ms = BEGIN_MS + 2 * HOUR_MS + 30_000
    assert complete(now_ms) > 100
    for subscription in (0, 7):
        sums = {
            rows(
                url,
                f"SELECT {SUMS} FROM vela_stats_point_{each}s WHERE (topic_id, subscription_id) = (1, %s)",
                subscription,
            )[0]
            for each in RESOLUTIONS_S
        }
        assert len(sums) == 1, sums
    before = dump(url)
    assert complete(now_ms) == 0
    assert dump(url) == before


def test_a_rolled_up_backlog_has_the_first_the_last_and_the_largest_value(url: str) -> None:
    add(url, [(BEGIN_MS, 7, 1, 3, 9), (BEGIN_MS + 10_000, 7, 1, 9, 4), (BEGIN_MS + 50_000, 7, 1, 4, 5)])
    complete(BEGIN_MS + 90_000)
    found = one_row(
        url,
        "SELECT at_ms, backlog_before, backlog, backlog_most FROM vela_stats_point_60s WHERE subscription_id = 7",
    )
    assert found == (BEGIN_MS, 3, 5, 9)


def test_ack_latencies_are_added_up_bucket_by_bucket(url: str) -> None:
    add(url, [(BEGIN_MS + number * 10_000, 7, 0, 0, 0) for number in range(4)])
    for place, counts in enumerate(([5], None, [1, 0, 2], [0, 4])):
        rows(
            url,
            "UPDATE vela_stats_point_10s SET ack_latencies = %s WHERE at_ms = %s",
            counts,
            BEGIN_MS + place * 10_000,
        )
    add(url, [(BEGIN_MS, 0, 3, 0, 3)])
    complete(BEGIN_MS + 90_000)
    found = "SELECT ack_latencies FROM vela_stats_point_60s WHERE topic_id = 1 ORDER BY subscription_id"
    assert rows(url, found) == [(None,), ([6, 4, 2],)]


def test_a_minute_waits_until_the_broker_cannot_change_it_any_more(url: str) -> None:
    busy(url, 7)
    assert roll_up(BEGIN_MS + 89_999, budget_s=9) == 0
    rows(url, "UPDATE vela_stats_progress SET until_ms = %s WHERE resolution_s = 10", BEGIN_MS + 70_000)
    assert roll_up(BEGIN_MS + 70_000, budget_s=9) == 1
    assert one_row(url, "SELECT count(*) FROM vela_stats_point_60s WHERE topic_id = 1") == (2,)
    assert roll_up(BEGIN_MS + 149_999, budget_s=9) == 0
    assert roll_up(BEGIN_MS + 150_000, budget_s=9) == 1


def test_time_without_points_is_passed_in_one_step(url: str) -> None:
    busy(url, 1)
    now_ms = BEGIN_MS + 30 * DAY_MS
    assert complete(now_ms) == 3
    until = dict(rows(url, "SELECT resolution_s, until_ms FROM vela_stats_progress WHERE resolution_s > 10"))
    assert until == {
        60: (now_ms - 30_000) // 60_000 * 60_000,
        600: (now_ms - 30_000) // 600_000 * 600_000,
        3600: (now_ms - 30_000) // HOUR_MS * HOUR_MS,
    }


KILLING = """
CREATE FUNCTION test_kill() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_terminate_backend(pg_backend_pid());
    RETURN NULL;
END $$;
CREATE TRIGGER test_kill AFTER INSERT OR UPDATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION test_kill();"""
NOT_KILLING = "DROP FUNCTION IF EXISTS test_kill() CASCADE"


@pytest.mark.parametrize("table", ["vela_stats_point_60s", "vela_stats_point_600s", "vela_stats_progress"])
def test_a_run_that_is_killed_half_way_leaves_correct_sums(url: str, table: str) -> None:
    busy(url, 360)
    roll_up(BEGIN_MS + 200_000, budget_s=9)
    now_ms = BEGIN_MS + HOUR_MS + 30_000
    before = dump(url)
    rows(url, KILLING.format(table=table))
    try:
        with pytest.raises(psycopg.OperationalError):
            complete(now_ms)
        # The points of 60 s are stored before a run begins with those of 600 s.
        assert table == "vela_stats_point_600s" or dump(url) == before
    finally:
        rows(url, NOT_KILLING)
    complete(now_ms)
    sums = {
        rows(url, f"SELECT {SUMS} FROM vela_stats_point_{each}s WHERE topic_id = 1")[0]
        for each in RESOLUTIONS_S
    }
    assert len(sums) == 1, sums


def test_a_task_and_the_server_notice_a_lost_connection(url: str) -> None:
    with short_connection("test") as connection:
        assert connection.execute("SHOW tcp_user_timeout").fetchone() == ("15000",)
        assert connection.info.get_parameters()["keepalives_idle"] == "5"


def test_a_run_that_meets_another_one_ends(url: str) -> None:
    busy(url, 60)
    with psycopg.connect(url) as other:
        other.execute(
            "INSERT INTO vela_stats_progress (resolution_s, until_ms) VALUES (60, 0) ON CONFLICT DO NOTHING"
        )
        other.commit()
        other.execute("SELECT FROM vela_stats_progress WHERE resolution_s = 60 FOR UPDATE")
        assert roll_up(BEGIN_MS + DAY_MS, budget_s=9) == 0
    assert complete(BEGIN_MS + DAY_MS) > 0


def test_points_expire_by_resolution_and_never_before_they_are_rolled_up(url: str) -> None:
    busy(url, 3 * 360)
    now_ms = BEGIN_MS + 3 * HOUR_MS + 30_000
    assert expire(now_ms, kept_ms=KEPT_MS, budget_s=9) == 0  # beat was off: nothing is rolled up yet
    complete(now_ms)
    assert expire(now_ms, kept_ms=KEPT_MS, budget_s=9) == 2 * 363
    assert one_row(url, "SELECT min(at_ms) FROM vela_stats_point_10s") == (BEGIN_MS + HOUR_MS + 30_000,)
    assert one_row(url, "SELECT min(at_ms) FROM vela_stats_point_60s") == (BEGIN_MS,)
    assert expire(now_ms, kept_ms=KEPT_MS, budget_s=9) == 0
    expire(now_ms + 91 * DAY_MS, kept_ms=KEPT_MS, budget_s=9)
    complete(now_ms + 91 * DAY_MS)
    expire(now_ms + 91 * DAY_MS, kept_ms=KEPT_MS, budget_s=9)
    assert dump(url)[:-1] == [[], [], [], []]


def test_the_task_rolls_up_and_removes_points_as_configured(url: str) -> None:
    now_ms = time.time_ns() // 1_000_000
    old_ms, young_ms = (now_ms // 10_000 * 10_000 - hours * HOUR_MS for hours in (3, 1))
    add(url, [(old_ms, 0, 1, 0, 0), (young_ms, 0, 2, 0, 0)])
    schedule = [each["task"] for each in beat_schedule().values()]
    assert roll_up_history.name in schedule
    roll_up_history()
    assert rows(url, "SELECT at_ms FROM vela_stats_point_10s") == [(young_ms,)]
    assert one_row(url, "SELECT sum(messages_in) FROM vela_stats_point_60s WHERE topic_id = 1") == (3,)


def test_a_resolution_with_many_old_points_leaves_time_for_the_others(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy(url, 360)
    complete(BEGIN_MS + DAY_MS)
    tables = [f"SELECT count(*) FROM vela_stats_point_{resolution_s}s" for resolution_s in RESOLUTIONS_S]
    before = [one_row(url, table)[0] for table in tables]
    monkeypatch.setattr(store, "_EXPIRED_AT_ONCE", 1)
    monkeypatch.setattr(store, "time", SimpleNamespace(monotonic=count(step=0.1).__next__))
    expire(BEGIN_MS + 91 * DAY_MS, kept_ms=KEPT_MS, budget_s=1)
    after = [one_row(url, table)[0] for table in tables]
    assert all(left < had for left, had in zip(after, before, strict=True))


def test_expired_points_are_deleted_in_pieces(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_EXPIRED_AT_ONCE", 10)
    busy(url, 30)
    now_ms = BEGIN_MS + DAY_MS
    complete(now_ms)
    assert expire(now_ms, kept_ms=KEPT_MS, budget_s=9) == 60
    assert one_row(url, "SELECT count(*) FROM vela_stats_point_10s") == (0,)


def topic_id(url: str, name: str, parent: int | None = None, *, backlog: int = 0) -> int:
    """Insert a topic with its summary, and return its id."""
    (found,) = one_row(
        url,
        "WITH t AS (INSERT INTO vela_tenant (name, created_at) VALUES ('x', now()) ON CONFLICT (name) DO UPDATE SET"
        " name = EXCLUDED.name RETURNING id), n AS (INSERT INTO vela_namespace (tenant_id, name, policies, created_at)"
        " SELECT id, 'y', '{}', now() FROM t ON CONFLICT (tenant_id, name) DO UPDATE SET name = EXCLUDED.name"
        " RETURNING id) SELECT id FROM n",
    )
    (topic,) = one_row(
        url,
        "INSERT INTO vela_topic (namespace_id, name, parent_id, partition, partitions, policies,"
        " properties, created_at) VALUES (%s, %s, %s, -1, 0, '{}', '{}', now()) RETURNING id",
        found,
        name,
        parent,
    )
    rows(
        url,
        "INSERT INTO vela_topic_summary (topic_id, messages_in, bytes_in, stored_bytes, producers, message_rate_in,"
        " byte_rate_in, last_append_ms, max_backlog_messages, updated_ms)"
        " VALUES (%s, 100, 1000, 5000, 1, 0, 0, 0, %s, 0)",
        topic,
        backlog,
    )
    return int(topic)


def test_partitions_and_everything_are_summed_with_the_present_backlog(url: str) -> None:
    parent = topic_id(url, "p")
    first = topic_id(url, "p-partition-0", parent, backlog=30)
    topic_id(url, "p-partition-1", parent, backlog=12)  # without a point in this minute
    insert = "INSERT INTO vela_stats_point_10s VALUES (%s, %s, 0, 5, 50, 4, 3, 2, 20, 30, 30, 5000)"
    rows(url, insert, BEGIN_MS, first)
    rows(url, insert, BEGIN_MS, 999)  # this topic does not exist any more
    complete(BEGIN_MS + 95_000)
    of_sum = (
        "SELECT messages_in, messages_out, messages_acked, messages_redelivered, backlog_before, backlog, stored_bytes"
        " FROM vela_stats_point_60s WHERE (topic_id, subscription_id) = (%s, 0)"
    )
    assert one_row(url, of_sum, parent) == (5, 4, 3, 2, None, 42, 10_000)
    everything = one_row(url, of_sum, 0)
    assert everything[:4] == (10, 8, 6, 4)
    assert everything[5:] == (0, 15_000)  # the backlog is the sum over subscriptions, and there are none
    rows(url, insert, BEGIN_MS + HOUR_MS, first)
    complete(BEGIN_MS + DAY_MS)  # a day later, the backlog at that time is unknown
    late = rows(url, of_sum.replace("WHERE", "WHERE at_ms = %s AND"), BEGIN_MS + HOUR_MS, parent)
    assert late == [(5, 4, 3, 2, None, None, None)]
