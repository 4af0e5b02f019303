"""The job export: files with every message of a range, or no files."""

from __future__ import annotations

import csv
import json
import random
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline.checksum import message_digest
from pipeline.errors import DataLost, InvalidOption, PipelineError
from pipeline.jobs.export import pin
from pipeline.jobs.files import MANIFEST
from pipeline.source.columns import ARROW_SCHEMA
from tests.integration.pipeline.jobs import JobRunner
from tests.integration.pipeline.publishing import (
    BETWEEN_APPENDS_MS,
    PUBLISH_TIME_MS,
    create_partitioned,
    create_topic,
    trim_first_ledger,
)
from tests.integration.pipeline.test_spark_read import fill
from vela.wire.entry import OutgoingMessage, encode_single

# Values that text formats easily damage: empty ones, spaces, quotes, line ends, byte order marks, invalid UTF-8.
AWKWARD = (
    b"",
    b" blank ",
    b'"quoted", and a comma',
    b"two\nlines",
    b"\r\n",
    b"\\N",
    b"\\",
    b"\x00",
    b"\xff\xfe",
    "über 🛶".encode(),
    "\ufeffmark".encode(),
    b"null",
    b"'; DROP TABLE",
    b"# comment",
)


@pytest.fixture
def job(spark: SparkSession, log_url: str, tmp_path: Path) -> JobRunner:
    return JobRunner(url=log_url, folder=tmp_path, spark=lambda: spark)


def publish_awkward(url: str, name: str) -> tuple[str, int]:
    """Make a topic with awkward messages, and return its checksum and their number."""
    topic = create_topic(url, name)
    topic.open_ledger(1)
    for value in AWKWARD:
        text = value.decode(errors="replace")
        topic.publish(OutgoingMessage(payload=value))
        topic.publish(
            OutgoingMessage(
                payload=b"v", key=text or "k", properties={text or "p": text}, event_time_ms=PUBLISH_TIME_MS
            )
        )
    return str(topic.checksum), len(topic.expected)


def test_parquet_holds_what_was_published(job: JobRunner, log_url: str, tmp_path: Path) -> None:
    topic = create_topic(log_url, "everything")
    fill(topic, seed=1, ledgers=4, entries=30)

    done = job("export", "everything", to="2026/everything")

    assert done["checksum"] == str(topic.checksum)
    assert (done["messages"], done["skipped_messages"]) == (topic.checksum.messages, 0)
    folder = tmp_path / "2026" / "everything"
    table = pq.read_table(folder)
    assert table.schema.names == ARROW_SCHEMA.names
    assert len(set(table.column("__messageId").to_pylist())) == topic.checksum.messages
    assert json.loads((folder / MANIFEST).read_text())["checksum"] == str(topic.checksum)
    assert [path.name for path in folder.parent.iterdir()] == ["everything"]
    assert job.recorder.stages == ["write files", "read them back"]


@pytest.mark.parametrize("format_", ["parquet", "ndjson", "csv"])
def test_no_message_changes_on_its_way_into_a_file(job: JobRunner, log_url: str, format_: str) -> None:
    checksum, messages = publish_awkward(log_url, f"awkward-{format_}")

    done = job("export", f"awkward-{format_}", to=format_, format=format_)

    assert (done["checksum"], done["messages"]) == (checksum, messages)


def test_text_is_readable_by_other_programs(job: JobRunner, log_url: str, tmp_path: Path) -> None:
    topic = create_topic(log_url, "readable")
    topic.open_ledger(1)
    topic.publish(OutgoingMessage(payload=b'{"a": "b, c"}', key="k", properties={"p": "q"}))
    topic.publish(OutgoingMessage(payload=b"\xff"))

    job("export", "readable", to="json", format="ndjson")
    job("export", "readable", to="csv", format="csv")

    lines = [
        json.loads(line)
        for path in (tmp_path / "json").glob("*.json")
        for line in path.read_text().splitlines()
    ]
    first, second = sorted(lines, key=lambda line: int(line["entryId"]))
    assert (first["value"], first["key"], first["properties"]) == ('{"a": "b, c"}', "k", {"p": "q"})
    assert ("value" in second, second["valueBase64"]) == (False, "/w==")
    rows = [
        row
        for path in (tmp_path / "csv").glob("*.csv")
        for row in csv.DictReader(path.read_text().splitlines())
    ]
    first, second = sorted(rows, key=lambda row: int(row["entryId"]))
    assert (first["value"], first["key"], first["properties"]) == ('{"a": "b, c"}', "k", '{"p":"q"}')
    assert (second["value"], second["valueBase64"]) == ("\\N", "/w==")


