"""The job offload without a broker, and reads of the moved messages, with and without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from broker.storage.pipeline import runs
from pipeline.checksum import checksum_of_frame
from pipeline.database import Connection, reading
from pipeline.errors import EntriesMissing, InvalidOption, OffloadUnavailable, TopicNotFound
from pipeline.jobs import export, offload
from pipeline.jobs.catalogue import find_job
from pipeline.ledger_files.rows import EntryRow
from pipeline.pace import Pace
from pipeline.queries import query
from pipeline.source.entries import read_entries
from pipeline.source.options import ReadOptions
from pipeline.source.plan import plan_read
from pipeline.source.ranges import split
from pipeline.source.topic_logs import EntryIndex
from tests.integration.pipeline.publishing import StoredTopic, create_partitioned, create_topic
from tests.support.offloading import Silent, files_in, job_request
from vela.wire.entry import OutgoingMessage

MINUTE_MS = 60_000


@pytest.fixture
def files_url(tmp_path: Path) -> str:
    return tmp_path.as_uri()


@pytest.fixture(autouse=True)
def nobody_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offload, "_HANDOVER_S", 0.0)


def fill(topic: StoredTopic, *, ledgers: int = 3, entries: int = 40) -> StoredTopic:
    """Add sealed ledgers, and an open one with one message."""
    for _ in range(ledgers):
        topic.open_ledger(1)
        for number in range(entries):
            topic.publish(OutgoingMessage(payload=b"%d" % number * 50, key=f"k{number % 3}"))
    topic.open_ledger(1)
    topic.publish(OutgoingMessage(payload=b"last"))
    return topic


def attach(topic: StoredTopic) -> int:
    """Replace the rows of every written file with the file, as the broker does. Return how many files there were."""
    with psycopg.connect(topic.url) as connection:
        connection.execute(
            "UPDATE vela_ledger l SET segment_id = NULL, file_name = f.name FROM vela_ledger_file f"
            " WHERE f.ledger_id = l.id AND f.state = 'written' AND f.topic_id = %s",
            (topic.topic_id,),
        )
        return connection.execute(
            "UPDATE vela_ledger_file SET state = 'attached' WHERE topic_id = %s AND state = 'written'",
            (topic.topic_id,),
        ).rowcount


def run(topic: StoredTopic, files_url: str, **options: str) -> int:
    """Run the job, and return the number of ledgers that it wrote to files."""
    result = offload.run(job_request(topic.url, files_url, topic.name, **options), Silent(), lambda: None)
    return int(result["ledgers"])


def rows_read(options: ReadOptions) -> list[tuple[int, bytes]]:
    """Return every entry of a read: its ledger and its bytes."""
    with reading(options, "reading") as connection:
        plan = plan_read(connection, options)
        index = EntryIndex(connection, offload_url=options.offload_url)
        parts = split(index, plan.ranges, most=7, part_bytes=1)
        return [
            (part.ledger_id, row.data)
            for task in parts
            for part in task
            for row in read_entries(connection, part, offload_url=options.offload_url, window_entries=9)
        ]


def test_a_read_finds_the_same_entries_wherever_they_are(log_url: str, files_url: str) -> None:
    topic = fill(create_topic(log_url, "offload-read"))
    options = ReadOptions.parse({"topic": topic.name, "url": log_url, "offloadUrl": files_url})
    before = rows_read(options)
    assert len(before) == 121
    assert run(topic, files_url, older_than_minutes="1") == 3
    assert rows_read(options) == before
    assert attach(topic) == len(files_in(files_url)) == 3
    assert rows_read(options) == before
    assert run(topic, files_url, older_than_minutes="1") == 0
    middle_ms = topic.append_ms - 60 * 10
    by_time = ReadOptions.parse(
        {"topic": topic.name, "url": log_url, "offloadUrl": files_url, "startingTime": str(middle_ms)}
    )
    assert rows_read(by_time) == before[-60:]
    without = ReadOptions.parse({"topic": topic.name, "url": log_url})
    with pytest.raises(InvalidOption, match="set option offloadUrl to the VELA_OFFLOAD_URL of the broker"):
        rows_read(without)


def test_spark_reads_offloaded_messages(spark: SparkSession, log_url: str, files_url: str) -> None:
    topic = fill(create_topic(log_url, "offload-spark"))
    run(topic, files_url, older_than_minutes="1")
    assert attach(topic) == 3
    frame = (
        spark.read.format("vela")
        .options(topic=topic.name, url=log_url, offloadUrl=files_url, partitions="4")
        .load()
    )
    assert checksum_of_frame(frame) == topic.checksum


def test_an_export_has_offloaded_messages(
    spark: SparkSession, log_url: str, files_url: str, tmp_path: Path
) -> None:
    topic = fill(create_topic(log_url, "offload-export"))
    run(topic, files_url, older_than_minutes="1")
    assert attach(topic) == 3
    options = find_job("export").checked({"to": "copy", "format": "ndjson"})
    request = replace(
        job_request(log_url, files_url, topic.name),
        job="export",
        options=options,
        folder=tmp_path / "exports",
    )
    found = export.run(request, Silent(), lambda: spark)
    assert (found["messages"], found["checksum"]) == (121, str(topic.checksum))


def test_every_partition_moves_and_young_ledgers_stay(log_url: str, files_url: str) -> None:
    parts = create_partitioned(log_url, "offload-parts", 2)
    for part in parts:
        fill(part, ledgers=2, entries=5)
    sealed_bytes = parts[0].ledger_start[1]
    request = job_request(log_url, files_url, "offload-parts", keep_bytes=str(sealed_bytes - 1))
    result = offload.run(request, Silent(), lambda: None)
    assert result["ledgers"] == 2  # the older ledger of each partition
    assert "the broker has taken over 0 of them so far" in result["words"]


def test_one_ledger_is_counted_as_one(log_url: str, files_url: str) -> None:
    topic = fill(create_topic(log_url, "offload-one"), ledgers=1, entries=5)
    result = offload.run(job_request(log_url, files_url, topic.name), Silent(), lambda: None)
    assert result["words"].startswith(f"1 ledger of {result['bytes']} bytes, in a file of ")


def test_a_lost_row_fails_the_job_and_the_ledger_stays(log_url: str, files_url: str) -> None:
    topic = fill(create_topic(log_url, "offload-lost"), ledgers=1, entries=5)
    with psycopg.connect(log_url) as connection:
        connection.execute(
            "DELETE FROM vela_entry_1 e USING vela_ledger l WHERE e.ledger_id = l.id AND l.topic_id = %s"
            " AND l.state = 'sealed' AND e.entry_id = 2 AND l.entries = 5",
            (topic.topic_id,),
        )
    with pytest.raises(EntriesMissing, match=r"entry \d+:2 is missing"):
        run(topic, files_url, older_than_minutes="1")
    with psycopg.connect(log_url) as connection:
        states = connection.execute(
            "SELECT state FROM vela_ledger_file WHERE topic_id = %s", (topic.topic_id,)
        ).fetchall()
    assert states == [("deleting",)]


def test_the_unfinished_file_of_a_run_that_continues_another_is_left_alone(
    log_url: str, files_url: str
) -> None:
    topic = fill(create_topic(log_url, "offload-continued"), ledgers=1, entries=5)
    with psycopg.connect(log_url, autocommit=True) as connection:
        for state, ended_at in (("failed", "now()"), ("running", "NULL")):
            connection.execute(
                "INSERT INTO vela_pipeline_run (job, subject, topic_name, options, write_id, pinned, state, stages,"
                " error, log, worker, who, reason, cancelled_by, ended_at) VALUES ('offload', %s, 't', '{}',"
                f" 'continued', '{{}}', %s, '[]', '', '', '', 'ada', '', '', {ended_at})",
                (topic.name, state),
            )
        of_file = {"name": "continued", "topic_id": topic.topic_id, "ledger_id": 1, "write_id": "continued"}
        connection.execute(query("begin", "offload"), of_file)
        run(topic, files_url, older_than_minutes="1")
        state = "SELECT state FROM vela_ledger_file WHERE name = 'continued'"
        assert connection.execute(state).fetchone() == ("writing",)
        connection.execute("UPDATE vela_pipeline_run SET ended_at = now(), state = 'failed'")
        run(topic, files_url, older_than_minutes="1")
        assert connection.execute(state).fetchone() == ("deleting",)
        connection.execute("DELETE FROM vela_pipeline_run")


def test_a_ledger_that_another_run_has_moved_meanwhile_is_left_out(
    log_url: str, files_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run over a topic and a run over one of its partitions may find the same ledger."""
    topic = fill(create_topic(log_url, "offload-twice"), ledgers=2, entries=5)
    read = offload._entries

    def moved(connection: Connection, ledger: offload.ColdLedger, pace: Pace) -> Iterator[EntryRow]:
        connection.execute(
            query("begin", "offload"),
            {
                "name": "theirs",
                "topic_id": ledger.topic_id,
                "ledger_id": ledger.ledger_id,
                "write_id": "theirs",
            },
        )
        connection.execute(
            "UPDATE vela_ledger SET segment_id = NULL, file_name = 'theirs' WHERE id = %s",
            (ledger.ledger_id,),
        )
        connection.execute("DELETE FROM vela_entry_1 WHERE ledger_id = %s", (ledger.ledger_id,))
        monkeypatch.setattr(offload, "_entries", read)
        return read(connection, ledger, pace)

    monkeypatch.setattr(offload, "_entries", moved)
    assert run(topic, files_url, older_than_minutes="1") == 1  # only the second ledger


