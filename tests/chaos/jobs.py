"""Kill jobs at random moments, then prove that no file is half done and every message is there once.

`make pipeline-soak` runs it: `python -m tests.chaos.jobs --messages 200000 --kills 6 [--seed N]` kills exports and
imports on a standalone cluster, drivers as well as executors. `python -m tests.chaos.jobs offload --kills 20` kills the
run of an offload, and the broker beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import vela as client_of_vela
from config.environment import PROJECT_DIR
from pipeline.checksum import Checksum, checksum_of_frame, message_digest
from pipeline.jobs.files import MANIFEST
from pipeline.session import spark_session
from tests.chaos.offload_kills import LEDGER_ENTRIES, run_offload_soak
from tests.support.spark_cluster import SparkCluster, started_cluster
from tests.support.vela import VelaProcess, started_vela

__all__ = ["run_job_soak"]

SOURCE = "persistent://public/soak/from"
TARGET = "persistent://public/soak/to"
END_S = 1800.0
EXECUTOR_SHARE = 0.6  # of the kills that find an executor; the others end the driver


def run_job_soak(
    vela: VelaProcess, cluster: SparkCluster, *, messages: int, kills: int, seed: int
) -> dict[str, int]:
    """Export and import this many messages with `kills` kills of each job. Return the kills that hit, by target.

    A job ends well although one of its executors is killed. If its driver is killed, the job is run again.
    """
    rng = random.Random(seed)
    published = _publish(vela, messages)
    hit = {"driver": 0, "executor": 0}
    with tempfile.TemporaryDirectory() as name:
        jobs = _Jobs(vela, cluster, Path(name), rng)
        export = ("export", "--topic", SOURCE, "--format", rng.choice(("parquet", "ndjson", "csv")))
        whole_s = jobs.timed(*export, "--to", "copy")
        for number in range(kills):
            target = jobs.folder / f"copy-{number}"
            killed = jobs.kill(whole_s, *export, "--to", target.name)
            assert not target.exists() or (target / MANIFEST).exists(), f"{target} is half done"
            if not target.exists():
                assert killed == "driver"
                jobs.run(*export, "--to", target.name)  # removes what is left of the killed one
            assert sorted(path.name for path in jobs.folder.iterdir() if path.name.startswith(".")) == []
            manifest = json.loads((target / MANIFEST).read_text(encoding="utf-8"))
            assert manifest["checksum"] == str(published), f"{target} has other messages"
            _count(hit, killed)
        options = ("import", "--topic", TARGET, "--from", "copy", "--messages-per-s", "1000000")
        for _ in range(kills):
            _count(hit, jobs.kill(whole_s, *options))
        for _ in range(2):  # the second has nothing left to do
            jobs.run(*options)
    _compare(vela, published)
    return hit


def _count(hit: dict[str, int], killed: str | None) -> None:
    if killed is not None:
        hit[killed] += 1
    sys.stderr.write(f"  kills {hit}\n")


def _publish(vela: VelaProcess, messages: int) -> Checksum:
    client = client_of_vela.Client(vela.pulsar_url)
    client.create_producer("persistent://public/soak/first").close()
    vela.manage("setpolicy", "public/soak", "deduplication=true", "--yes")
    client.create_producer(TARGET).close()
    producer = client.create_producer(SOURCE, batching_enabled=True, block_if_queue_full=True)
    digests = []
    for number in range(messages):
        value = b"%d %s" % (number, secrets.token_bytes(20))
        producer.send_async(value, None, partition_key=f"k{number % 100}")
        digests.append(message_digest(value, b"k%d" % (number % 100), {}, 0))
    producer.flush()
    client.close()
    return Checksum.of_digests(digests)


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

    def kill(self, within_s: float, *job: str) -> str | None:
        """Start a job and kill its driver or an executor. Return what was killed; None if the job had ended.

        With an executor killed the job must end well.
        """
        driver = self._start(*job)
        with suppress(subprocess.TimeoutExpired):
            assert driver.wait(self._rng.uniform(0, within_s)) == 0, job
            return None
        executors = self._cluster.executors()  # none yet, if Java is still starting
        if executors and self._rng.random() < EXECUTOR_SHARE:
            with suppress(ProcessLookupError):
                os.kill(self._rng.choice(executors), signal.SIGKILL)
            assert driver.wait(END_S) == 0, job
            return "executor"
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
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


def _compare(vela: VelaProcess, published: Checksum) -> None:
    spark = spark_session("soak", master="", memory="1g")
    try:
        frame = spark.read.format("vela").options(topic=TARGET, url=vela.database_url).load()
        stored = checksum_of_frame(frame)
    finally:
        spark.stop()
    assert stored == published, (
        f"published {published.messages} {published}, stored {stored.messages} {stored}"
    )


def main() -> int:
    """Run the command line. Return 0 if every message is there once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", nargs="?", choices=("files", "offload"), default="files")
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    if given.target == "offload":
        sys.stderr.write(f"offload: {given.kills} kills, seed {seed}\n")
        settings = {"VELA_LEDGER_MAX_ENTRIES": str(LEDGER_ENTRIES), "VELA_LEDGER_MIN_AGE_S": "0"}
        with started_vela(settings) as vela:
            found = run_offload_soak(vela, kills=given.kills, seed=seed)
        sys.stderr.write(f"offload: {found}\n")
        return 0
    sys.stderr.write(f"jobs: {given.messages:,} messages, {given.kills} kills of each, seed {seed}\n")
    with started_vela() as vela, started_cluster() as cluster:
        hit = run_job_soak(vela, cluster, messages=given.messages, kills=given.kills, seed=seed)
    sys.stderr.write(f"jobs: kills that hit a job that ran: {hit}; every message is there once\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
