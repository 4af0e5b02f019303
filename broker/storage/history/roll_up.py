"""Roll chart points up into longer buckets, and remove old points."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Final

import psycopg
from psycopg import sql

from broker.core.subscription.ack_latencies import BUCKETS
from broker.storage.queries import query
from broker.storage.short_connection import ShortConnection
from broker.storage.task_connection import task_connection

__all__ = ["RESOLUTIONS_S", "expire", "roll_up"]

logger = logging.getLogger(__name__)

RESOLUTIONS_S: Final = (10, 60, 600, 3600)  # Bucket lengths, shortest first
# A minute counts as complete 30 seconds after its end, even if a bucket is missing.
_LATE_MS: Final = 30_000
_RECENT_MS: Final = 120_000
_EXPIRED_AT_ONCE: Final = 10_000


@cache
def _of_tables(name: str, resolution_s: int, coarse_s: int = 0) -> bytes:
    tables = {
        "points": sql.Identifier(f"vela_stats_point_{resolution_s}s"),
        "coarse": sql.Identifier(f"vela_stats_point_{coarse_s}s"),
        "buckets": sql.Literal(BUCKETS),
        "sums": sql.SQL(", ").join(
            sql.SQL("coalesce(sum(ack_latencies[{}]), 0)::bigint").format(sql.Literal(bucket + 1))
            for bucket in range(BUCKETS)
        ),
    }
    return sql.SQL(query("history", name).decode()).format(**tables).as_bytes(None)


def roll_up(now_ms: int, *, budget_s: float) -> int:
    """Fill longer buckets from complete shorter buckets. Return how many were filled. Safe to repeat.

    Stops after about `budget_s`, or if a lock is not free within 2 s.
    """
    ends_s = time.monotonic() + budget_s
    done = 0
    # `bound_session` sets timeouts for the whole session, so no other task may use this connection.
    with task_connection("vela roll-up") as connection:
        connection.execute(query("history", "bound_session"))
        connection.execute(query("history", "open_progress"))
        try:
            for fine_s, coarse_s in pairwise(RESOLUTIONS_S):
                while time.monotonic() < ends_s and _roll_up_next(connection, fine_s, coarse_s, now_ms):
                    done += 1
        except psycopg.errors.LockNotAvailable:
            logger.info("a lock on the charts' points was not free within 2 s; the next roll-up continues")
    return done


def _roll_up_next(connection: ShortConnection, fine_s: int, coarse_s: int, now_ms: int) -> bool:
    with connection.transaction():
        from_ms = _number(connection, query("history", "lock_progress"), resolution_s=coarse_s)
        written_ms = _number(connection, query("history", "until"), resolution_s=fine_s)
        if fine_s == RESOLUTIONS_S[0]:
            written_ms = max(written_ms, now_ms - _LATE_MS)
        to_ms = _start_of_bucket(written_ms, coarse_s)
        if to_ms <= from_ms:
            return False
        first_ms = _number(connection, _of_tables("first_point", fine_s), from_ms=from_ms, to_ms=to_ms)
        if not first_ms:
            connection.execute(query("history", "advance"), {"resolution_s": coarse_s, "until_ms": to_ms})
            return False
        at_ms = _start_of_bucket(first_ms, coarse_s)
        end_ms = at_ms + coarse_s * 1000
        connection.execute(_of_tables("roll_up", fine_s, coarse_s), {"from_ms": at_ms, "to_ms": end_ms})
        if fine_s == RESOLUTIONS_S[0]:
            is_recent = now_ms - end_ms < _RECENT_MS
            connection.execute(_of_tables("sum_up", coarse_s), {"at_ms": at_ms, "is_recent": is_recent})
        connection.execute(query("history", "advance"), {"resolution_s": coarse_s, "until_ms": end_ms})
    return True


def expire(now_ms: int, *, kept_ms: Mapping[int, int], budget_s: float) -> int:
    """Remove old points. Return how many were removed. Safe to repeat.

    `kept_ms` maps each length in RESOLUTIONS_S to the time for which its points are kept. Points that are not rolled
    up yet are kept longer.
    """
    gone = 0
    with task_connection("vela task") as connection:
        for resolution_s, coarse_s in zip(RESOLUTIONS_S, (*RESOLUTIONS_S[1:], None), strict=True):
            before_ms = now_ms - kept_ms[resolution_s]
            if coarse_s is not None:
                before_ms = min(
                    before_ms, _number(connection, query("history", "until"), resolution_s=coarse_s)
                )
            ends_s = time.monotonic() + budget_s / len(RESOLUTIONS_S)
            while time.monotonic() < ends_s:
                removed = connection.execute(
                    _of_tables("expire", resolution_s), {"before_ms": before_ms, "limit": _EXPIRED_AT_ONCE}
                ).rowcount
                gone += removed
                if removed < _EXPIRED_AT_ONCE:
                    break
    return gone


def _start_of_bucket(time_ms: int, resolution_s: int) -> int:
    return time_ms - time_ms % (resolution_s * 1000)


def _number(connection: ShortConnection, statement: bytes, **parameters: int) -> int:
    row = connection.execute(statement, parameters).fetchone()
    return int(str(row[0])) if row is not None and row[0] is not None else 0