def test_times_choose_a_range(job: JobRunner, log_url: str) -> None:
    topic = create_topic(log_url, "ranged")
    topic.open_ledger(1)
    for number in range(10):
        topic.publish(OutgoingMessage(payload=b"%d" % number))

    def at(number: int) -> str:
        moment = datetime.fromtimestamp((PUBLISH_TIME_MS + number * BETWEEN_APPENDS_MS) / 1000, UTC)
        return moment.isoformat()

    done = job("export", "ranged", to="ranged", starting_time=at(2), ending_time=at(5))

    expected = [message_digest(b"%d" % number, None, {}, 0) for number in (2, 3, 4)]
    assert (done["messages"], done["checksum"]) == (3, f"{sum(expected) % (1 << 64):016x}")
    later = job("export", "ranged", to="later", starting_time="2999-01-01T00:00:00Z")
    assert later["words"].endswith(
        "/later: persistent://public/default/ranged has none stored at or after 2999-01-01T00:00:00Z"
        "; starting_time is in the future"
    )
    new = job("export", "ranged", to="{time}/new", only_new="true", starting_time="2999-01-01T00:00:00Z")
    assert new["words"].endswith("earlier exports have not written; starting_time is in the future")


def test_an_empty_topic_makes_files_without_messages(job: JobRunner, log_url: str) -> None:
    create_topic(log_url, "nothing").open_ledger(1)
    assert job("export", "nothing", to="nothing", format="csv")["messages"] == 0
    folder = job("export", "nothing", to="{time}/nothing", format="csv")["folder"]
    assert re.search(r"/20\d\d-\d\d-\d\dT\d\d-\d\d-\d\dZ/nothing$", folder)


def test_a_damaged_entry_ends_the_job_or_is_counted(job: JobRunner, log_url: str, tmp_path: Path) -> None:
    topic = create_topic(log_url, "broken")
    topic.open_ledger(1)
    topic.publish(OutgoingMessage(payload=b"good"))
    good = encode_single(producer_name="maker", sequence_id=9, publish_time_ms=1, payload=b"damaged")
    topic.store([good[:-1] + b"?"], messages=1)

    with pytest.raises(Exception, match="ChecksumMismatch"):
        job("export", "broken", to="broken")
    assert list(tmp_path.iterdir()) == []
    done = job("export", "broken", to="broken", on_corrupt="skip")
    assert (done["checksum"], done["skipped_messages"]) == (str(topic.checksum), 1)


@pytest.mark.parametrize("format_", ["parquet", "csv"])
def test_the_manifest_has_the_schemas_of_the_files_and_no_others(
    job: JobRunner, log_url: str, tmp_path: Path, format_: str
) -> None:
    """An import adds all schemas of the manifest to its topic. The topic could refuse one that was deleted long ago."""
    topic = create_topic(log_url, f"versions-{format_}")
    topic.open_ledger(1)
    with psycopg.connect(log_url) as connection:
        for version in range(3):
            connection.execute(
                "INSERT INTO vela_schema (topic_name, version, type, name, data, properties, created_at)"
                " VALUES (%s, %s, 2, '', %s, '{}', now())",
                (topic.name, version, b"{}"),
            )
    for written in (b"", bytes(7) + b"\x02"):
        topic.store(
            [
                encode_single(
                    producer_name="maker",
                    sequence_id=0,
                    publish_time_ms=1,
                    payload=b"{}",
                    schema_version=written,
                )
            ]
        )
    job("export", topic.name, to="versions", format=format_)
    manifest = json.loads((tmp_path / "versions" / MANIFEST).read_text())
    assert list(manifest["schemas"]) == ["2"]


