"""A job from the command line to its files, through console, broker, beat, worker and Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pulsar
import pytest

import vela as client_of_vela
from tests.support.vela import ADMIN_PASSWORD, VelaProcess, started_vela
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def running(vela_data: Path) -> Iterator[VelaProcess]:
    settings = {
        "VELA_PIPELINE_MEMORY_MB": "512",
        "VELA_LEDGER_MAX_ENTRIES": "50",
        "VELA_LEDGER_MIN_AGE_S": "0",
        "VELA_TAIL_CACHE_BYTES": "0",  # every delivery reads the stored message
    }
    with started_vela(settings, data=vela_data) as process:
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


def test_apaches_client_seeks_into_messages_that_were_moved_out_of_postgresql(
    running: VelaProcess,
) -> None:
    client = pulsar.Client(running.pulsar_url)
    try:
        producer = client.create_producer("history", batching_enabled=False)
        consumer = client.subscribe("history", "billing", pulsar.ConsumerType.Shared)
        sent = [b"%d" % number for number in range(220)]
        for payload in sent:
            producer.send(payload)
        got = []
        for _ in sent:
            message = consumer.receive(10_000)
            consumer.acknowledge(message)
            got.append(message.data())
        assert got == sent
        done = command(running, "run", "offload", "history", "--set", "keep_bytes=0", "--yes", "--follow")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "4 ledgers" in done.stdout
        with psycopg.connect(running.database_url) as connection:
            row = connection.execute(
                "SELECT count(*) FROM vela_entry e JOIN vela_topic t ON t.id = e.topic_id"
                " WHERE t.name LIKE '%/history'"
            ).fetchone()
        assert row == (20,)
        consumer.seek(pulsar.MessageId.earliest)
        again = [consumer.receive(10_000).data() for _ in sent]
        assert sorted(again, key=int) == sent
    finally:
        client.close()


def test_when_a_worker_is_killed_its_spark_ends_too(running: VelaProcess) -> None:
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
