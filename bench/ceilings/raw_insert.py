"""What PostgreSQL takes of the same rows from clients that do nothing else."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql

from bench.load.messages.entries import Entry

__all__ = ["INSERT", "InsertCeiling", "ceiling_table", "columns", "insert_for", "inserting"]

_TABLE = sql.Identifier("bench_ceiling")
INSERT = sql.SQL(
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
    with ceiling_table(database_url):
        counts = [0] * connections
        with contextlib.ExitStack() as running:
            for number in range(connections):
                running.enter_context(inserting(database_url, entry, rows_a_statement, number, counts))
            time.sleep(warm_up_s)
            before, began = sum(counts), time.perf_counter()
            time.sleep(run_s)
            rows, seconds = sum(counts) - before, time.perf_counter() - began
    return InsertCeiling(
        connections=connections, rows_a_statement=rows_a_statement, per_s=rows * entry.messages / seconds
    )


@contextmanager
def ceiling_table(database_url: str) -> Iterator[None]:
    """Make the table that INSERT writes into, and drop it at the end. Something must have been published before."""
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


@contextmanager
def inserting(
    database_url: str,
    entry: Entry,
    rows: int,
    ledger_id: int,
    counts: list[int],
    *,
    rows_per_s: float = math.inf,
) -> Iterator[None]:
    """Insert from a thread, over a connection of its own; `counts[ledger_id]` is the number of rows so far."""
    stop = threading.Event()
    thread = threading.Thread(
        target=_insert, args=(database_url, entry, rows, ledger_id, counts, stop, rows_per_s), daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _insert(
    database_url: str,
    entry: Entry,
    rows: int,
    ledger_id: int,
    counts: list[int],
    stop: threading.Event,
    rows_per_s: float,
) -> None:
    first = 0
    with psycopg.connect(database_url, autocommit=True, prepare_threshold=2) as connection:
        cursor = connection.cursor()
        began = time.perf_counter()
        while not stop.wait(max(0.0, began + first / rows_per_s - time.perf_counter())):
            cursor.execute(INSERT, columns([entry.data] * rows, ledger_id, first, messages=entry.messages))
            first += rows
            counts[ledger_id] = first


def columns(
    data: Sequence[bytes], ledger_id: int, first: int, *, messages: int = 1
) -> tuple[list[int | bytes | None], ...]:
    """Return the values of INSERT for entries of the same size, the first of which has the id `first`."""
    rows = len(data)
    ids = range(first, first + rows)
    zeros: list[int | bytes | None] = [0] * rows
    return (
        [ledger_id] * rows,
        list(ids),
        [messages] * rows,
        zeros,
        [None] * rows,
        [int(time.time() * 1000)] * rows,
        zeros,
        [(number + 1) * messages for number in ids],
        [(number + 1) * len(data[0]) for number in ids],
        list(data),
    )
