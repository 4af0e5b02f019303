"""Runs of the pipeline's Spark jobs. Workers execute the runs, and Celery tasks insert and delete runs.

All calls are synchronous.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

from broker.storage.queries import query
from broker.storage.short_connection import ShortConnection
from broker.storage.task_connection import task_connection

__all__ = [
    "ClaimedRun",
    "Report",
    "beat",
    "claim",
    "end",
    "end_silent",
    "request_due",
    "request_offloads",
    "trim",
    "trim_insights",
]


_STATEMENT_TIMEOUT_MS: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedRun:
    """A run that a worker has claimed."""

    id: int
    job: str
    topic_name: str
    options: Mapping[str, str]
    write_id: str
    pinned: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The progress of a run."""

    stages: Sequence[Mapping[str, Any]]
    pinned: Mapping[str, Any]
    log: str | None  # None means keep the stored log

    def to_sql(self) -> dict[str, str | None]:
        """Return the report as SQL parameters."""
        return {
            "stages": _json([dict(stage) for stage in self.stages]),
            "pinned": _json(dict(self.pinned)),
            "log": None if self.log is None else self.log.replace("\0", "\ufffd"),
        }


def _connect() -> AbstractContextManager[ShortConnection]:
    # A worker cannot stop its job while a statement waits for a lock, so the wait is limited.
    return task_connection("vela pipeline", statement_timeout_ms=_STATEMENT_TIMEOUT_MS)


def claim(worker: str, *, most: int) -> ClaimedRun | None:
    """Claim the oldest waiting run. Return None if no run waits, or if too many runs are in progress."""
    with _connect() as connection:
        connection.execute(query("pipeline", "look"))
        row = _claim(connection, worker, most)
    if row is None:
        return None
    return ClaimedRun(
        id=row[0], job=row[1], topic_name=row[2], options=row[3], write_id=row[4], pinned=row[5]
    )


def _claim(connection: ShortConnection, worker: str, most: int) -> tuple[Any, ...] | None:
    with connection.transaction():
        # Without this lock, two workers could count the runs at the same time and exceed the limit.
        connection.execute(query("pipeline", "lock"))
        parameters = {"worker": worker, "most": most}
        return connection.execute(query("pipeline", "claim"), parameters).fetchone()


def beat(run_id: int, worker: str, report: Report) -> str | None:
    """Store a run's progress. Return the name of the user who cancelled the run, or an empty string.

    Return None if the run no longer belongs to this worker.
    """
    with _connect() as connection:
        row = connection.execute(
            query("pipeline", "beat"), {"id": run_id, "worker": worker, **report.to_sql()}
        ).fetchone()
    return None if row is None else str(row[0])


def end(
    run_id: int,
    worker: str,
    report: Report,
    *,
    state: str,
    result: Mapping[str, Any] | None = None,
    error: str = "",
) -> None:
    """Store the end of a run, if the run still belongs to this worker."""
    with _connect() as connection:
        connection.execute(
            query("pipeline", "end"),
            {
                "id": run_id,
                "worker": worker,
                "state": state,
                "result": None if result is None else _json(dict(result)),
                "error": error.replace("\0", "\ufffd"),
                **report.to_sql(),
            },
        )


def end_silent(silent_s: int) -> int:
    """Mark runs as failed if their worker was silent for `silent_s` seconds. Return the number of failed runs."""
    with _connect() as connection:
        return connection.execute(query("pipeline", "end_silent"), {"silent_s": silent_s}).rowcount


def request_due() -> int:
    """Insert runs for schedules that are due. Return the number of inserted runs."""
    with _connect() as connection:
        return connection.execute(query("pipeline", "request_due")).rowcount


def request_offloads() -> int:
    """Insert offload runs for topics whose policies ask for offloading. Return the number of inserted runs."""
    with _connect() as connection:
        return connection.execute(query("pipeline", "request_offloads")).rowcount


def trim(keep_days: int) -> int:
    """Delete runs that ended more than `keep_days` days ago. Return the number of deleted runs."""
    with _connect() as connection:
        return connection.execute(query("pipeline", "trim"), {"keep_days": keep_days}).rowcount


def trim_insights(before_ms: int) -> int:
    """Delete the topic statistics of hours that began before `before_ms`. Return the number of deleted rows."""
    with _connect() as connection:
        return connection.execute(query("pipeline", "trim_insights"), (before_ms,)).rowcount


def _json(value: object) -> str:
    # Samples of messages may contain U+0000, which PostgreSQL cannot store.
    return json.dumps(value).replace("\\u0000", "\\ufffd")
