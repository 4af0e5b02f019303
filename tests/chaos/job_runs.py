"""A running job, its processes that can be killed, and how it ends."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

from tests.chaos.job_works import Job, Situation
from tests.chaos.stopping import lives, started_driver
from tests.support.api import act
from tests.support.spark_cluster import SparkCluster
from tests.support.vela import descendants_of
from tests.support.waiting import wait_until

__all__ = ["Run", "Target", "in_the_worker", "on_the_cluster"]

_END_S: Final = 600.0
_GONE_S: Final = 60.0
_STATE: Final = "SELECT state, stages, error FROM vela_pipeline_run WHERE id = %s"
_UNENDED: Final = "SELECT id FROM vela_pipeline_run WHERE state IN ('waiting', 'running')"
_A_MINUTE_PASSES: Final = (
    "UPDATE vela_pipeline_run SET heartbeat_at = heartbeat_at - interval '61 s'"
    " WHERE id = %s AND state = 'running'"
)
_STAGE: Final = re.compile(r"^([a-z][a-zA-Z ]+?)(?:: \d+)?$", re.MULTILINE)


class Target(StrEnum):
    """A kind of process to kill."""

    WORKER = "Vela's worker"
    BROKER = "the broker"
    DRIVER = "the job's Python"
    JAVA = "the job's Java"
    PYTHON = "a Python of a task"
    CLUSTER_DRIVER = "the driver of a cluster"
    EXECUTOR = "an executor"
    EXECUTOR_PYTHON = "a Python of an executor"


# A part of the command line of each such process.
_ARGUMENTS: Final = {Target.JAVA: "deploy.SparkSubmit ", Target.PYTHON: " -m pyspark."}


class Run(Protocol):
    """One attempt of a job."""

    @property
    def stage(self) -> str:
        """The stage that the run reported last."""

    @property
    def has_ended(self) -> bool:
        """Whether the run has ended, successfully or not."""

    def processes(self, target: Target) -> list[int]:
        """Return the ids of the processes of this kind that run now."""

    def end(self, killed: Target | None) -> str:
        """Wait until the run and its processes have ended. Return why the run failed, or "" if it succeeded."""


class _InTheWorker:
    """A run of Vela's worker, with Spark on this machine."""

    def __init__(self, situation: Situation, number: int) -> None:
        self.number = number
        self._situation = situation
        self._seen: set[int] = set()  # all processes of the job so far

    @property
    def stage(self) -> str:
        stages = self._row()[1]
        return str(stages[-1]["name"]) if isinstance(stages, list) and stages else ""

    @property
    def has_ended(self) -> bool:
        return self._row()[0] not in ("waiting", "running")

    def processes(self, target: Target) -> list[int]:
        vela = self._situation.vela
        assert vela.process is not None
        if target in (Target.WORKER, Target.BROKER):
            # Return no process before the job runs: killing a worker without a job would show nothing.
            name = "worker" if target is Target.WORKER else "broker"
            return [vela.pids()[name]] if self.processes(Target.DRIVER) and name in vela.pids() else []
        below = descendants_of(vela.process.pid)
        jobs = [pid for pid, line in below.items() if "pipeline --supervised" in line]
        of_job = {pid: line for job in jobs for pid, line in descendants_of(job).items()}
        self._seen |= {*jobs, *of_job}
        if target is Target.DRIVER:
            return jobs
        return [pid for pid, line in of_job.items() if _ARGUMENTS[target] in line]

    def end(self, killed: Target | None) -> str:
        if killed is Target.WORKER:
            wait_until(
                lambda: not any(map(lives, self._seen)), "the end of the job's processes", timeout_s=_GONE_S
            )
            self._situation.database.execute(_A_MINUTE_PASSES, (self.number,))
        wait_until(lambda: self.has_ended, f"the end of run {self.number}", timeout_s=_END_S, every_s=0.1)
        wait_until(
            lambda: not any(map(lives, self._seen)), "the end of the job's processes", timeout_s=_GONE_S
        )
        assert self._situation.database.execute(_UNENDED).fetchall() == []
        state, _, error = self._row()
        assert (state == "done") == (error == ""), (state, error)
        return str(error)

    def _row(self) -> tuple[object, ...]:
        row = self._situation.database.execute(_STATE, (self.number,)).fetchone()
        assert row is not None
        return row


@contextmanager
def in_the_worker(situation: Situation, job: Job, *, continues: Run | None = None) -> Iterator[Run]:
    """Request a run in Vela's worker. With `continues`, the run continues that earlier run."""
    if continues is not None:
        assert isinstance(continues, _InTheWorker)
        done = act(situation.vela, "continue_job", job.topic, run=continues.number)
    else:
        done = act(situation.vela, "run_job", job.topic, job=job.name, options=dict(job.options))
    yield _InTheWorker(situation, int(done["result"]["run"]))


class _OnTheCluster:
    """`python -m pipeline` with its executors on a cluster."""

    def __init__(self, driver: subprocess.Popen[bytes], cluster: SparkCluster, output: Path) -> None:
        self._driver = driver
        self._cluster = cluster
        self._output = output

    @property
    def stage(self) -> str:
        stages = _STAGE.findall(self._output.read_text(encoding="utf-8", errors="replace"))
        return stages[-1] if stages else ""

    @property
    def has_ended(self) -> bool:
        return self._driver.poll() is not None

    def processes(self, target: Target) -> list[int]:
        if target is Target.CLUSTER_DRIVER:
            return [self._driver.pid]
        return self._cluster.executors() if target is Target.EXECUTOR else self._cluster.python_workers()

    def end(self, killed: Target | None) -> str:
        code = self._driver.wait(_END_S)
        wait_until(lambda: not self._cluster.executors(), "the end of the executors", timeout_s=_GONE_S)
        if killed is Target.CLUSTER_DRIVER:
            return "killed"
        return "" if code == 0 else self._output.read_text(encoding="utf-8", errors="replace")


@contextmanager
def on_the_cluster(situation: Situation, cluster: SparkCluster, job: Job) -> Iterator[Run]:
    """Run a job as a user does in a terminal."""
    vela, output = situation.vela, cluster.folder / "driver.log"
    output.unlink(missing_ok=True)
    options = [word for name, value in job.options.items() for word in (f"--{name.replace('_', '-')}", value)]
    command = [
        *(sys.executable, "-m", "pipeline", job.name, "--topic", job.topic, *options, "--memory", "512m"),
        # All attempts must have the same write id. A worker uses the first run's id; in a terminal the user chooses it.
        *("--write-id", f"soak {job.topic} {job.options}"),
        *("--url", vela.database_url, "--service-url", vela.pulsar_url, "--folder", str(situation.folder)),
    ]
    with started_driver(command, cluster.environment, output) as driver:
        yield _OnTheCluster(driver, cluster, output)
