"""Operations that read the pipeline's jobs, runs and schedules."""

from __future__ import annotations

from typing import Annotated, Any

from ninja import Query, Router
from pydantic import BaseModel, Field

from broker.environment import Between
from console.api.access import AuthorizedRequest
from console.api.app import read
from console.api.parameters import SearchText
from console.api.pipeline.answers import Jobs, Run, Runs, Schedules
from console.api.problems import Problem
from console.queries import pipeline as queries
from console.queries.pipeline import RunRow, RunsAsked
from pipeline.errors import InvalidOption
from pipeline.jobs.catalogue import JOBS, find_job

__all__ = ["router"]

_MOST_RUNS = 10**18 - 1
router = Router()


class LoggedRuns(BaseModel):
    """Filters for runs."""

    job: Annotated[SearchText, Field(description="only runs of this job")] = ""
    state: Annotated[SearchText, Field(description="only runs in this state")] = ""
    topic: Annotated[SearchText, Field(description="only runs over this topic, by its full name")] = ""
    before: Annotated[
        int | None, Between(0, _MOST_RUNS), Field(description="the next_before of the previous page")
    ] = None


@read(router, "/pipeline/jobs", response=Jobs)
def job_list(request: AuthorizedRequest) -> dict[str, Any]:
    """List the jobs of the pipeline with their options."""
    return {"jobs": list(JOBS.values())}


@read(router, "/pipeline/runs", response=Runs)
def run_list(request: AuthorizedRequest, asked: Query[LoggedRuns]) -> dict[str, Any]:
    """List runs, newest first, 50 at a time."""
    try:
        if asked.job:
            find_job(asked.job)
    except InvalidOption as error:
        raise Problem(400, "BadQuery", str(error)) from None
    rows, next_before = queries.runs(
        RunsAsked(job=asked.job, state=asked.state, topic=asked.topic, before=asked.before),
        request.auth.scope,
    )
    return {"runs": rows, "next_before": next_before}


@read(router, "/pipeline/runs/{int:run_id}", response=Run)
def show_run(request: AuthorizedRequest, run_id: int) -> RunRow:
    """Show a run as it is now.

    Without the reader role, you get no log and no sample messages.
    """
    found = queries.run(run_id) if run_id <= _MOST_RUNS else None
    if found is None or not request.auth.may_see(found.topic_name):
        raise Problem(404, "RunNotFound", f"there is no run {run_id}")
    return found if request.auth.may_read_payloads(found.topic_name) else found.without_messages


@read(router, "/pipeline/schedules", response=Schedules)
def schedule_list(request: AuthorizedRequest) -> dict[str, Any]:
    """List the schedules."""
    return {"schedules": queries.schedules(request.auth.scope)}
