"""Kill jobs at random moments, then prove that no file is half done and every message is there once.

`make pipeline-soak` runs it: `python -m tests.chaos.jobs --messages 200000 --kills 6 [--seed N]` kills exports and
imports, and `python -m tests.chaos.jobs offload --kills 20` the run of an offload, and the broker beside it.
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
from pathlib import Path

import vela as client_of_vela
from config.environment import PROJECT_DIR
from pipeline.checksum import Checksum, checksum_of_frame, message_digest
from pipeline.jobs.files import MANIFEST
from pipeline.session import spark_session
from tests.chaos.offload_kills import LEDGER_ENTRIES, run_offload_soak
from tests.support.vela import VelaProcess, started_vela

__all__ = ["run_job_soak"]

SOURCE = "persistent://public/soak/from"
TARGET = "persistent://public/soak/to"
END_S = 1800.0


def run_job_soak(vela: VelaProcess, *, messages: int, kills: int, seed: int) -> int:
    """Export and import this many messages with `kills` kills of each job; how many of them hit a job that ran."""
    rng = random.Random(seed)
    published = _publish(vela, messages)
    hit = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export = (
            "export",
            "--topic",
            SOURCE,
            "--to",
            "copy",
            "--format",
            rng.choice(("parquet", "ndjson", "csv")),
        )
        whole_s = _timed(vela, folder, *export)
        for number in range(kills):
            target = folder / f"copy-{number}"
            killed = _killed(vela, folder, rng.uniform(0, whole_s), *export[:4], target.name, *export[5:])
            assert not target.exists() or (target / MANIFEST).exists(), f"{target} is half done"
            assert killed or target.exists()
            hit += killed
            if killed:  # the next one of this name removes what is left
                _run(vela, folder, *export[:4], target.name, *export[5:], wait_s=END_S)
                assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".")) == []
        options = ("import", "--topic", TARGET, "--from", "copy", "--messages-per-s", "1000000")
        for _ in range(kills):
            hit += _killed(vela, folder, rng.uniform(0, whole_s), *options)
        for _ in range(2):  # the second has nothing left to do
            _run(vela, folder, *options, wait_s=END_S)
    _compare(vela, published)
    return hit


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


def _process(vela: VelaProcess, folder: Path, *job: str) -> subprocess.Popen[bytes]:
    where = ("--url", vela.database_url, "--service-url", vela.pulsar_url, "--folder", str(folder))
    return subprocess.Popen(
        [sys.executable, "-m", "pipeline", *job, *where],
        cwd=PROJECT_DIR,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def _run(vela: VelaProcess, folder: Path, *job: str, wait_s: float) -> None:
    assert _process(vela, folder, *job).wait(wait_s) == 0, job


def _timed(vela: VelaProcess, folder: Path, *job: str) -> float:
    began_s = time.monotonic()
    _run(vela, folder, *job, wait_s=END_S)
    return time.monotonic() - began_s


def _killed(vela: VelaProcess, folder: Path, after_s: float, *job: str) -> bool:
    """Start a job and kill its whole group. Return whether it still ran."""
    process = _process(vela, folder, *job)
    try:
        process.wait(after_s)
        return False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True


def _compare(vela: VelaProcess, published: Checksum) -> None:
    spark = spark_session("soak", memory="1g")
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
    with started_vela() as vela:
        hit = run_job_soak(vela, messages=given.messages, kills=given.kills, seed=seed)
    sys.stderr.write(f"jobs: {hit} kills hit a job that ran; every message is there once\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
