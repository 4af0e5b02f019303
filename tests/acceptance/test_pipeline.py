"""A job from the command line to its files, through console, broker, beat, worker and Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import vela as client_of_vela
from tests.support.vela import ADMIN_PASSWORD, VelaProcess, started_vela
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def running(vela_data: Path) -> Iterator[VelaProcess]:
    with started_vela({"VELA_PIPELINE_MEMORY_MB": "512"}, data=vela_data) as process:
        client = client_of_vela.Client(process.pulsar_url)
        producer = client.create_producer("orders")
        for number in range(10):
            producer.send(b"%d" % number)
        client.close()
        yield process


def command(running: VelaProcess, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "VELA_USER": "admin", "VELA_PASSWORD": ADMIN_PASSWORD}
    return subprocess.run(
        [sys.executable, "-m", "vela.cli", "--console-url", running.console_url, "pipeline", *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_a_job_is_requested_run_and_followed(running: VelaProcess) -> None:
    done = command(
        running, "run", "export", "orders", "--set", "to=x", "--set", "format=ndjson", "--yes", "--follow"
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 messages in" in done.stdout
    folder = running.data_dir / "pipeline" / "public" / "default" / "x"
    assert sum(len(path.read_text().splitlines()) for path in folder.glob("*.json")) == 10
    again = command(running, "run", "export", "orders", "--set", "to=x", "--yes", "--follow")
    assert (again.returncode, "already exists" in again.stderr) == (1, True)
    wrong = command(running, "run", "export", "orders", "--set", "format=ndjson", "--yes")
    assert (wrong.returncode, "option to is missing" in wrong.stderr) == (4, True)


def test_a_worker_that_is_killed_takes_spark_with_it(running: VelaProcess) -> None:
    done = command(running, "run", "export", "orders", "--set", "to=killed", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr

    def jobs() -> list[str]:
        listed = subprocess.run(
            ["ps", "-eww", "-o", "pid=,args="], capture_output=True, text=True, check=True
        )
        folder = str(running.data_dir)
        return [
            line
            for line in listed.stdout.splitlines()
            if "pipeline --supervised" in line and _environment_has(line.split()[0], folder)
        ]

    wait_until(jobs, "the job's process", timeout_s=60)
    running.kill("worker")
    wait_until(lambda: not jobs(), "the job's end")


def _environment_has(pid: str, text: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as environment:
            return text.encode() in environment.read()
    except OSError:
        return False
