"""Kill jobs at random moments and run them again, then prove that nothing is half done and every message is there once.

`make pipeline-soak` runs it: `python -m tests.chaos.jobs --messages 200000 --kills 6 [--seed N]` kills each job on a
standalone cluster, drivers as well as executors; names of jobs leave out the others. `python -m tests.chaos.jobs
offload --kills 20` kills the run of an offload, and the broker beside it.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import vela as client_of_vela
from config.environment import PROJECT_DIR
from tests.chaos.job_works import WORKS, Situation, checksum_of, export_command, publish
from tests.chaos.offload_kills import LEDGER_ENTRIES, run_offload_soak
from tests.support.spark_cluster import SparkCluster, started_cluster
from tests.support.vela import VelaProcess, started_vela
from tests.support.waiting import wait_until

__all__ = ["run_job_soak"]

SOURCE = "persistent://public/soak/from"
EXPORTED = "exported"
END_S = 1800.0
EXECUTOR_SHARE = 0.6  # of the kills that find an executor; the others end the driver


def run_job_soak(
    vela: VelaProcess, cluster: SparkCluster, names: Sequence[str], *, messages: int, kills: int, seed: int
) -> dict[str, dict[str, int]]:
    """Start each of these jobs `kills` times and kill it, on a topic of this many messages.

    Return for each job how many kills hit a driver, an executor, and nothing because the job had ended. A job ends well
    although one of its executors is killed. If its driver is killed, the next attempt does what is left.
    """
    rng = random.Random(seed)
    hit = {name: {"driver": 0, "executor": 0, "": 0} for name in names}
    with tempfile.TemporaryDirectory() as folder, client_of_vela.Client(vela.pulsar_url) as client:
        client.create_producer("persistent://public/soak/first").close()
        vela.manage("setpolicy", "public/soak", "deduplication=true", "--yes")
        publish(client, SOURCE, range(messages))
        situation = Situation(
            vela=vela,
            client=client,
            source=SOURCE,
            published=checksum_of(client, SOURCE),
            folder=Path(folder),
            format=rng.choice(("parquet", "ndjson", "csv")),
            exported=EXPORTED,
        )
        assert situation.published.messages == messages
        jobs = _Jobs(vela, cluster, situation.folder, rng)
        whole_s = jobs.timed(*export_command(SOURCE, situation.format, EXPORTED))
        for name in names:
            work = WORKS[name](situation)
            for _ in range(kills):
                killed = jobs.kill(whole_s, *work.command())
                work.check(is_done=killed != "driver")
                hit[name][killed] += 1
                sys.stderr.write(f"  kills {hit}\n")
            for _ in range(2):  # the second has nothing left to do
                jobs.run(*work.command())
                work.check(is_done=True)
    return hit


class _Jobs:
    """Runs jobs on the cluster, each with a driver in a process group of its own."""

    def __init__(self, vela: VelaProcess, cluster: SparkCluster, folder: Path, rng: random.Random) -> None:
        self.folder = folder
        self._vela = vela
        self._cluster = cluster
        self._rng = rng

    def run(self, *job: str) -> None:
        assert self._start(*job).wait(END_S) == 0, job

    def timed(self, *job: str) -> float:
        began_s = time.monotonic()
        self.run(*job)
        return time.monotonic() - began_s

    def kill(self, within_s: float, *job: str) -> str:
        """Start a job and kill its driver or an executor. Return what was killed; "" if the job had ended.

        With an executor killed the job must end well.
        """
        driver = self._start(*job)
        with suppress(subprocess.TimeoutExpired):
            assert driver.wait(self._rng.uniform(0, within_s)) == 0, job
            return ""
        executors = self._cluster.executors()  # none yet, if Java is still starting
        if executors and self._rng.random() < EXECUTOR_SHARE:
            with suppress(ProcessLookupError):
                os.kill(self._rng.choice(executors), signal.SIGKILL)
            assert driver.wait(END_S) == 0, job
            return "executor"
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        wait_until(lambda: not self._cluster.executors(), "the end of the driver's executors", timeout_s=60.0)
        return "driver"

    def _start(self, *job: str) -> subprocess.Popen[bytes]:
        vela = self._vela
        where = ("--url", vela.database_url, "--service-url", vela.pulsar_url, "--folder", str(self.folder))
        return subprocess.Popen(
            [sys.executable, "-m", "pipeline", *job, *where],
            cwd=PROJECT_DIR,
            env={**os.environ, **self._cluster.environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def main() -> int:
    """Run the command line. Return 0 if every message is there once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "job", nargs="*", help=f"of {', '.join([*WORKS, 'offload'])}; all but offload if none"
    )
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    if given.job == ["offload"]:
        sys.stderr.write(f"offload: {given.kills} kills, seed {seed}\n")
        settings = {"VELA_LEDGER_MAX_ENTRIES": str(LEDGER_ENTRIES), "VELA_LEDGER_MIN_AGE_S": "0"}
        with started_vela(settings) as vela:
            found = run_offload_soak(vela, kills=given.kills, seed=seed)
        sys.stderr.write(f"offload: {found}\n")
        return 0
    names = given.job or list(WORKS)
    sys.stderr.write(
        f"{', '.join(names)}: {given.messages:,} messages, {given.kills} kills of each, seed {seed}\n"
    )
    with started_vela() as vela, started_cluster() as cluster:
        hit = run_job_soak(vela, cluster, names, messages=given.messages, kills=given.kills, seed=seed)
    sys.stderr.write(f"jobs: kills that hit a job that ran: {hit}; every message is there once\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
