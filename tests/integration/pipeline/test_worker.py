"""A run in a worker: from waiting to its end, whatever ends it."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from broker.conf import BrokerSettings
from broker.storage.pipeline import runs
from broker.upkeep.pipeline import worker
from broker.upkeep.tasks.pipeline import check_pipeline, run_pipeline
from broker.upkeep.tasks.schedule import beat_schedule
from pipeline.jobs.catalogue import find_job
from tests.integration.pipeline.publishing import create_topic
from tests.support.vela import children_of
from tests.support.waiting import wait_until
from vela.wire.entry import OutgoingMessage

MINE = {"VELA_PIPELINE_MEMORY_MB": "512"}


@pytest.fixture
def url(log_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The folder's database, which workers use; their files go into the test's temporary folder."""
    settings = BrokerSettings.from_environment({**MINE, "VELA_PIPELINE_DIR": str(tmp_path / "files")})
    monkeypatch.setattr("broker.storage.short_connection.conninfo", lambda: log_url)
    monkeypatch.setattr(worker, "conninfo", lambda: log_url)
    monkeypatch.setattr(worker, "broker_settings", lambda: settings)
    monkeypatch.setattr(worker, "_BEAT_S", 0.1)  # else each end and each lost report would take a second
    yield log_url
    worker._stopping.clear()
    with psycopg.connect(log_url) as connection:
        connection.execute("DELETE FROM vela_pipeline_run")
        connection.execute("DELETE FROM vela_pipeline_schedule")


def request(url: str, topic: str, job: str = "export", **options: str) -> int:
    """Insert a waiting run, as the act does, and return its id."""
    given = find_job(job).checked(
        {"to": topic, **({"format": "ndjson"} if job == "export" else {}), **options}
    )
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "INSERT INTO vela_pipeline_run (job, subject, topic_name, options, write_id, pinned, state, stages, error,"
            " log, worker, who, reason, cancelled_by) VALUES (%s, %s, %s, %s, '', '{}', 'waiting', '[]', '', '',"
            " '', 'ada', '', '') RETURNING id",
            (job, topic, f"persistent://public/default/{topic}", json.dumps(given)),
        ).fetchone()
    assert row is not None
    return int(row[0])


def row_of(url: str, run_id: int) -> dict[str, Any]:
    """Return the run's row."""
    with psycopg.connect(url, row_factory=psycopg.rows.dict_row) as connection:
        row = connection.execute("SELECT * FROM vela_pipeline_run WHERE id = %s", (run_id,)).fetchone()
    assert row is not None
    return row


def a_topic(url: str, name: str) -> None:
    topic = create_topic(url, name)
    topic.open_ledger(1)
    topic.publish_batch([OutgoingMessage(payload=b"%d" % number) for number in range(100)])


def test_a_waiting_run_is_executed_and_recorded(url: str, tmp_path: Path) -> None:
    a_topic(url, "worked")
    run_id = request(url, "worked")

    assert worker.run_waiting() == run_id

    row = row_of(url, run_id)
    assert row["state"] == "done", row["error"]
    assert row["result"]["messages"] == 100
    assert [stage["name"] for stage in row["stages"]] == ["start Spark", "write files", "read them back"]
    assert row["started_at"] <= row["heartbeat_at"] <= row["ended_at"]
    assert (row["write_id"], f"process {os.getpid()}" in row["worker"]) == (f"run-{run_id}", True)
    assert (
        sum(
            len(path.read_text().splitlines()) for path in tmp_path.glob("files/public/default/worked/*.json")
        )
        == 100
    )
    assert worker.run_waiting() is None


