"""Answers of the operations on the pipeline."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Jobs", "Run", "Runs", "Schedules"]


class _Answer(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class JobOption(_Answer):
    """An option of a job."""

    name: str
    doc: str
    kind: str
    is_required: bool
    default: str
    choices: list[str]


class Job(_Answer):
    """A job of the pipeline, with its options."""

    name: str
    summary: str
    options: list[JobOption]


class Jobs(_Answer):
    """All jobs."""

    jobs: list[Job]


class RunHead(_Answer):
    """A run, as shown in a list."""

    id: int
    job: str
    subject: str
    topic_name: str
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    stages: list[dict[str, Any]]
    error: str
    who: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class Run(RunHead):
    """One run of a job."""

    options: dict[str, str]
    result: dict[str, Any] | None
    log: str = Field(description="the end of what the job and Spark printed")
    worker: str
    cancelled_by: str
    resumes_id: int | None = Field(description="the run that it continues")
    heartbeat_at: datetime | None
    has_ended: bool


class Runs(_Answer):
    """A page of runs."""

    runs: list[RunHead]
    next_before: int | None


class Schedule(_Answer):
    """A job that runs at regular intervals."""

    id: int
    job: str
    subject: str
    topic_name: str
    options: dict[str, str]
    every_minutes: int
    next_at: datetime
    who: str


class Schedules(_Answer):
    """Schedules, sorted by the time of the next run."""

    schedules: list[Schedule]
