"""Disturb the broker with checkpoints, vacuums and a drain at known times, and watch what else happens meanwhile."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import psycopg

from bench.load.consuming.drain import drain
from bench.load.peers.binary import PeerFailed
from pipeline.priority import give_way

__all__ = ["Disturbance", "Disturbances", "Happened", "checkpoint", "drained", "happening", "vacuum"]

_LOOK_EVERY_S: Final = 0.2
_GIVES_WAY: Final = 10  # a niceness, with which a process gets a tenth of another process's CPU time
_LOOK: Final = """\
SELECT array(SELECT relname::text FROM pg_class WHERE relkind = 'r' AND relname ~ '^vela_entry_[0-9]+$' ORDER BY 1),
    EXISTS (SELECT FROM pg_stat_progress_vacuum)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """Something to do, and when."""

    after_s: float
    what: str
    do: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """Something that happened, and when, by `time.perf_counter`."""

    what: str
    began_s: float
    ended_s: float


@dataclass(slots=True)
class Disturbances:
    """What has happened so far."""

    windows: list[Happened] = field(default_factory=list)

    def what_at(self, began_s: float, ended_s: float) -> frozenset[str]:
        """Return what happened, even partly, in this span of time."""
        return frozenset(
            each.what for each in self.windows if each.began_s <= ended_s and each.ended_s >= began_s
        )


@contextmanager
def happening(database_url: str, plan: Sequence[Disturbance]) -> Iterator[Disturbances]:
    """Carry out the plan, each part at its time, and watch what PostgreSQL and the broker do by themselves.

    At the end, raises the first error of a part, and PeerFailed if a part did not begin in time.
    """
    found = Disturbances()
    is_over = threading.Event()
    failures: list[Exception] = []

    def carry_out(each: Disturbance) -> None:
        try:
            if is_over.wait(each.after_s):
                raise PeerFailed(f"the measurement ended before this began: {each.what}")
            from_s = time.perf_counter()
            each.do()
            found.windows.append(Happened(what=each.what, began_s=from_s, ended_s=time.perf_counter()))
        except Exception as error:
            failures.append(error)

    threads = [
        *(threading.Thread(target=carry_out, args=(each,)) for each in plan),
        threading.Thread(target=_watch, args=(database_url, found, is_over)),
    ]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


def checkpoint(database_url: str) -> None:
    """Make PostgreSQL write all changed pages as fast as it can; a checkpoint that it begins by itself is slower."""
    _run(database_url, "CHECKPOINT")


def vacuum(database_url: str) -> None:
    """Vacuum all tables."""
    _run(database_url, "VACUUM")


def drained(port: int, topic: str, subscription: str, entries: int) -> None:
    """Consume and ack a backlog in a separate process of low priority."""
    with ProcessPoolExecutor(
        1, mp_context=multiprocessing.get_context("spawn"), initializer=_give_way
    ) as process:
        process.submit(_drain, port, topic, subscription, entries).result()


def _drain(port: int, topic: str, subscription: str, entries: int) -> None:
    asyncio.run(drain(port, topic, subscription, entries))


def _give_way() -> None:
    os.setsid()  # `give_way` lowers a session's priority only if this process leads it
    give_way(_GIVES_WAY)


def _run(database_url: str, statement: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(statement.encode())


def _watch(database_url: str, found: Disturbances, is_over: threading.Event) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        before: Mapping[str, object] = {}
        looked = time.perf_counter()
        while not is_over.wait(_LOOK_EVERY_S):
            row = connection.execute(_LOOK).fetchone()
            assert row is not None
            now = time.perf_counter()
            segments = dict.fromkeys(row[0])
            if before and segments != before:
                found.windows.append(Happened(what="segment end", began_s=looked, ended_s=now))
            if row[1]:
                found.windows.append(Happened(what="vacuum", began_s=looked, ended_s=now))
            before, looked = segments, now
