"""Operators' requests to run, cancel and schedule the pipeline's Spark jobs.

An act is a recorded change, such as the cancellation of a run. A run's subject is its topic and some of its options.
For each job and subject, at most one run waits or is under way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = [
    "Run",
    "Schedule",
    "Unended",
    "cancel",
    "find",
    "find_schedule",
    "id_of_act",
    "request",
    "schedule",
    "unended",
    "unschedule",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of a job."""

    id: int
    job: str
    subject: str
    topic_name: str
    options: Mapping[str, str]
    write_id: str
    pinned: Mapping[str, Any]
    state: str
    cancelled_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unended:
    """A run that waits for a worker or is under way."""

    id: int
    state: str
    is_of_act: bool  # Whether the act passed to `unended` requested the run


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A job that repeats."""

    id: int
    job: str
    subject: str
    topic_name: str
    every_minutes: int


async def unended(connection: Connection, *, job: str, subject: str, act_id: int) -> Unended | None:
    """Return the unended run of this job and subject, or None."""
    cursor = await connection.execute(
        query("pipeline", "unended"), {"job": job, "subject": subject, "act_id": act_id}
    )
    row = await cursor.fetchone()
    return None if row is None else Unended(id=row[0], state=row[1], is_of_act=row[2])


async def request(
    connection: Connection,
    *,
    job: str,
    subject: str,
    topic: str,
    options: Mapping[str, str],
    who: str,
    act_id: int,
    write_id: str = "",
    pinned: Mapping[str, Any] | None = None,
    resumes_id: int | None = None,
) -> None:
    """Insert a run that waits for a worker. Safe to repeat for the same act.

    Raises UniqueViolation if another run of the job and subject has not ended.
    """
    await connection.execute(
        query("pipeline", "request"),
        {
            "job": job,
            "subject": subject,
            "topic": topic,
            "options": json.dumps(dict(options)),
            "write_id": write_id,
            "pinned": json.dumps(dict(pinned or {})),
            "who": who,
            "act_id": act_id,
            "resumes_id": resumes_id,
        },
    )


async def id_of_act(connection: Connection, act_id: int) -> int | None:
    """Return the id of the run that this act requested, or None."""
    row = await (await connection.execute(query("pipeline", "of_act"), (act_id,))).fetchone()
    return None if row is None else int(row[0])


async def find(connection: Connection, run_id: int) -> Run | None:
    """Return the run with this id."""
    row = await (await connection.execute(query("pipeline", "find"), (run_id,))).fetchone()
    if row is None:
        return None
    return Run(
        id=row[0],
        job=row[1],
        subject=row[2],
        topic_name=row[3],
        options=row[4],
        write_id=row[5],
        pinned=row[6],
        state=row[7],
        cancelled_by=row[8],
    )


async def cancel(connection: Connection, run_id: int, *, who: str) -> None:
    """Cancel a run. A waiting run ends at once. The worker ends a run that is under way. Safe to repeat."""
    await connection.execute(query("pipeline", "cancel"), {"id": run_id, "who": who})


async def schedule(
    connection: Connection,
    *,
    job: str,
    subject: str,
    topic: str,
    options: Mapping[str, str],
    every_minutes: int,
    who: str,
) -> None:
    """Store or change the schedule of a job and subject. A new schedule is due now. Safe to repeat."""
    await connection.execute(
        query("pipeline", "schedule"),
        {
            "job": job,
            "subject": subject,
            "topic": topic,
            "options": json.dumps(dict(options)),
            "every_minutes": every_minutes,
            "who": who,
        },
    )


async def find_schedule(connection: Connection, schedule_id: int) -> Schedule | None:
    """Return the schedule with this id."""
    row = await (await connection.execute(query("pipeline", "find_schedule"), (schedule_id,))).fetchone()
    if row is None:
        return None
    return Schedule(id=row[0], job=row[1], subject=row[2], topic_name=row[3], every_minutes=row[4])


async def unschedule(connection: Connection, schedule_id: int) -> None:
    """Delete a schedule, but keep its runs. Safe to repeat."""
    await connection.execute(query("pipeline", "unschedule"), (schedule_id,))
