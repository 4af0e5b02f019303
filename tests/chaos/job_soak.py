"""Kill each kind of process of a job in turn, at moments spread over the job, and do the job again."""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.chaos.job_runs import Run, Target, in_the_worker, on_the_cluster
from tests.chaos.job_works import WORKS, Job, Situation, Work
from tests.chaos.stopping import kill
from tests.support.spark_cluster import SparkCluster
from tests.support.waiting import wait_until

__all__ = ["Hit", "JobSoak"]

IN_THE_WORKER: Final = (Target.WORKER, Target.DRIVER, Target.JAVA, Target.PYTHON)
ON_THE_CLUSTER: Final = (Target.CLUSTER_DRIVER, Target.EXECUTOR, Target.EXECUTOR_PYTHON)
WITHOUT_SPARK: Final = {"offload": (Target.WORKER, Target.DRIVER, Target.BROKER)}
# Spark replaces these processes and repeats their tasks, so the job must succeed.
MUST_END_WELL: Final = (Target.EXECUTOR, Target.EXECUTOR_PYTHON)
MOST_MISSES: Final = 20  # in a row
MOST_S: Final = 1800.0  # the longest wait for anything
LOOK_S: Final = 0.3  # between two looks at the processes; a look takes 30 ms of CPU time
EARLIER: Final = 0.8  # if a job ends before its kill, the expected duration is multiplied by this


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A kill that found its target while the job ran."""

    job: str
    target: Target
    stage: str
    after_s: float  # since the job began
    error: str  # "" if the job ended well nevertheless


@dataclass(slots=True, kw_only=True)
class Span:
    """How long a job takes without a kill, and when each of its processes begins."""

    all_s: float = 0.0
    first_s: dict[Target, float] = field(default_factory=dict)


class JobSoak:
    """Kills jobs, runs them again, and checks what they did."""

    def __init__(
        self, situation: Situation, cluster: SparkCluster, scratch: Path, rng: random.Random
    ) -> None:
        self.hits: list[Hit] = []
        self._situation = situation
        self._cluster = cluster
        self._scratch = scratch
        self._rng = rng

    def kill_each(self, name: str, kills: int) -> None:
        """Kill a job this many times: each of its processes in turn, at moments spread over the time that it takes."""
        work = WORKS[name](self._situation)
        targets = WITHOUT_SPARK.get(name, (*IN_THE_WORKER, *ON_THE_CLUSTER))
        spans = {where: self._span(work, where) for where in {self._is_clustered(each) for each in targets}}
        counts = Counter(targets[number % len(targets)] for number in range(kills))
        plan = [
            (target, (number + self._rng.random()) / count)
            for target, count in counts.items()
            for number in range(count)
        ]
        self._rng.shuffle(plan)
        misses = 0
        while plan:
            target, share = plan[-1]
            span = spans[self._is_clustered(target)]
            hit = self._kill(work, target, share, span)
            if hit is None:
                misses += 1
                assert misses < MOST_MISSES, f"{name} ends before a kill of {target}"
                span.all_s *= EARLIER
                continue
            misses = 0
            plan.pop()
            self.hits.append(hit)
            came = hit.error.splitlines()[-1] if hit.error else "it ended well"
            sys.stderr.write(
                f"  {name}: killed {target} after {hit.after_s:.1f} of {span.all_s:.1f} s, in {hit.stage!r}: {came}\n"
            )

    def _kill(self, work: Work, target: Target, share: float, span: Span) -> Hit | None:
        """Kill a job's process and do the job again until it is done. Return None if the job ended before the kill."""
        job = work.job()
        with self._started(job, target) as run:
            began_s = self._begun_s(run, target)
            first_s = span.first_s.get(target, 0.0)
            moment_s = began_s + first_s + share * max(0.0, span.all_s - first_s)
            self._wait(lambda: time.monotonic() >= moment_s or run.has_ended, "a moment")
            self._wait(lambda: run.has_ended or run.processes(target), str(target))
            stage, after_s = run.stage, time.monotonic() - began_s
            found = [] if run.has_ended else run.processes(target)
            if found:
                kill(self._rng.choice(found))
            error = run.end(target if found else None)
            work.check(job, is_done=not error)
            assert not error or (found and target not in MUST_END_WELL), error
        if error:
            with self._started(job, target, continues=run) as again:
                assert (error_again := again.end(None)) == "", error_again
            work.check(job, is_done=True)
        self._wait(lambda: not list(self._scratch.glob("vela-pipeline-*")), "an empty TMPDIR")
        if not found:
            return None
        return Hit(job=job.name, target=target, stage=stage, after_s=after_s, error=error)

    def _span(self, work: Work, is_clustered: bool) -> Span:
        """Do a job without a kill, to see how long it takes and when its processes begin."""
        job = work.job()
        targets = ON_THE_CLUSTER if is_clustered else WITHOUT_SPARK.get(job.name, IN_THE_WORKER)
        span = Span()
        with self._started(job, targets[0]) as run:
            began_s = self._begun_s(run, targets[0])
            while not run.has_ended:
                for target in targets:
                    if target not in span.first_s and run.processes(target):
                        span.first_s[target] = time.monotonic() - began_s
                time.sleep(LOOK_S)
            span.all_s = time.monotonic() - began_s
            assert (error := run.end(None)) == "", error
        work.check(job, is_done=True)
        return span

    def _begun_s(self, run: Run, target: Target) -> float:
        """Wait until the job has a process, and return the time. A worker begins a run up to two seconds late."""
        if not self._is_clustered(target):
            self._wait(lambda: run.has_ended or run.processes(Target.DRIVER), "the job's process")
        return time.monotonic()

    @staticmethod
    def _wait(condition: Callable[[], object], what: str) -> None:
        wait_until(condition, what, timeout_s=MOST_S, every_s=LOOK_S)

    def _started(
        self, job: Job, target: Target, *, continues: Run | None = None
    ) -> AbstractContextManager[Run]:
        if self._is_clustered(target):
            return on_the_cluster(self._situation, self._cluster, job)
        # A new run of a replay publishes again; only one that continues the killed run completes it.
        is_new = job.name != "replay" and self._rng.random() < 0.5
        return in_the_worker(self._situation, job, continues=None if is_new else continues)

    @staticmethod
    def _is_clustered(target: Target) -> bool:
        return target in ON_THE_CLUSTER
