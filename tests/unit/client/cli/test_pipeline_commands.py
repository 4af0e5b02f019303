"""`vela pipeline`: what it prints about jobs, runs and schedules, and how it follows a run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.client.cli.conftest import Vela
from tests.unit.client.cli.fake_console import FakeConsole, a_result, an_act

RUN: dict[str, Any] = {
    "id": 12,
    "job": "export",
    "subject": "persistent://public/default/orders → x",
    "topic_name": "persistent://public/default/orders",
    "state": "running",
    "stages": [{"name": "write files", "done": 3, "of": 16}],
    "error": "",
    "who": "ada",
    "created_at": "2026-01-01T00:00:00Z",
    "started_at": "2026-01-01T00:00:01Z",
    "ended_at": None,
    "options": {"to": "x", "starting_time": ""},
    "result": None,
    "log": "first\nsecond\n",
    "worker": "host process 1",
    "cancelled_by": "",
    "resumes_id": None,
    "heartbeat_at": None,
    "has_ended": False,
}
DONE = RUN | {
    "state": "done",
    "has_ended": True,
    "result": {"words": "5 messages in x"},
    "stages": [{"name": "read them back", "done": 0, "of": 2}],
}
FAILED = RUN | {"state": "failed", "has_ended": True, "error": "Spark needs Java 17"}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vela.cli.commands.pipeline._POLL_S", 0.0)


def test_runs_are_listed_and_one_run_is_shown(vela: Vela, console: FakeConsole) -> None:
    console.answers["GET pipeline/runs"] = {"runs": [RUN, FAILED], "next_before": None}
    console.answers["GET pipeline/runs/12"] = RUN
    listed = vela("pipeline list --state running --topic orders")
    assert console.asked[0].query == {"state": "running", "topic": "persistent://public/default/orders"}
    assert ("write files: 3 of 16" in listed.output, "Spark needs Java 17" in listed.output) == (True, True)
    shown = vela("pipeline show 12").output
    assert ("host process 1" in shown, "second" in shown, "starting_time" in shown) == (True, False, False)
    assert "second" in vela("pipeline show 12 --log").output
    assert json.loads(vela("pipeline show 12 --json").output)["id"] == 12


def test_a_finished_run_does_not_show_its_last_stage(vela: Vela, console: FakeConsole) -> None:
    console.answers["GET pipeline/runs"] = {"runs": [DONE], "next_before": None}
    console.answers["GET pipeline/runs/12"] = DONE
    for line in ("pipeline list", "pipeline show 12"):
        said = vela(line).output
        assert ("done" in said, "0 of 2" in said) == (True, False)
    assert "5 messages in x" in vela("pipeline show 12").output


def test_jobs_and_schedules_are_listed(vela: Vela, console: FakeConsole) -> None:
    option = {
        "name": "to",
        "doc": "a folder",
        "kind": "file",
        "is_required": True,
        "default": "",
        "choices": [],
    }
    console.answers["GET pipeline/jobs"] = {
        "jobs": [{"name": "export", "summary": "Write.", "options": [option]}]
    }
    assert "required" in vela("pipeline jobs").output
    console.answers["GET pipeline/schedules"] = {"schedules": []}
    assert "there are no schedules" in vela("pipeline schedules").output
    refused = vela("pipeline unschedule 5 --yes")
    assert (refused.exit_code, "there is no schedule 5" in refused.output) == (3, True)


def test_a_schedule_shows_its_subject_and_its_options(vela: Vela, console: FakeConsole) -> None:
    schedule = {
        "id": 4,
        "job": "export",
        "subject": "persistent://public/default/orders → {time}",
        "topic_name": "persistent://public/default/orders",
        "options": {"to": "{time}", "format": "csv", "starting_time": ""},
        "every_minutes": 1,
        "next_at": "2026-01-01T00:00:00Z",
        "who": "ada",
    }
    console.answers["GET pipeline/schedules"] = {"schedules": [schedule]}
    listed = vela("pipeline schedules").output
    for words in ("orders → {time}", "to={time}, format=csv", "1 minute "):
        assert words in listed, words
    assert "starting_time" not in listed


def test_a_run_is_followed_to_its_end(vela: Vela, console: FakeConsole) -> None:
    console.answers["POST acts/7/apply"] = an_act(
        kind="run_job", state="applied", parameters={"job": "export"}, result=a_result() | {"run": 12}
    )
    console.answers["GET pipeline/runs/12"] = [RUN | {"stages": [], "state": "waiting"}, RUN, DONE]
    done = vela("pipeline run export orders --set to=x --yes --follow")
    assert done.exit_code == 0, done.output
    said = [text in done.output for text in ("run 12: waiting", "run 12: write files", "5 messages in x")]
    assert said == [True, True, True]
    console.answers["GET pipeline/runs/12"] = FAILED
    failed = vela("pipeline run export orders --set to=x --yes --follow")
    assert (failed.exit_code, "run 12 failed: Spark needs Java 17" in failed.output) == (1, True)
    asked = vela("pipeline run export orders --set to=x --yes")
    assert "`vela pipeline show 12` shows the progress of run 12" in asked.output


@pytest.mark.parametrize(
    "line",
    [
        "run export orders --set to",
        "run export orders --set =x",
        "run export orders --set to=a --set to=b",
        "schedule export orders --every 60 --set to=a --set to=a",
        "show 0",
    ],
)
def test_a_wrong_command_line_sends_no_request(line: str, vela: Vela, console: FakeConsole) -> None:
    assert vela(f"pipeline {line}").exit_code == 2
    assert console.asked == []
