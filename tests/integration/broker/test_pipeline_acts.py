"""Acts that start, continue, cancel and schedule jobs of the pipeline: rows for a worker, never two for one subject."""

from __future__ import annotations

from typing import Any

import pytest

from broker.acts import requests as acts
from tests.integration.broker.topic_acting import T, apply, done, plan
from tests.support.broker_harness import BrokerRun, one_row, rows

pytestmark = pytest.mark.usefixtures("acts_of_run")

EXPORT: dict[str, Any] = {"job": "export", "options": {"to": "orders"}}
EACH_TIME: dict[str, Any] = {"job": "export", "options": {"to": "orders/{time}"}}
RUNS = "SELECT id, job, subject, state, who, options->>'format', error FROM vela_pipeline_run ORDER BY id"


async def test_a_job_that_waits_for_a_worker_cannot_be_requested_again(run: BrokerRun) -> None:
    await run.producer()
    planned = await plan("run_job", **EXPORT)
    assert planned.plan is not None
    assert planned.plan["words"][0] == f"export runs over {T}"
    assert rows(run.database_url, RUNS) == []

    applied = await apply(planned)

    assert applied.state == "applied", applied.error
    assert applied.result is not None
    (row,) = rows(run.database_url, RUNS)
    assert row == (applied.result["run"], "export", f"{T} → orders", "waiting", "op", "parquet", "")
    second = await plan("run_job", **EXPORT)
    assert second.state == "refused"
    assert "waits for a worker: wait until it ends, or cancel it" in second.error
    await done("run_job", job="export", options={"to": "elsewhere"})


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"job": "exprot"}, "there is no job 'exprot': the jobs are export"),
        ({"job": "export"}, "option to is missing"),
        ({"job": "export", "options": {"to": "../../etc"}}, "without .. and without /"),
        ({"job": "export", "options": {"to": "x", "format": "xml"}}, "it must be parquet or ndjson or csv"),
        ({"job": "export", "options": {"to": "x", "colour": "red"}}, "unknown option 'colour'"),
        ({"job": "export", "options": {"to": "x", "starting_time": "noon"}}, "option starting_time"),
    ],
)
async def test_a_wrong_job_changes_nothing(parameters: dict[str, Any], says: str, run: BrokerRun) -> None:
    await run.producer()
    refused = await plan("run_job", **parameters)
    assert (refused.state, says in refused.error) == ("refused", True), refused.error
    assert rows(run.database_url, RUNS) == []


async def test_a_topic_that_is_not_there_is_named(run: BrokerRun) -> None:
    with pytest.raises(acts.ActRefused, match="there is no topic"):
        await plan("run_job", "persistent://public/default/missing", **EXPORT)


async def test_a_run_is_cancelled_and_continued(run: BrokerRun) -> None:
    await run.producer()
    first = (await done("run_job", **EXPORT)).result
    assert first is not None
    await done("cancel_job", run=first["run"])
    assert rows(run.database_url, RUNS)[0][3:5] == ("cancelled", "op")
    assert rows(run.database_url, RUNS)[0][6] == "cancelled by op"
    again = await plan("cancel_job", run=first["run"])
    assert "nothing to cancel" in again.error
    with_pins = "UPDATE vela_pipeline_run SET write_id = 'run-x', pinned = '{\"a\": 1}' RETURNING id"
    assert one_row(run.database_url, with_pins) == (first["run"],)

    second = (await done("continue_job", run=first["run"])).result

    assert second is not None
    found = "SELECT state, write_id, pinned, resumes_id, options->>'to' FROM vela_pipeline_run WHERE id = %s"
    assert one_row(run.database_url, found, second["run"]) == (
        "waiting",
        "run-x",
        {"a": 1},
        first["run"],
        "orders",
    )
    refused = await plan("continue_job", run=second["run"])
    assert "is waiting: you can continue only one that failed or was cancelled" in refused.error
    missing = await plan("cancel_job", run=99)
    assert f"there is no run 99 over {T}" in missing.error


async def test_schedules_are_created_changed_and_deleted(run: BrokerRun) -> None:
    await run.producer()
    refused = await plan("schedule_job", every_minutes=60, **EXPORT)
    assert "each run of a schedule needs a new name" in refused.error
    await done("schedule_job", every_minutes=60, **EACH_TIME)
    shown = await plan("schedule_job", every_minutes=5, **EACH_TIME)
    assert shown.plan is not None
    assert "with to = " in shown.plan["words"][1], "a schedule's plan shows the options, as a run's plan does"
    await apply(shown)
    found = rows(run.database_url, "SELECT id, job, every_minutes, who FROM vela_pipeline_schedule")
    assert [row[1:] for row in found] == [("export", 5, "op")]
    with pytest.raises(acts.ActRefused, match="every_minutes is 0"):
        await plan("schedule_job", every_minutes=0, **EACH_TIME)
    planned = await plan("unschedule_job", schedule=found[0][0])
    assert planned.plan is not None
    assert "no longer runs every 5 minutes" in planned.plan["words"][0]
    assert (await apply(planned)).state == "applied"
    assert rows(run.database_url, "SELECT id FROM vela_pipeline_schedule") == []


async def test_a_schedule_made_more_frequent_does_not_wait_for_its_old_time(run: BrokerRun) -> None:
    await run.producer()
    await done("schedule_job", every_minutes=1440, **EACH_TIME)
    rows(run.database_url, "UPDATE vela_pipeline_schedule SET next_at = now() + interval '1 day'")
    await done("schedule_job", every_minutes=5, **EACH_TIME)
    soon = "SELECT next_at <= now() + interval '5 min' FROM vela_pipeline_schedule"
    assert one_row(run.database_url, soon) == (True,)
    rows(run.database_url, "UPDATE vela_pipeline_schedule SET next_at = now()")
    await done("schedule_job", every_minutes=60, **EACH_TIME)
    assert one_row(run.database_url, "SELECT next_at <= now() FROM vela_pipeline_schedule") == (True,)


async def test_the_schedules_of_a_topic_are_deleted_with_it(run: BrokerRun) -> None:
    """Nobody could delete the schedules afterwards, because an act needs an existing topic."""
    await run.producer()
    await done("schedule_job", every_minutes=60, **EACH_TIME)
    await done("delete_topic", force=True)
    assert rows(run.database_url, "SELECT id FROM vela_pipeline_schedule") == []