def test_a_pinned_range_has_nothing_of_a_partition_that_came_later(log_url: str) -> None:
    source = {"topic": "persistent://public/default/pinned-parts", "url": log_url}
    parent = create_topic(log_url, "pinned-parts", partitions=1)
    first = create_topic(log_url, "pinned-parts-partition-0", parent_id=parent.topic_id, partition=0)
    first.open_ledger(1)
    first.publish_batch([OutgoingMessage(payload=b"x")] * 4)
    pinned, messages = pin(source, starts=True)
    assert messages == 4
    later = create_topic(log_url, "pinned-parts-partition-1", parent_id=parent.topic_id, partition=1)
    later.open_ledger(1)
    later.publish_batch([OutgoingMessage(payload=b"later")] * 3)
    assert pin({**source, **pinned})[1] == 4
    assert pin(source)[1] == 7


def test_only_new_goes_on_after_a_topic_was_made_again_with_other_partitions(
    job: JobRunner, log_url: str
) -> None:
    old = create_topic(log_url, "remade")
    old.open_ledger(1)
    old.publish_batch([OutgoingMessage(payload=b"old")] * 2)
    options = {"to": "remade/{time}", "only_new": "true"}
    until = job("export", "remade", options=options)["until"]
    assert list(until) == ["persistent://public/default/remade"]
    with psycopg.connect(log_url) as connection:
        connection.execute("DELETE FROM vela_ledger WHERE topic_id = %s", (old.topic_id,))
        connection.execute("DELETE FROM vela_topic WHERE id = %s", (old.topic_id,))
    for part in create_partitioned(log_url, "remade", 2):
        part.open_ledger(1)
        part.publish_batch([OutgoingMessage(payload=b"new")] * 3)

    with pytest.raises(
        DataLost, match=r"default/remade was exported before and is gone: .*; set option on_lost to skip"
    ):
        job("export", "remade", options=options)
    (made,) = (job.folder / "remade").iterdir()
    # The next export may come within the same second, and needs another name and a later time.
    earlier = made.rename(made.with_name("2020-01-01T00-00-00Z")) / MANIFEST
    manifest = json.loads(earlier.read_text()) | {"exported_at": "2020-01-01T00:00:00+00:00"}
    earlier.write_text(json.dumps(manifest))
    assert job("export", "remade", options={**options, "on_lost": "skip"})["messages"] == 6
    assert job("export", "remade", options=options)["messages"] == 0  # the loss is accepted


def test_a_target_that_cannot_be_written_is_refused_before_spark_starts(log_url: str, tmp_path: Path) -> None:
    def never() -> SparkSession:
        raise AssertionError("Spark was started")

    create_topic(log_url, "unstarted").open_ledger(1)
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("/tmp")
    job = JobRunner(url=log_url, folder=tmp_path, spark=never)

    for to, said in (
        ("there", "already exists"),
        ("file/inside", "cannot write to .*file"),
        ("../outside", "without .. and without /"),
        ("/tmp/absolute", "without .. and without /"),
        (".hidden", "reserved"),
        ("a//b", "without .. and without /"),
        ("link/stolen", "is a link to /tmp/stolen, outside of "),
    ):
        with pytest.raises(InvalidOption, match=said):
            job("export", "unstarted", to=to)
    with pytest.raises(InvalidOption, match="option format is 'xlsx'"):
        job("export", "unstarted", to="new", format="xlsx")
    with pytest.raises(InvalidOption, match="unknown option 'where'"):
        job("export", "unstarted", to="new", where="1 = 1")
    with pytest.raises(PipelineError, match="does not exist in this database"):
        job("export", "no-such", to="new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link", "there"]


