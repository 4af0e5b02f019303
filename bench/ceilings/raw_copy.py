"""Measure how fast clients that do nothing else can write the same rows to PostgreSQL."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql

from bench.load.messages.entries import Entry
from broker.core.entry import StoredEntry
from broker.storage.log.copy_rows import copy_rows, entries_stream, rest_stream

__all__ = ["CopyCeiling", "ceiling_tables", "copy_for", "copying"]

_TABLES = ("bench_ceiling", "bench_ceiling_rest")
_ENTRIES = (
    "COPY bench_ceiling (ledger_id, entry_id, append_ms, deliver_at_ms, cumulative_messages, cumulative_bytes,"
    " messages, rest_bytes, key_hash, flags, data) FROM STDIN (FORMAT binary)"
)
_REST = "COPY bench_ceiling_rest (ledger_id, entry_id, piece, data) FROM STDIN (FORMAT binary)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyCeiling:
    """The result of `copy_for`: messages per second over all connections."""

    entries_per_commit: int
    per_s: float


def copy_for(
    database_url: str,
    entry: Entry,
    *,
    ledger_ids: Sequence[int],
    entries_per_commit: int,
    warm_up_s: float,
    run_s: float,
) -> CopyCeiling:
    """Store the entry over and over in the `ceiling_tables`, in the pieces that the broker makes of it.

    Each ledger gets a connection. No earlier run may have used these ids in the tables.
    """
    counts = dict.fromkeys(ledger_ids, 0)
    with ExitStack() as running:
        for ledger_id in ledger_ids:
            running.enter_context(copying(database_url, entry, entries_per_commit, ledger_id, counts))
        time.sleep(warm_up_s)
        before, began = sum(counts.values()), time.perf_counter()
        time.sleep(run_s)
        stored, seconds = sum(counts.values()) - before, time.perf_counter() - began
    return CopyCeiling(entries_per_commit=entries_per_commit, per_s=stored * entry.messages / seconds)


@contextmanager
def ceiling_tables(database_url: str) -> Iterator[None]:
    """Make tables shaped like a segment's, and drop them at the end.

    Publish a message first, so that there is a segment. Use the same tables for all runs that you compare with the
    broker: a segment's tables grow into new memory, but a new table reuses the memory of one that was just dropped.
    """
    with psycopg.connect(database_url, autocommit=True) as connection:
        segment = connection.execute("SELECT max(id) FROM vela_segment").fetchone()
        assert segment is not None
        names = sql.SQL(", ").join(map(sql.Identifier, _TABLES))
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(names))
        for table, like in zip(_TABLES, ("vela_entry_{}", "vela_entry_{}_rest"), strict=True):
            connection.execute(
                sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL) WITH (autovacuum_enabled = off)").format(
                    sql.Identifier(table), sql.Identifier(like.format(segment[0]))
                )
            )
        try:
            yield
        finally:
            connection.execute(sql.SQL("DROP TABLE {}").format(names))


@contextmanager
def copying(
    database_url: str,
    entry: Entry,
    entries: int,
    ledger_id: int,
    counts: dict[int, int],
    *,
    entries_per_s: float = math.inf,
) -> Iterator[None]:
    """Store the entry over and over, from a thread with its own connection, `entries` to a commit.

    `counts[ledger_id]` is how many it has stored so far.
    """
    stop = threading.Event()
    thread = threading.Thread(
        target=_store,
        args=(database_url, entry, entries, ledger_id, counts, stop, entries_per_s),
        daemon=True,
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _store(
    database_url: str,
    entry: Entry,
    entries: int,
    ledger_id: int,
    counts: dict[int, int],
    stop: threading.Event,
    entries_per_s: float,
) -> None:
    now_ms = int(time.time() * 1000)
    size_bytes, messages = len(entry.data), entry.messages
    with psycopg.connect(database_url, autocommit=True) as connection:
        began = time.perf_counter()
        while not stop.wait(max(0.0, began + counts[ledger_id] / entries_per_s - time.perf_counter())):
            ids = range(counts[ledger_id], counts[ledger_id] + entries)
            rows = copy_rows(
                [
                    StoredEntry(
                        *(ledger_id, number, messages, 0, None, 0, now_ms),
                        *((number + 1) * messages, (number + 1) * size_bytes, entry.data),
                    )
                    for number in ids
                ]
            )
            with connection.transaction(), connection.cursor() as cursor:
                for statement, stream in ((_ENTRIES, entries_stream([rows])), (_REST, rest_stream([rows]))):
                    with cursor.copy(statement) as copy:
                        copy.write(stream)
            counts[ledger_id] = ids.stop
