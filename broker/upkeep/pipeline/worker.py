"""Claim a run, execute its job in a process, and keep the run's row up to date.

A run is one execution of a Spark job on a topic.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import psycopg
from django.conf import settings as django_settings

from broker.conf import BrokerSettings, broker_settings
from broker.core.topic_name import TopicName
from broker.storage.away import is_away
from broker.storage.conninfo import conninfo
from broker.storage.pipeline import runs
from broker.storage.pipeline.runs import ClaimedRun, Report
from broker.storage.pool import first_line
from broker.upkeep.pipeline.process import JobProcess
from broker.upkeep.pipeline.scratch import scratch_folder

__all__ = ["SILENT_S", "folder_of", "run_waiting", "stop_running"]

logger = logging.getLogger(__name__)

SILENT_S: Final = 60  # A worker that has not reported for this long counts as dead
_BEAT_S: Final = 1.0
_STOP_S: Final = 3.0
# If PostgreSQL is unavailable for this long, the worker ends the job.
_GIVE_UP_S: Final = SILENT_S / 2
_STAGES: Final = 100
_stopping = threading.Event()


def stop_running() -> None:
    """End the jobs of this process, and begin no new job."""
    _stopping.set()


def run_waiting() -> int | None:
    """Carry out the run that has waited longest, and return the run's id. Return None if no run can begin.

    Blocks until the run has ended. If this process is killed, the run fails.
    """
    settings = broker_settings()
    worker = f"{socket.gethostname()} process {os.getpid()}"
    if _stopping.is_set():
        return None
    run = runs.claim(worker, most=settings.pipeline_runs)
    if run is None:
        return None
    logger.info("pipeline run %s begins: %s of %s", run.id, run.job, run.topic_name)
    # Spark's temporary files contain messages, and a killed Java process leaves the files behind.
    with scratch_folder() as scratch:
        environment = {**os.environ, "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
        try:
            process = JobProcess(_request(run, settings), environment)
        except OSError as error:
            why = f"the job cannot be started: {error.strerror}"
            runs.end(run.id, worker, _NOTHING, state="failed", error=why)
            return run.id
        try:
            _Watch(run, worker, process).until_it_ends()
        finally:
            process.end()
    return run.id


_NOTHING: Final = Report(stages=(), pinned={}, log=None)


def _request(run: ClaimedRun, settings: BrokerSettings) -> dict[str, Any]:
    base = settings.pipeline_folder or getattr(django_settings, "DATA_DIR", Path.cwd()) / "pipeline"
    return {
        "job": run.job,
        "topic": run.topic_name,
        "options": dict(run.options),
        "url": conninfo(),
        "service_url": settings.advertised_url,
        "folder": str(folder_of(Path(base), run.topic_name)),
        "write_id": run.write_id,
        "pinned": dict(run.pinned),
        "master": settings.spark_master,
        "executors_url": settings.spark_database_url,
        "cores": settings.pipeline_cores,
        "memory": f"{settings.pipeline_memory_mb}m",
        "niceness": settings.pipeline_niceness,
        "read_bytes_per_s": settings.pipeline_read_bytes_per_s,
        "statement_timeout_ms": settings.pipeline_statement_timeout_ms,
        "offload_url": settings.offload_url,
    }


def folder_of(base: Path, topic_name: str) -> Path:
    """Return the folder of a topic's namespace.

    Namespaces must not share a folder, or users could import the exports of another namespace.
    """
    name = TopicName.parse(topic_name)
    # Hadoop reads the text before an unquoted colon as a URL scheme.
    return base / quote(name.tenant, safe="") / quote(name.namespace, safe="")


class _Watch:
    def __init__(self, run: ClaimedRun, worker: str, process: JobProcess) -> None:
        self._run = run
        self._worker = worker
        self._process = process
        self._stages: list[dict[str, Any]] = []
        self._pinned: dict[str, Any] = dict(run.pinned)
        self._has_new_pin = False
        self._result: Mapping[str, Any] | None = None
        self._error = ""
        self._heard_s = time.monotonic()  # Time of PostgreSQL's last answer
        self._stored_log = ""

    def until_it_ends(self) -> None:
        while not self._process.has_ended:
            self._take(self._process.reports(_BEAT_S))
            if _stopping.is_set():
                self._end("failed", "the run's worker was stopped: start the job again, or continue the run")
                return
            cancelled_by = self._beat()
            if cancelled_by is None:
                logger.warning(
                    "pipeline run %s was ended elsewhere, or PostgreSQL was unavailable too long; its job is stopped",
                    self._run.id,
                )
                self._process.end()
                return
            if cancelled_by:
                self._end("cancelled", f"cancelled by {cancelled_by}")
                return
        self._process.end()  # Waits for the threads that read the reports and the log
        self._take(self._process.reports(0.0))
        if self._result is not None and self._process.exit_code == 0:
            self._store("done")
        else:
            self._store("failed", self._error or _how_it_ended(self._process.exit_code))

    def _take(self, reports: list[dict[str, Any]]) -> None:
        now_ms = time.time_ns() // 1_000_000
        for report in reports:
            match report:
                case {"stage": str(name)} if len(self._stages) < _STAGES:
                    self._stages.append(
                        {"name": name, "done": None, "of": report.get("of"), "began_ms": now_ms}
                    )
                case {"done": int(done)} if self._stages:
                    self._stages[-1]["done"] = done
                    if report.get("of") is not None:
                        self._stages[-1]["of"] = report["of"]
                case {"pinned": dict(pinned)}:
                    self._pinned.update(pinned)
                    self._has_new_pin = True
                case {"result": dict(result)}:
                    self._result = result
                case {"error": str(error)}:
                    self._error = error

    def _beat(self) -> str | None:
        """Store a report, and return the name of the user who cancelled the run.

        Return "" if nobody cancelled the run, or if PostgreSQL cannot store the report now. Return None if the job must
        end for another reason.
        """
        report = self._report()
        try:
            cancelled_by = runs.beat(self._run.id, self._worker, report)
        except psycopg.Error as error:
            if time.monotonic() - self._heard_s > _GIVE_UP_S:
                return None
            logger.warning("pipeline run %s cannot report: %s", self._run.id, first_line(error))
            return ""
        self._heard_s = time.monotonic()
        if report.log is not None:
            self._stored_log = report.log
        # The job has pinned the messages that it will read, and waits for `confirm`. A cancelled job must not continue.
        if self._has_new_pin and cancelled_by == "":
            self._process.confirm()
            self._has_new_pin = False
        return cancelled_by

    def _end(self, state: str, error: str) -> None:
        self._process.end()
        self._take(self._process.reports(0.0))
        self._store(state, error)

    def _store(self, state: str, error: str = "") -> None:
        # A completed run must not fail because of a short outage of PostgreSQL.
        until_s = time.monotonic() + (_STOP_S if _stopping.is_set() else SILENT_S)
        while True:
            try:
                runs.end(
                    self._run.id, self._worker, self._report(), state=state, result=self._result, error=error
                )
                break
            except psycopg.Error as failure:
                if not is_away(failure) or time.monotonic() > until_s:
                    raise
                logger.warning("pipeline run %s cannot report its end: %s", self._run.id, first_line(failure))
                time.sleep(_BEAT_S)
        logger.info("pipeline run %s is %s%s", self._run.id, state, f": {error}" if error else "")

    def _report(self) -> Report:
        log = self._process.log
        return Report(stages=self._stages, pinned=self._pinned, log=None if log == self._stored_log else log)


def _how_it_ended(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        name = signal.Signals(-exit_code).name
        return (
            f"the job's process was ended by {name}: perhaps the system had too little memory; lower"
            " VELA_PIPELINE_MEMORY_MB, or give the machine more"
            if name == "SIGKILL"
            else f"the job's process was ended by {name}"
        )
    return f"the job's process ended with status {exit_code} and gave no reason; see the end of its log"
