"""Store the history of the hour before the pictures, as a broker that had run all the time would have stored it."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator
from typing import Any, Final

import psycopg

__all__ = ["remember_an_hour"]

_STEPS_S: Final = (10, 60)
_HOUR_S: Final = 3600
_EVERYTHING: Final = 0
_BUMP_S: Final = (1500, 2100)  # a deployment stopped the consumers 2,100 s ago and started them 1,500 s ago
_COLUMNS: Final = (
    "at_ms, topic_id, subscription_id, messages_in, bytes_in, messages_out, messages_acked, messages_redelivered,"
    " backlog_before, backlog, backlog_most, stored_bytes, ack_latencies"
)
_SUBJECTS: Final = """
SELECT t.id, t.name, coalesce(array_agg(s.id) FILTER (WHERE s.id IS NOT NULL), '{}')
FROM vela_topic t LEFT JOIN vela_subscription s ON s.topic_id = t.id WHERE t.partitions = 0 GROUP BY t.id
"""
_RATES_PER_S: Final = {"orders": 34.0, "positions": 48.0, "payments": 4.0, "invoices": 6.5, "events": 2.5}
_MESSAGE_BYTES: Final = 190


def remember_an_hour(database_url: str) -> None:
    """Store points for the past hour, and make every topic three days old."""
    now_s = int(time.time()) // 60 * 60
    chance = random.Random(3)
    with psycopg.connect(database_url) as connection:
        for table in ("vela_topic", "vela_subscription"):
            connection.execute(f"UPDATE {table} SET created_at = now() - interval '3 days'")
        subjects = connection.execute(_SUBJECTS).fetchall()
        parents: dict[int, int] = dict(
            connection.execute("SELECT id, parent_id FROM vela_topic WHERE parent_id IS NOT NULL").fetchall()
        )
        for step_s in _STEPS_S:
            rows: list[tuple[Any, ...]] = []
            sums: dict[tuple[int, int], list[int]] = {}
            for at_s in range(now_s - _HOUR_S, now_s, step_s):
                for topic_id, name, subscriptions in subjects:
                    rate = _rate_of(name, parents) * _wave(at_s) * chance.uniform(0.93, 1.07)
                    point = _point(now_s - at_s, int(rate * step_s))
                    rows += [_row(at_s, topic_id, each, point) for each in (0, *subscriptions)]
                    for total in {_EVERYTHING, parents.get(topic_id, _EVERYTHING)}:
                        sums.setdefault((at_s, total), [0, 0, 0, 0, 0])
                        sums[at_s, total] = [a + b for a, b in zip(sums[at_s, total], point, strict=True)]
            if step_s > _STEPS_S[0]:
                rows += [_row(at_s, topic_id, 0, point) for (at_s, topic_id), point in sums.items()]
            marks = ", ".join(["%s"] * len(rows[0]))
            with connection.cursor() as cursor:
                cursor.executemany(
                    f"INSERT INTO vela_stats_point_{step_s}s ({_COLUMNS}) VALUES ({marks})"
                    " ON CONFLICT DO NOTHING",
                    rows,
                )


def _rate_of(name: str, parents: dict[int, int]) -> float:
    local = name.rpartition("/")[2]
    base, _, partition = local.partition("-partition-")
    return _RATES_PER_S.get(base, 0.0) / (4 if partition else 1)


def _wave(at_s: int) -> float:
    return 1 + 0.18 * math.sin(at_s / 540) + 0.05 * math.sin(at_s / 70)


def _point(age_s: int, messages: int) -> list[int]:
    """Return the messages in, out, acked and redelivered, and the backlog at the end."""
    begin, end = _BUMP_S
    if begin <= age_s < end:  # the consumers are away
        return [messages, 0, 0, 0, int(messages * (end - age_s) / 60)]
    if begin - 200 <= age_s < begin:  # they catch up
        left = (age_s - begin + 200) / 200
        return [messages, messages * 3, messages * 3, messages // 12, int(messages * 10 * left)]
    return [messages, messages, messages, 0, messages // 40]


def _row(at_s: int, topic_id: int, subscription_id: int, point: list[int]) -> tuple[Any, ...]:
    coming, out, acked, again, backlog = point
    is_topic = subscription_id == 0
    return (
        at_s * 1000,
        topic_id,
        subscription_id,
        coming if is_topic else None,
        coming * _MESSAGE_BYTES if is_topic else None,
        out,
        acked,
        again,
        backlog,
        backlog,
        backlog,
        int(2.1e6 + at_s % 3600 * 40) if topic_id == _EVERYTHING else int(4e5) if is_topic else None,
        None if is_topic or not acked else list(_latencies(acked)),
    )


def _latencies(acked: int) -> Iterator[int]:
    """Return counts by the time from delivery to ack: most below 8 ms, a few up to 250 ms."""
    shares = (0.05, 0.2, 0.4, 0.2, 0.08, 0.04, 0.02, 0.01)
    return (math.ceil(acked * share) for share in shares)