@pytest.mark.parametrize("name", ["march[1]", "{a,b}", "what?*", "2026:03", "50%20"])
def test_the_name_of_an_export_is_not_read_as_a_pattern(job: JobRunner, log_url: str, name: str) -> None:
    topic = create_topic(log_url, f"named-{len(name)}-{ord(name[0])}")
    topic.open_ledger(1)
    topic.publish(OutgoingMessage(payload=b"one"))
    assert job("export", topic.name, to=name, format="ndjson")["messages"] == 1


def test_a_killed_export_leaves_nothing_and_the_next_one_cleans_up(
    job: JobRunner, log_url: str, tmp_path: Path
) -> None:
    topic = create_topic(log_url, "killed")
    topic.open_ledger(1)
    topic.publish_batch([OutgoingMessage(payload=random.Random(1).randbytes(10)) for _ in range(10)])
    leftover = tmp_path / ".again.unfinished-run-1"
    leftover.mkdir()
    (leftover / "part-00000.parquet").write_bytes(b"half")

    done = job("export", "killed", to="again")

    assert done["checksum"] == str(topic.checksum)
    assert [path.name for path in tmp_path.iterdir()] == ["again"]


def test_each_message_is_in_exactly_one_of_the_exports_of_new_messages(
    job: JobRunner, log_url: str, tmp_path: Path
) -> None:
    topic = create_topic(log_url, "growing")
    topic.open_ledger(1)

    def publish(numbers: range) -> None:
        for number in numbers:
            topic.publish(OutgoingMessage(payload=b"%d" % number))

    def export(number: int, **more: str) -> dict[str, Any]:
        """Export, and rename the folder as if the export had run in the second `number`, so that names differ."""
        done = job("export", "growing", options=more, to="growing/{time}-x", only_new="true")
        if done["messages"]:
            made = Path(done["folder"])
            made.rename(made.with_name(f"2026-01-01T00-00-{number:02}Z-x"))
        return done

    publish(range(10))
    assert export(1)["messages"] == 10
    (tmp_path / "growing" / ".2026-01-01T00-00-09Z-x.unfinished-1").mkdir()
    assert export(2)["messages"] == 0
    publish(range(10, 13))
    topic.open_ledger(1)
    publish(range(13, 15))
    done = export(3, starting_time="2020-01-01T00:00:00Z")
    assert (done["messages"], next(iter(done["until"].values()))["messages"]) == (5, 15)
    assert export(4)["messages"] == 0
    manifest = tmp_path / "growing" / "2026-01-01T00-00-01Z-x" / MANIFEST
    sound = manifest.read_text()
    for damaged in (sound[:40], "[]", "{}"):
        manifest.write_text(damaged)
        with pytest.raises(PipelineError, match=f"{MANIFEST} is damaged, so it does not say which messages"):
            export(5)
    manifest.write_text(sound)
    folders = sorted((tmp_path / "growing").glob("2*"))
    assert [path.name for path in folders] == ["2026-01-01T00-00-01Z-x", "2026-01-01T00-00-03Z-x"]
    values = [int(each) for path in folders for each in pq.read_table(path).column("value").to_pylist()]
    assert sorted(values) == list(range(15))


def test_messages_trimmed_before_an_export_of_new_messages_are_counted(job: JobRunner, log_url: str) -> None:
    topic = create_topic(log_url, "trimmed-between")
    for _ in range(3):
        topic.open_ledger(1)
        topic.publish_batch([OutgoingMessage(payload=b"x")] * 4)
    options = {"to": "trimmed/{time}", "only_new": "true"}
    job("export", "trimmed-between", options=options, ending_time=str(PUBLISH_TIME_MS + 1))
    trim_first_ledger(topic)
    trim_first_ledger(topic)

    with pytest.raises(DataLost, match=r"retention trimmed 4 messages after it; set option on_lost to skip"):
        job("export", "trimmed-between", options=options)
    with pytest.raises(InvalidOption, match=r"put \{time\} in it, such as trimmed/\{time\}"):
        job("export", "trimmed-between", to="trimmed", only_new="true")
