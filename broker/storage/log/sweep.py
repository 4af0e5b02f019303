"""Queries of Celery's tick and sweeps. They are synchronous, because tasks run outside the broker's event loop."""

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
TRIMMED_AT_ONCE: Final = 1000  # Limit of the acts that one statement deletes, without their parts


class SweptSessions(NamedTuple):
    """Numbers of deleted sessions and pending acks."""

    consumers: int
    producers: int
    pending: int


def tick(now_ms: int) -> int:
    """Tell the owner which subscriptions and topics have work due. Return their number. Safe to repeat.

    Do nothing and return 0 while another process runs a tick.
    """
    with task_connection("vela task") as connection:
        rows = connection.execute(query("sweep", "tick"), {"now_ms": now_ms}).fetchall()
        return sum(int(str(places)) for _, places in rows)


def policies() -> None:
    """Tell the owner to check quotas and expiry. Safe to repeat."""
    with task_connection("vela task") as connection:
        connection.execute(query("sweep", "policies"))


def dead_sessions(now_ms: int, *, silent_s: int) -> SweptSessions:
    """Delete all sessions if the broker stopped or was silent for `silent_s` seconds. Safe to repeat.

    Also delete sessions of earlier owner epochs that were not updated in that time.
    """
    with task_connection("vela task") as connection:
        row = connection.execute(
            query("sweep", "dead_sessions"), {"now_ms": now_ms, "silent_s": silent_s}
        ).fetchone()
        return SweptSessions(0, 0, 0) if row is None else SweptSessions(*(int(str(count)) for count in row))


def lifetime() -> None:
    """Tell the owner to trim ledgers, expire messages and drop segments. Safe to repeat."""
    with task_connection("vela task") as connection:
        connection.execute(query("sweep", "lifetime"))


def expire_plans(plan_expiry_s: int, *, second_person_s: int) -> int:
    """Expire plans that were not applied for `plan_expiry_s` seconds. Return their number. Safe to repeat.

    A plan that needs a second person waits at least `second_person_s`.
    """
    with task_connection("vela task") as connection:
        row = connection.execute(
            query("sweep", "expire_plans"),
            {"plan_expiry_s": plan_expiry_s, "second_person_s": second_person_s},
        ).fetchone()
        return 0 if row is None else int(str(row[0]))


def trim_acts(keep_days: int) -> int:
    """Delete some finished acts that are older than `keep_days` and cannot be undone. Safe to repeat.

    Return how many acts were deleted, including parts of acts.
    """
    with task_connection("vela task") as connection:
        row = connection.execute(query("sweep", "trim_acts"), {"keep_days": keep_days}).fetchone()
        return 0 if row is None else int(str(row[0]))


def trim_client_acts(keep: int) -> int:
    """Keep the newest `keep` acts of clients, and delete some older finished acts. Safe to repeat.

    The latest move of each cursor is kept too. Return how many acts were deleted.
    """
    with task_connection("vela task") as connection:
        row = connection.execute(query("sweep", "trim_client_acts"), {"keep": keep}).fetchone()
        return 0 if row is None else int(str(row[0]))


def beat() -> None:
    """Record that Celery beat sent a tick."""
    with task_connection("vela task") as connection:
        connection.execute(query("sweep", "beat"))


def heartbeat_age_s(name: str) -> float | None:
    """Return the seconds since the last heartbeat of `beat` or `worker`. None = never."""
    with task_connection("vela task") as connection:
        row = connection.execute(query("sweep", "heartbeat_age"), (name,)).fetchone()
        return None if row is None else float(str(row[0]))
