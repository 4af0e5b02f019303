"""What Celery's tasks ask of PostgreSQL: synchronous, a short connection a call, since a task may run anywhere."""

from __future__ import annotations

from typing import NamedTuple

import psycopg

from broker.storage.conninfo import conninfo
from broker.storage.queries import query

__all__ = [
    "SweptSessions",
    "beat",
    "dead_sessions",
    "expire_plans",
    "heartbeat_age_s",
    "lifetime",
    "policies",
    "tick",
    "trim_acts",
]


class SweptSessions(NamedTuple):
    """How many rows of the dead were removed."""

    consumers: int
    producers: int
    pending: int


def _connect() -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(conninfo(), autocommit=True, application_name="vela task", connect_timeout=5)


def tick(now_ms: int) -> int:
    """Name to the owner what is due at `now_ms`; return how many subscriptions and topics. Safe to repeat."""
    with _connect() as connection:
        rows = connection.execute(query("sweep", "tick"), {"now_ms": now_ms}).fetchall()
        return sum(int(str(places)) for _, places in rows)


def policies() -> None:
    """Tell the owner that it is time to check quotas and expiry. Harmless to run twice."""
    with _connect() as connection:
        connection.execute(query("sweep", "policies"))


def dead_sessions(now_ms: int, *, silent_s: int) -> SweptSessions:
    """Remove sessions of a broker not seen for `silent_s` seconds, and those of an older owner."""
    with _connect() as connection:
        row = connection.execute(
            query("sweep", "dead_sessions"), {"now_ms": now_ms, "silent_s": silent_s}
        ).fetchone()
        return SweptSessions(0, 0, 0) if row is None else SweptSessions(*(int(str(count)) for count in row))


def lifetime() -> None:
    """Tell the owner that it is time to trim, to expire and to drop. Harmless to run twice."""
    with _connect() as connection:
        connection.execute(query("sweep", "lifetime"))


def expire_plans(plan_expiry_s: int) -> int:
    """Plans that nobody applied for so long become expired; how many. Harmless to run twice."""
    with _connect() as connection:
        row = connection.execute(query("sweep", "expire_plans"), {"plan_expiry_s": plan_expiry_s}).fetchone()
        return 0 if row is None else int(str(row[0]))


def trim_acts(keep_days: int) -> int:
    """Remove acts older than that, at most 1,000; how many went. Harmless to run twice."""
    with _connect() as connection:
        row = connection.execute(query("sweep", "trim_acts"), {"keep_days": keep_days}).fetchone()
        return 0 if row is None else int(str(row[0]))


def beat() -> None:
    """Beat sent a task just now."""
    with _connect() as connection:
        connection.execute(query("sweep", "beat"))


def heartbeat_age_s(name: str) -> float | None:
    """Seconds since `beat` sent or `worker` ran a tick; None = never."""
    with _connect() as connection:
        row = connection.execute(query("sweep", "heartbeat_age"), (name,)).fetchone()
        return None if row is None else float(str(row[0]))
