"""Measure how fast a client that does nothing else can read stored rows from PostgreSQL."""

from __future__ import annotations

import time

import psycopg
from psycopg import sql

__all__ = ["read_all"]


def read_all(database_url: str, topic: str, *, rows_a_statement: int) -> float:
    """Read a topic's entries once, in ranges by primary key, and return the messages per second."""
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
                "SELECT e.entry_id, e.messages, e.flags, e.deliver_at_ms, e.append_ms,"
                " e.cumulative_messages, e.cumulative_bytes, CASE e.rest_bytes WHEN 0 THEN e.data ELSE e.data || ("
                "SELECT string_agg(p.data, '') FROM (SELECT r.data FROM {rest} r WHERE r.ledger_id = e.ledger_id"
                " AND r.entry_id = e.entry_id ORDER BY r.piece) p) END"
                " FROM {entries} e WHERE e.ledger_id = %b AND e.entry_id >= %b ORDER BY e.entry_id LIMIT %b"
            ).format(
                entries=sql.Identifier(f"vela_entry_{segment_id}"),
                rest=sql.Identifier(f"vela_entry_{segment_id}_rest"),
            )
            first = 0
            cursor = connection.cursor(binary=True)
            while rows := cursor.execute(statement, (ledger_id, first, rows_a_statement)).fetchall():
                messages += sum(row[1] for row in rows)
                first = rows[-1][0] + 1
        return messages / (time.perf_counter() - began)
