"""Measure the least latency that messages can have beside a load: the machine works as hard, but without a broker.

A bare server commits each message and sends it back. Beside it, a bare client writes as much WAL as the load did
through Vela, in statements as large as Vela's. A process uses as much CPU time as Vela's broker did. PostgreSQL and the
disk are the same. The client of the load itself is missing, so the measured latency is a little too low.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import psycopg

from bench.ceilings.committed_echo import committed_echo_server
from bench.ceilings.raw_copy import ceiling_tables, copying
from bench.ceilings.tcp_echo import echo_latency
from bench.load.elsewhere import elsewhere
from bench.load.messages import entries
from bench.load.open_loop import Latencies, run_exactly
from broker.log.scheduling.topic_limit import BESIDE_LIGHT

__all__ = ["Strain", "bare_latency", "wal_bytes"]

_ROW_WAL_BYTES = 200  # the WAL of a row and its index entry, beside the data
_SLICE_S = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Strain:
    """What a load makes the machine do through Vela, per second."""

    broker_cores: float
    wal_bytes: float


def wal_bytes(database_url: str) -> int:
    """Return how much WAL the server has written since it was made."""
    with psycopg.connect(database_url) as connection:
        row = connection.execute(
            "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
        ).fetchone()
        assert row is not None
        return int(row[0])


def bare_latency(
    database_url: str, strain: Strain, *, payload_bytes: int, per_s: float, warm_up_s: float, run_s: float
) -> Latencies:
    """Measure messages through the bare server while bare clients put the same strain on the machine."""
    with ceiling_tables(database_url), ExitStack() as running:
        port = running.enter_context(committed_echo_server(database_url, payload_bytes))
        # The bare server itself writes the rows of the measured messages.
        rows_per_s = strain.wal_bytes / (payload_bytes + _ROW_WAL_BYTES) - per_s
        if rows_per_s > 0:
            writes = partial(_writing, database_url, payload_bytes, rows_per_s)
            running.enter_context(elsewhere(writes, gives_way=False))
        running.enter_context(elsewhere(partial(_burning, strain.broker_cores), gives_way=False))
        return run_exactly(
            echo_latency(port, payload_bytes=payload_bytes, per_s=per_s, warm_up_s=warm_up_s, run_s=run_s)
        )


@contextmanager
def _writing(database_url: str, payload_bytes: int, rows_per_s: float) -> Iterator[None]:
    entry = entries.single(bytes(payload_bytes))
    with copying(database_url, entry, BESIDE_LIGHT.entries, 0, {0: 0}, entries_per_s=rows_per_s):
        yield


@contextmanager
def _burning(cores: float) -> Iterator[None]:
    """Use this many cores' CPU time, in slices. More than one core counts as one."""
    stop = threading.Event()

    def burn() -> None:
        while not stop.wait(max(0.0, (1 - cores) * _SLICE_S)):
            until_s = time.thread_time() + cores * _SLICE_S
            while time.thread_time() < until_s:
                pass

    thread = threading.Thread(target=burn, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
