"""The end of a run is stored, although PostgreSQL is unavailable for a moment."""

from __future__ import annotations

import io
import json
import queue
from typing import Any, cast

import psycopg
import pytest

from broker.storage.pipeline import runs
from broker.storage.pipeline.runs import ClaimedRun
from broker.upkeep.pipeline import worker
from broker.upkeep.pipeline.process import JobProcess

RUN = ClaimedRun(id=1, job="export", topic_name="t", options={}, write_id="run-1", pinned={})


class _Done:
    """A process that has reported its result and ended."""

    has_ended = True
    exit_code = 0
    log = ""

    def __init__(self) -> None:
        self._reports: list[dict[str, Any]] = [{"result": {"messages": 5}}]
        self.confirmations = 0

    def reports(self, wait_s: float) -> list[dict[str, Any]]:
        found, self._reports = self._reports, []
        return found

    def confirm(self) -> None:
        self.confirmations += 1

    def end(self) -> None:
        pass


def test_a_report_over_thousands_of_partitions_arrives_whole() -> None:
    """A job waits until its pinned data is stored: without this report it would wait for ever."""
    pinned = {f"persistent://public/default/orders-partition-{n}": "123456:99" for n in range(20_000)}
    line = json.dumps({"pinned": pinned}).encode() + b"\n"
    assert len(line) > 1 << 20
    following = JobProcess.__new__(JobProcess)
    following._reports = queue.SimpleQueue()
    following._read_reports(io.BytesIO(line + b'{"done": 1}\n'))
    assert following.reports(0.0) == [{"pinned": pinned}, {"done": 1}]


def watch() -> worker._Watch:
    return worker._Watch(RUN, "host process 1", cast(Any, _Done()))


def test_a_run_that_is_done_stays_done_over_a_restart_of_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the run were restarted as failed, it would do everything a second time."""
    ended: list[str] = []
    failures = [psycopg.OperationalError("the connection is lost"), psycopg.errors.AdminShutdown("restart")]

    def end(*_: object, state: str, **__: object) -> None:
        if failures:
            raise failures.pop()
        ended.append(state)

    monkeypatch.setattr(runs, "end", end)
    monkeypatch.setattr(worker, "_BEAT_S", 0.0)
    watch().until_it_ends()
    assert ended == ["done"]


@pytest.mark.parametrize("error", [psycopg.errors.UndefinedColumn("no"), psycopg.OperationalError("away")])
def test_a_worker_gives_up_in_the_end(error: psycopg.Error, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(runs, "end", end)
    monkeypatch.setattr(worker, "_BEAT_S", 0.0)
    monkeypatch.setattr(worker, "SILENT_S", 0)
    with pytest.raises(type(error)):
        watch().until_it_ends()


@pytest.mark.parametrize(("answer", "confirmations"), [("", 1), (None, 0), ("ada", 0)])
def test_a_job_goes_on_only_if_its_run_still_belongs_to_the_worker(
    answer: str | None, confirmations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If something else has ended the run, its pinned data is not stored, and another run may pin other messages."""
    monkeypatch.setattr(runs, "beat", lambda *_: answer)
    process = _Done()
    following = worker._Watch(RUN, "host process 1", cast(Any, process))
    following._take([{"pinned": {"through": 7}}])
    assert (following._beat(), process.confirmations) == (answer, confirmations)


def test_a_log_that_has_not_changed_is_not_stored_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stored: list[str | None] = []
    away = [psycopg.OperationalError("the connection is lost")]

    def beat(_run_id: int, _worker: str, report: runs.Report) -> str:
        if len(stored) == 2 and away:
            raise away.pop()
        stored.append(report.log)
        return ""

    monkeypatch.setattr(runs, "beat", beat)
    process = _Done()
    following = worker._Watch(RUN, "host process 1", cast(Any, process))
    # The connection is lost at the third log.
    for log in (
        "",
        "one\n",
        "one\ntwo\n",
        "one\ntwo\n",
        "one\ntwo\n",
    ):
        process.log = log
        following._beat()
    assert stored == [None, "one\n", "one\ntwo\n", None]