def test_the_error_names_what_is_missing(log_url: str, files_url: str) -> None:
    with pytest.raises(TopicNotFound, match="nowhere does not exist"):
        offload.run(job_request(log_url, files_url, "nowhere"), Silent(), lambda: None)
    with pytest.raises(OffloadUnavailable, match="VELA_OFFLOAD_URL is not set"):
        offload.run(job_request(log_url, "", "nowhere"), Silent(), lambda: None)


@pytest.fixture
def policies(log_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection]:
    """A connection for setting policies, which are removed again after the test."""
    monkeypatch.setattr("broker.storage.short_connection.conninfo", lambda: log_url)
    with psycopg.connect(log_url, autocommit=True) as connection:
        yield connection
        connection.execute("UPDATE vela_namespace SET policies = '{}'")
        connection.execute("DELETE FROM vela_pipeline_run")


def test_policies_request_one_run_for_a_topic_that_has_something_to_move(
    policies: psycopg.Connection, log_url: str, files_url: str
) -> None:
    topic = fill(create_topic(log_url, "offload-policy"), ledgers=2, entries=5)
    parts = create_partitioned(log_url, "offload-policy-parts", 2)
    for part in parts:
        fill(part, ledgers=1, entries=5)
    create_topic(log_url, "offload-policy-empty")

    def set_(name: str, **values: int) -> None:
        policies.execute(
            "UPDATE vela_topic SET policies = %s WHERE name = %s",
            (json.dumps(values), f"persistent://public/default/{name}"),
        )

    def requested() -> list[tuple[str, dict[str, str]]]:
        return policies.execute(
            "SELECT regexp_replace(subject, '.*/', ''), options FROM vela_pipeline_run ORDER BY subject"
        ).fetchall()

    assert runs.request_offloads() == 0
    set_("offload-policy", offload_threshold_bytes=1 << 40, offload_after_ms=-1)
    set_("offload-policy-empty", offload_after_ms=0)
    assert runs.request_offloads() == 0
    set_("offload-policy", offload_threshold_bytes=0)
    set_("offload-policy-parts", offload_after_ms=MINUTE_MS + 1)
    assert runs.request_offloads() == 2
    found = requested()
    assert found == [
        ("offload-policy", {"older_than_minutes": "", "keep_bytes": "0"}),
        ("offload-policy-parts", {"older_than_minutes": "2", "keep_bytes": ""}),
    ]
    assert runs.request_offloads() == 0
    policies.execute("UPDATE vela_pipeline_run SET state = 'done', created_at = now() - interval '11 min'")
    assert run(topic, files_url, **found[0][1]) == 2
    assert runs.request_offloads() == 1  # the files of the first topic wait for the broker
