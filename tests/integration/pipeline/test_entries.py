"""Reading the log in windows, without Spark."""

from __future__ import annotations

import psycopg
import pytest

from pipeline.database import reading
from pipeline.errors import DatabaseUnavailable
from pipeline.source.entries import read_entries
from pipeline.source.options import ReadOptions
from pipeline.source.plan import plan_read
from tests.integration.pipeline.publishing import StoredTopic, create_topic
from vela.wire.entry import OutgoingMessage


def options_for(url: str, topic: str, **options: str) -> ReadOptions:
    return ReadOptions.parse({"topic": topic, "url": url, **options})


def stored(url: str, name: str, sizes: list[int]) -> StoredTopic:
    topic = create_topic(url, name)
    topic.open_ledger(1)
    for size in sizes:
        topic.publish(OutgoingMessage(payload=bytes(size)))
    return topic


@pytest.mark.parametrize("window_bytes", [0, 1, 500, 2_000, 1 << 20])
def test_windows_of_any_size_give_the_same_entries(log_url: str, window_bytes: int) -> None:
    topic = stored(log_url, f"windows-{window_bytes}", [10, 0, 3_000, 1, 1, 1, 900, 900, 5])
    options = options_for(log_url, topic.name)
    with reading(options, "reading") as connection:
        plan = plan_read(connection, options)
        (part,) = plan.ranges
        read = list(read_entries(connection, part, window_entries=4, window_bytes=window_bytes))
        assert [row.entry_id for row in read] == list(range(9))
        assert plan.messages == 9
    with psycopg.connect(log_url) as check:
        rows = check.execute(
            "SELECT data FROM vela_entry WHERE ledger_id = %s ORDER BY entry_id", (topic.ledger_id,)
        ).fetchall()
    assert [row.data for row in read] == [row[0] for row in rows]


def test_no_transaction_stays_open_between_windows(log_url: str) -> None:
    topic = stored(log_url, "between", [10] * 6)
    options = options_for(log_url, topic.name)
    with reading(options, "reading") as connection:
        (part,) = plan_read(connection, options).ranges
        entries = read_entries(connection, part, window_entries=2)
        next(entries)
        with psycopg.connect(log_url) as check:
            row = check.execute(
                "SELECT state, backend_xmin FROM pg_stat_activity WHERE pid = %s",
                (connection.info.backend_pid,),
            ).fetchone()
        assert row == ("idle", None)
        assert len(list(entries)) == 5


def test_the_end_is_fixed_when_the_read_is_planned(log_url: str) -> None:
    topic = stored(log_url, "pinned", [1, 1])
    options = options_for(log_url, topic.name)
    with reading(options, "reading") as connection:
        (part,) = plan_read(connection, options).ranges
        topic.publish(OutgoingMessage(payload=b"later"))
        assert len(list(read_entries(connection, part))) == 2


def test_connections_are_read_only_and_have_a_time_limit(log_url: str) -> None:
    options = options_for(log_url, "any", statementTimeoutMs="100")
    with (
        pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
        reading(options, "trying") as connection,
    ):
        connection.execute("DELETE FROM vela_topic")
    with (
        pytest.raises(
            DatabaseUnavailable, match="trying: the database took longer than statementTimeoutMs = 100"
        ),
        reading(options, "trying") as connection,
    ):
        connection.execute("SELECT pg_sleep(20)")


def test_a_user_without_rights_is_told_which_rights_to_grant(log_url: str) -> None:
    with psycopg.connect(log_url) as connection:
        connection.execute("CREATE ROLE pipeline_stranger LOGIN PASSWORD 'stranger'")
    try:
        url = log_url.replace(log_url.split("//")[1].split("@")[0], "pipeline_stranger:stranger")
        options = options_for(url, "any")
        with (
            pytest.raises(DatabaseUnavailable, match="let the user in option url read schema vela_read_v1"),
            reading(options, "planning") as connection,
        ):
            plan_read(connection, options)
    finally:
        with psycopg.connect(log_url) as connection:
            connection.execute("DROP ROLE pipeline_stranger")
