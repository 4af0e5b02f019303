"""What PostgreSQL takes of the same rows from clients that do nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql

from bench.load.messages.entries import Entry

__all__ = ["InsertCeiling", "insert_for"]

_TABLE = sql.Identifier("bench_ceiling")
_INSERT = sql.SQL(
    "INSERT INTO {} (ledger_id, entry_id, messages, flags, key_hash, append_ms, deliver_at_ms,"
    " cumulative_messages, cumulative_bytes, data)"
    " SELECT * FROM unnest(%b::bigint[], %b::bigint[], %b::integer[], %b::smallint[], %b::integer[], %b::bigint[],"
    " %b::bigint[], %b::bigint[], %b::bigint[], %b::bytea[])"
).format(_TABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertCeiling:
    """Messages per second that a number of connections stored."""

    connections: int
    rows_a_statement: int
    per_s: float


def insert_for(
    database_url: str,
    entry: Entry,
    *,
    connections: int,
    rows_a_statement: int,
    warm_up_s: float,
    run_s: float,
) -> InsertCeiling:
    """Insert the entry over and over into a table shaped like a segment, one transaction a statement."""
    with _table(database_url):
        counts = [0] * connections
        stop = threading.Event()
        threads = [
            threading.Thread(
                target=_insert,
                args=(database_url, entry, rows_a_statement, number, counts, stop),
                daemon=True,
            )
            for number in range(connections)
        ]
        for thread in threads:
            thread.start()
        time.sleep(warm_up_s)
        before, began = sum(counts), time.perf_counter()
        time.sleep(run_s)
        rows, seconds = sum(counts) - before, time.perf_counter() - began
        stop.set()
        for thread in threads:
            thread.join()
    return InsertCeiling(
        connections=connections, rows_a_statement=rows_a_statement, per_s=rows * entry.messages / seconds
    )


@contextmanager
def _table(database_url: str) -> Iterator[None]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        segment = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^vela_entry_[0-9]+$' LIMIT 1"
        ).fetchone()
        assert segment is not None, "no segment: publish something first"
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(_TABLE))
        connection.execute(
            sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(_TABLE, sql.Identifier(segment[0]))
        )
        try:
            yield
        finally:
            connection.execute(sql.SQL("DROP TABLE {}").format(_TABLE))


def _insert(
    database_url: str, entry: Entry, rows: int, ledger_id: int, counts: list[int], stop: threading.Event
) -> None:
    now_ms = int(time.time() * 1000)
    size_bytes = len(entry.data)
    constant = {
        "ledgers": [ledger_id] * rows,
        "messages": [entry.messages] * rows,
        "zeros": [0] * rows,
        "nulls": [None] * rows,
        "times": [now_ms] * rows,
        "data": [entry.data] * rows,
    }
    first = 0
    with psycopg.connect(database_url, autocommit=True, prepare_threshold=2) as connection:
        cursor = connection.cursor()
        while not stop.is_set():
            ids = list(range(first, first + rows))
            cursor.execute(
                _INSERT,
                (
                    constant["ledgers"],
                    ids,
                    constant["messages"],
                    constant["zeros"],
                    constant["nulls"],
                    constant["times"],
                    constant["zeros"],
                    [(number + 1) * entry.messages for number in ids],
                    [(number + 1) * size_bytes for number in ids],
                    constant["data"],
                ),
            )
            first += rows
            counts[ledger_id] = first