def test_the_row_of_a_failed_run_says_why(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = request(url, "missing-topic")
    assert worker.run_waiting() == missing
    row = row_of(url, missing)
    assert row["state"] == "failed"
    assert row["error"].startswith("topic persistent://public/default/missing-topic does not exist")

    a_topic(url, "javaless-run")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    javaless = request(url, "javaless-run")
    assert worker.run_waiting() == javaless
    assert "has no bin/java: install a Java 17 runtime" in row_of(url, javaless)["error"]

    shutil.rmtree(tmp_path / "files")
    (tmp_path / "files").write_text("a file")
    unwritable = request(url, "javaless-run", to="elsewhere")
    assert worker.run_waiting() == unwritable
    assert "cannot write to" in row_of(url, unwritable)["error"]


def in_background() -> threading.Thread:
    thread = threading.Thread(target=worker.run_waiting)
    thread.start()
    return thread


def job_process() -> int:
    """Return the id of the job process that this process has started, or 0."""
    return next((pid for pid, line in children_of(os.getpid()).items() if "--supervised" in line), 0)


def test_cancelling_ends_spark(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_topic(url, "cancelled")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    run_id = request(url, "cancelled")
    thread = in_background()
    pid = wait_until(job_process, "the job's process")
    java = wait_until(
        lambda: next((pid for pid, line in children_of(pid).items() if "java" in line), 0), "Java"
    )
    assert os.getpriority(os.PRIO_PROCESS, java) == os.nice(0) + 10, "Java does not give way to the broker"
    wait_until(lambda: list(scratch.glob("*/*")), "Java's files", timeout_s=60)
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE vela_pipeline_run SET cancelled_by = 'ada' WHERE id = %s", (run_id,))

    thread.join(30)

    row = row_of(url, run_id)
    assert (row["state"], row["error"]) == ("cancelled", "cancelled by ada")
    assert not thread.is_alive()
    wait_until(lambda: not Path(f"/proc/{java}").exists(), "Java's end")
    assert list(scratch.iterdir()) == []
    assert list((tmp_path / "files").glob("*/*/*")) == []


def test_a_worker_that_stops_says_so(url: str) -> None:
    a_topic(url, "stopped")
    run_id = request(url, "stopped")
    thread = in_background()
    wait_until(job_process, "the job's process")
    worker.stop_running()
    thread.join(30)
    row = row_of(url, run_id)
    assert (row["state"], row["error"]) == (
        "failed",
        "the run's worker was stopped: start the job again, or continue the run",
    )
    assert worker.run_waiting() is None


def test_a_process_that_is_killed_fails_the_run(url: str) -> None:
    a_topic(url, "shot")
    run_id = request(url, "shot")
    thread = in_background()
    os.kill(wait_until(job_process, "the job's process"), 9)
    thread.join(30)
    row = row_of(url, run_id)
    assert (row["state"], "ended by SIGKILL" in row["error"]) == ("failed", True)


def test_a_java_that_is_killed_is_named(url: str, tmp_path: Path) -> None:
    a_topic(url, "javashot")
    run_id = request(url, "javashot")
    thread = in_background()
    pid = wait_until(job_process, "the job's process")
    wait_until(lambda: row_of(url, run_id)["stages"][1:], "Spark's work", timeout_s=60)
    os.kill(next(child for child, line in children_of(pid).items() if "java" in line), 9)
    thread.join(30)
    row = row_of(url, run_id)
    assert (row["state"], row["error"].partition(":")[0]) == ("failed", "Java ended while the job ran")
    assert list((tmp_path / "files").glob("*/*/*")) == []


def test_the_end_of_a_run_is_stored_although_postgresql_was_away(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = request(url, "never-made")
    end, failures = runs.end, [psycopg.OperationalError("gone"), psycopg.OperationalError("gone")]

    def away_at_first(*args: Any, **given: Any) -> None:
        if failures:
            raise failures.pop()
        end(*args, **given)

    monkeypatch.setattr(runs, "end", away_at_first)
    assert worker.run_waiting() == run_id
    row = row_of(url, run_id)
    assert (row["state"], "does not exist in this database" in row["error"]) == ("failed", True)


def test_a_replay_waits_until_its_range_is_stored(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a_topic(url, "pinned-first")
    run_id = request(url, "pinned-first", "replay")
    beat, seen = runs.beat, list[runs.Report]()

    def away_at_first(number: int, name: str, report: runs.Report) -> str | None:
        if not seen or not seen[-1].pinned:
            seen.append(runs.Report(stages=list(report.stages), pinned=dict(report.pinned), log=""))
            raise psycopg.OperationalError("gone")
        return beat(number, name, report)

    monkeypatch.setattr(runs, "beat", away_at_first)
    assert worker.run_waiting() == run_id
    row = row_of(url, run_id)
    assert (row["state"], row["error"]) == ("done", "")
    assert seen[-1].pinned.keys() == row["pinned"].keys() == {"startingOffsets", "endingOffsets"}
    assert not any(report.stages for report in seen)


def test_one_run_is_claimed_at_a_time_and_a_run_of_a_silent_worker_fails(url: str) -> None:
    first, second = request(url, "one"), request(url, "two")
    claimed = runs.claim("host process 1", most=1)
    assert claimed is not None
    assert claimed.id == first
    assert runs.claim("host process 2", most=1) is None
    assert runs.end_silent(60) == 0
    with psycopg.connect(url) as connection:
        connection.execute(
            "UPDATE vela_pipeline_run SET heartbeat_at = now() - interval '61 s' WHERE id = %s", (first,)
        )
    assert runs.end_silent(60) == 1
    row = row_of(url, first)
    assert (row["state"], "its worker host process 1 stopped" in row["error"]) == ("failed", True)
    report = runs.Report(stages=(), pinned={}, log="")
    assert runs.beat(first, "host process 1", report) is None
    runs.end(first, "host process 1", report, state="done")
    assert row_of(url, first)["state"] == "failed"
    later = runs.claim("host process 2", most=1)
    assert later is not None
    assert later.id == second
    with pytest.raises(psycopg.errors.UniqueViolation):
        request(url, "two")


def test_a_late_schedule_runs_once(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO vela_pipeline_schedule (job, subject, topic_name, options, every_minutes, next_at, who)"
            " VALUES ('export', 's', 't', '{\"to\": \"x\"}', 10, now() - interval '35 min', 'ada')"
        )
    assert runs.request_due() == 1
    assert runs.request_due() == 0
    with psycopg.connect(url) as connection:
        (minutes,) = connection.execute(
            "SELECT extract(epoch FROM next_at - now()) / 60 FROM vela_pipeline_schedule"
        ).fetchone() or (0,)
        row = connection.execute("SELECT who, reason, state, options FROM vela_pipeline_run").fetchone()
        assert row == ("ada", "schedule", "waiting", {"to": "x"})
        connection.execute("UPDATE vela_pipeline_schedule SET next_at = now()")
    assert 4.9 < minutes <= 5
    assert runs.request_due() == 0  # the first run has not ended
    with psycopg.connect(url) as connection:
        connection.execute(
            "UPDATE vela_pipeline_run SET state = 'done', ended_at = now() - interval '31 days'"
        )
    assert runs.trim(30) == 1


def test_the_task_of_beat_requests_due_runs_and_removes_old_hours(url: str) -> None:
    old_ms = time.time_ns() // 1_000_000 - 91 * 24 * 3_600_000
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO vela_pipeline_schedule (job, subject, topic_name, options, every_minutes, next_at, who)"
            " VALUES ('export', 'due', 't', '{}', 10, now(), 'ada')"
        )
        for hour_ms in (old_ms, old_ms + 2 * 24 * 3_600_000):
            connection.execute(
                "INSERT INTO vela_insight_hour (topic_id, hour_ms, messages, size_bytes, keyed_messages, keys,"
                " top_keys, letters, subscriptions, poison, computed_at)"
                " VALUES (-1, %s, 1, 1, 0, 0, '[]', '[]', '[]', '[]', now())",
                (hour_ms,),
            )
    scheduled = {each["task"] for each in beat_schedule().values()}
    assert {check_pipeline.name, run_pipeline.name} <= scheduled
    check_pipeline()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT subject FROM vela_pipeline_run").fetchall() == [("due",)]
        left = connection.execute(
            "DELETE FROM vela_insight_hour WHERE topic_id = -1 RETURNING hour_ms"
        ).fetchall()
    assert left == [(old_ms + 2 * 24 * 3_600_000,)]
