"""Queries of Celery's periodic tasks. All calls are synchronous.

The owner is the broker process that serves the topics. An act is a change by an operator, a client or a policy. A plan
is an act that an operator has prepared but not applied.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.storage.queries import query
from broker.storage.task_connection import task_connection

__all__ = [
    "SILENT_S",
    "TRIMMED_AT_ONCE",
    "SweptSessions",
    "beat",
    "dead_sessions",
    "expire_plans",
    "heartbeat_age_s",
    "lifetime",
    "policies",
    "tick",
    "trim_acts",
    "trim_client_acts",
]

SILENT_S: Final = 15  # TCP keep-alive takes this long to notice a lost host
TRIMMED_AT_ONCE: Final = 1000


class SweptSessions(NamedTuple):
    """How many sessions and pending acks were deleted."""

    consumers: int
    producers: int
    pending: int


def tick(now_ms: int) -> int:
    """Tell the owner which subscriptions and topics need work. Return how many need work. Safe to repeat.

    If another process is running a tick, do nothing and return 0.
    """
    with task_connection("vela task") as connection:
        rows = connection.execute(query("sweep", "tick"), {"now_ms": now_ms}).fetchall()
        return sum(int(str(places)) for _, places in rows)


def policies() -> None:
    """Tell the owner to check quotas, start compactions, and remove unused subscriptions and topics. Safe to repeat."""
    with task_connection("vela task") as connection:
        connection.execute(query("sweep", "policies"))


def dead_sessions(now_ms: int, *, silent_s: int) -> SweptSessions:
    """Delete the consumer and producer sessions of a stopped or silent broker. Safe to repeat."""
    with task_connection("vela task") as connection:
        row = connection.execute(
            query("sweep", "dead_sessions"), {"now_ms": now_ms, "silent_s": silent_s}
        ).fetchone()
        return SweptSessions(0, 0, 0) if row is None else SweptSessions(*(int(str(count)) for count in row))


def lifetime() -> None:
    """Tell the owner to trim ledgers, expire messages and drop tables of unneeded entries. Safe to repeat."""
    with task_connection("vela task") as connection:
        connection.execute(query("sweep", "lifetime"))


def expire_plans(plan_expiry_s: int, *, second_person_s: int) -> int:
    """Expire plans that were not applied within `plan_expiry_s` seconds. Safe to repeat.

    Return the number of expired plans. A plan that a second person must apply is kept for at least
    `second_person_s` seconds.
    """
    with task_connection("vela task") as connection:
        row = connection.execute(
            query("sweep", "expire_plans"),
            {"plan_expiry_s": plan_expiry_s, "second_person_s": second_person_s},
        ).fetchone()
        return 0 if row is None else int(str(row[0]))


def trim_acts(keep_days: int) -> int:
    """Delete finished acts that are older than `keep_days` days and cannot be undone. Safe to repeat.

    Return the number of deleted acts, including the parts of acts on several topics.
    """
    with task_connection("vela task") as connection:
        limits = {"keep_days": keep_days, "most": TRIMMED_AT_ONCE}
        row = connection.execute(query("sweep", "trim_acts"), limits).fetchone()
        return 0 if row is None else int(str(row[0]))


def trim_client_acts(keep: int) -> int:
    """Delete finished acts of clients, except the newest acts and the latest move of each cursor. Safe to repeat.

    `keep` is the number of newest acts to keep. Return the number of deleted acts.
    """
    with task_connection("vela task") as connection:
        limits = {"keep": keep, "most": TRIMMED_AT_ONCE}
        row = connection.execute(query("sweep", "trim_client_acts"), limits).fetchone()
        return 0 if row is None else int(str(row[0]))


def beat() -> None:
    """Record that Celery beat sent a tick."""
    with task_connection("vela task") as connection:
        connection.execute(query("sweep", "beat"))


def heartbeat_age_s(name: str) -> float | None:
    """Return the seconds since the last heartbeat with this name, or None if there was no heartbeat."""
    with task_connection("vela task") as connection:
        row = connection.execute(query("sweep", "heartbeat_age"), (name,)).fetchone()
        return None if row is None else float(str(row[0]))
