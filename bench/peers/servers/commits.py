"""Count the transactions that a PostgreSQL database has committed."""

from __future__ import annotations

import psycopg

__all__ = ["commits_of"]


def commits_of(database_url: str) -> int:
    """Return PostgreSQL's own count, which may be a second old."""
    with psycopg.connect(database_url) as connection:
        row = connection.execute(
            "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
    assert row is not None
    return int(row[0])
