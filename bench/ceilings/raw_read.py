"""What PostgreSQL gives of stored rows to a client that does nothing else."""

from __future__ import annotations

import time

import psycopg
from psycopg import sql

__all__ = ["read_all"]


def read_all(database_url: str, topic: str, *, rows_a_statement: int) -> float:
    """Read a topic's entries in ranges by primary key, once; messages per second."""
    messages = 0
    with psycopg.connect(database_url, autocommit=True, prepare_threshold=2) as connection:
        ledgers = connection.execute(
            "SELECT l.id, l.segment_id FROM vela_ledger l JOIN vela_topic t ON t.id = l.topic_id"
            " WHERE t.name = %s ORDER BY l.id",
            (topic,),
        ).fetchall()
        began = time.perf_counter()
        for ledger_id, segment_id in ledgers:
            statement = sql.SQL(
                "SELECT entry_id, messages, flags, deliver_at_ms, append_ms,"
                " cumulative_messages, cumulative_bytes, data"
                " FROM {} WHERE ledger_id = %b AND entry_id >= %b ORDER BY entry_id LIMIT %b"
            ).format(sql.Identifier(f"vela_entry_{segment_id}"))
            first = 0
            cursor = connection.cursor(binary=True)
            while rows := cursor.execute(statement, (ledger_id, first, rows_a_statement)).fetchall():
                messages += sum(row[1] for row in rows)
                first = rows[-1][0] + 1
        return messages / (time.perf_counter() - began)
