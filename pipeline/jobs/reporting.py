"""Reporters: lines of JSON for the worker that started a job, or words for a terminal."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TextIO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.jobs.request import Reporter

__all__ = ["JsonReporter", "TerminalReporter", "counted_tasks"]

_POLL_S: Final = 0.5


class JsonReporter:
    """Writes one JSON object per line. The worker stores them in the run's row."""

    def __init__(self, out: TextIO, is_stored: threading.Event) -> None:
        """`is_stored` is set when the worker has stored the pinned data."""
        self._out = out
        self._is_stored = is_stored
        self._lock = threading.Lock()  # the thread that counts tasks reports too

    def stage(self, name: str, of: int | None = None) -> None:
        self.send({"stage": name, "of": of})

    def progress(self, done: int, of: int | None = None) -> None:
        self.send({"done": done, "of": of})

    def pin(self, pinned: Mapping[str, Any]) -> None:
        """Wait until the worker has stored `pinned`: a run that continues this one must not choose other messages."""
        self.send({"pinned": dict(pinned)})
        self._is_stored.wait()

    def send(self, line: Mapping[str, Any]) -> None:
        """Write one line. Do nothing if the worker is gone, because then this process ends too."""
        with self._lock:
            try:
                self._out.write(json.dumps(line) + "\n")
                self._out.flush()
            except (OSError, ValueError):
                return


class TerminalReporter:
    """Writes the names of stages to `out`."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def stage(self, name: str, of: int | None = None) -> None:
        self._out.write(f"{name}{f': {of}' if of is not None else ''}\n")

    def progress(self, done: int, of: int | None = None) -> None:
        """Write nothing: a terminal shows only the stages."""

    def pin(self, pinned: Mapping[str, Any]) -> None:
        """Store nothing: a later run in a terminal pins a new range."""


@contextmanager
def counted_tasks(spark: SparkSession, reporter: Reporter) -> Iterator[None]:
    """Report how many of Spark's tasks are done while the block runs."""
    over = threading.Event()

    def watch() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not over.wait(_POLL_S):
            done = of = 0
            for job in tracker.getActiveJobsIds():
                info = tracker.getJobInfo(job)
                for stage_id in info.stageIds if info is not None else ():
                    stage = tracker.getStageInfo(stage_id)
                    if stage is not None:
                        done, of = done + stage.numCompletedTasks, of + stage.numTasks
            if of and not over.is_set():
                reporter.progress(done, of)

    watcher = threading.Thread(target=watch, name="tasks", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join(5 * _POLL_S)
