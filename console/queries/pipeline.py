"""Runs and schedules of the pipeline's jobs, and hourly statistics of topics.

A run is one execution of a Spark job on a topic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from console.queries.database import fetch, fetch_one
from console.queries.rights import Scope

__all__ = [
    "InsightRow",
    "RunHead",
    "RunRow",
    "RunsAsked",
    "ScheduleRow",
    "insights",
    "run",
    "runs",
    "schedule",
    "schedules",
    "worker_seen_at",
]

PAGE_ROWS = 50
_MOST_SCHEDULES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsAsked:
    """The filters of the list of runs, and the start of the page. An empty string means no filter."""

    job: str = ""
    state: str = ""
    topic: str = ""
    before: int | None = None  # Id of the last run on the previous page
    limit: int = PAGE_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHead:
    """A run with the columns shown in lists."""

    id: int
    job: str
    subject: str
    topic_name: str
    state: str
    stages: list[dict[str, Any]]
    error: str
    who: str
    reason: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None

    @property
    def stage(self) -> dict[str, Any] | None:
        """The latest stage of the run."""
        return self.stages[-1] if self.stages else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow(RunHead):
    """A run with all its columns."""

    options: dict[str, str]
    result: dict[str, Any] | None
    log: str
    worker: str
    act_id: int | None
    schedule_id: int | None
    resumes_id: int | None
    cancelled_by: str
    heartbeat_at: datetime | None

    @property
    def has_ended(self) -> bool:
        """Whether the run has ended."""
        return self.ended_at is not None

    @property
    def given(self) -> dict[str, str]:
        """The options that have a value."""
        return {name: value for name, value in self.options.items() if value}

    @property
    def without_messages(self) -> RunRow:
        """The run without its log and samples, which can contain messages."""
        kept = {name: value for name, value in (self.result or {}).items() if name != "samples"}
        return replace(self, result=None if self.result is None else kept, log="")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """A job that runs at regular intervals."""

    id: int
    job: str
    subject: str
    topic_name: str
    options: dict[str, str]
    every_minutes: int
    next_at: datetime
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InsightRow:
    """Statistics of the messages that a topic stored in one hour."""

    hour_ms: int
    messages: int
    size_bytes: int
    size_p50: int | None
    size_p95: int | None
    size_p99: int | None
    size_most: int | None
    delay_p50_ms: int | None
    delay_p95_ms: int | None
    delay_p99_ms: int | None
    keyed_messages: int
    keys: int
    top_keys: list[dict[str, Any]]
    letters: list[dict[str, Any]]
    subscriptions: list[dict[str, Any]]
    poison: list[dict[str, Any]]
    computed_at: datetime

    @property
    def hottest_key_percent(self) -> int | None:
        """The percentage of keyed messages that have the most frequent key."""
        if not self.top_keys or not self.keyed_messages:
            return None
        return round(100 * int(self.top_keys[0]["messages"]) / self.keyed_messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    at: datetime | None


def runs(asked: RunsAsked, scope: Scope) -> tuple[list[RunHead], int | None]:
    """Return a page of runs, newest first. Also return `before` for the next page, or None on the last page."""
    rows = fetch(
        RunHead,
        "pipeline",
        "runs",
        {
            "job": asked.job,
            "state": asked.state,
            "topic": asked.topic,
            "before": asked.before,
            "limit": asked.limit + 1,
            **scope.of_acts,
        },
    )
    return rows[: asked.limit], rows[asked.limit - 1].id if len(rows) > asked.limit else None


def run(run_id: int) -> RunRow | None:
    """Return a run, or None if it does not exist."""
    return fetch_one(RunRow, "pipeline", "run", {"id": run_id})


def schedule(schedule_id: int) -> ScheduleRow | None:
    """Return a schedule, or None if it does not exist."""
    return fetch_one(ScheduleRow, "pipeline", "schedule", {"id": schedule_id})


def schedules(scope: Scope) -> list[ScheduleRow]:
    """Return at most 200 schedules in scope, sorted by the time of the next run."""
    return fetch(ScheduleRow, "pipeline", "schedules", {"limit": _MOST_SCHEDULES, **scope.of_acts})


def worker_seen_at() -> datetime | None:
    """Return the time when a worker last looked for a run or reported on a run. None means never."""
    return fetch(_Seen, "pipeline", "worker", {})[0].at


def insights(topic_id: int, *, from_ms: int) -> list[InsightRow]:
    """Return a topic's hourly statistics from `from_ms` on, newest first."""
    return fetch(InsightRow, "pipeline", "insights", {"topic_id": topic_id, "from_ms": from_ms})
