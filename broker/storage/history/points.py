"""Store the points of the console's charts. A bucket has the points of 10 seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = ["BUCKET_MS", "PointRow", "add_points", "written_until_ms"]

BUCKET_MS: Final = 10_000
_ROWS_AT_ONCE: Final = 1_000  # Binding 1,000 rows blocks the broker for 3 ms


class PointRow(NamedTuple):
    """A row of vela_stats_point_10s without its time."""

    topic_id: int
    subscription_id: int  # 0 means the topic itself
    messages_in: int | None
    bytes_in: int | None
    messages_out: int
    messages_acked: int
    messages_redelivered: int
    backlog_before: int | None
    backlog: int | None
    backlog_most: int | None
    stored_bytes: int | None
    ack_latencies: list[int] | None  # Counts from vela.wire.latency_counts, or None for a topic


async def written_until_ms(connection: Connection) -> int:
    """Return the end of the newest stored bucket, or 0 if none is stored.

    Creates missing rows of vela_stats_progress.
    """
    await connection.execute(query("history", "open_progress"))
    cursor = await connection.execute(query("history", "until"), {"resolution_s": BUCKET_MS // 1000})
    row = await cursor.fetchone()
    return 0 if row is None else int(row[0])


async def add_points(connection: Connection, at_ms: int, rows: Sequence[PointRow]) -> None:
    """Store the bucket that begins at `at_ms`, unless it or a later bucket is already stored.

    If the bucket's minute is already rolled up, the points move to the next minute that is not rolled up. Raises
    psycopg.errors.LockNotAvailable if a roll-up holds a lock for more than 200 ms.
    """
    async with connection.transaction():
        await connection.execute(query("history", "bound_bucket"))
        cursor = await connection.execute(query("history", "begin_bucket"), {"at_ms": at_ms})
        begun = await cursor.fetchone()
        if begun is None:
            return
        (points_at_ms,) = begun
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            columns = zip(*rows[start : start + _ROWS_AT_ONCE], strict=True)
            values = {name: list(column) for name, column in zip(PointRow._fields, columns, strict=True)}
            # unnest() flattens nested arrays, so each list becomes an array literal.
            values["ack_latencies"] = [
                None if counts is None else f"{{{','.join(map(str, counts))}}}"
                for counts in values["ack_latencies"]
            ]
            await connection.execute(query("history", "add_points"), {"at_ms": points_at_ms, **values})
