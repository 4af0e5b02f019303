"""100,000 topics with ten subscriptions each, written straight into Vela's tables, as an old installation has them.

The rows are those that lists and pages read: names, cursors, summaries in most of the states, sessions and an
hour of points in charts. The topics are empty and nobody is connected: making a million subscriptions through clients
takes hours.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg

__all__ = ["Names", "seed"]

NAMESPACES: Final = 100  # in ten tenants
PARTITIONS: Final = 10  # of every hundredth topic
SUBSCRIPTIONS: Final = 10  # of a topic, and of each partition

# First ids far above what the running broker gives out.
_BASE: Final = 1_000_000_000

_STATEMENTS: Final = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8").split(";\n")[:-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """How much the tables contain, and names that have a page in the console."""

    topics: int  # as lists count them
    subscriptions: int
    topic: str
    partitioned_topic: str
    subscription: str
    took_s: float


def seed(database_url: str, *, topics: int) -> Names:
    """Write `topics` topics, and what belongs to them, in one transaction; then vacuum and analyze."""
    values: dict[str, Any] = {
        "base": _BASE,
        "topics": topics,
        "namespaces": NAMESPACES,
        "partitions": PARTITIONS,
        "subscriptions": SUBSCRIPTIONS,
        "now_ms": time.time_ns() // 1_000_000,
    }
    began = time.perf_counter()
    with psycopg.connect(database_url, autocommit=True) as connection:
        with connection.transaction():
            for statement in _STATEMENTS:
                connection.execute(statement.encode(), values)
        connection.execute("VACUUM ANALYZE")
        counts = connection.execute(
            "SELECT (SELECT count(*) FROM vela_topic WHERE parent_id IS NULL), (SELECT count(*) FROM vela_subscription)"
        ).fetchone()
    assert counts is not None
    return Names(
        topics=counts[0],
        subscriptions=counts[1],
        topic="tenant-7/team-77/topic-0000077",
        partitioned_topic="tenant-0/team-0/topic-0000000",
        subscription="subscription-0",
        took_s=time.perf_counter() - began,
    )
