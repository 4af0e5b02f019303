"""`python -m pipeline export` as a user types it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

from config.environment import PROJECT_DIR
from tests.integration.pipeline.publishing import create_topic
from vela.wire.entry import Compression, OutgoingMessage


def command(folder: Path, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(PROJECT_DIR)}
    if path is not None:
        environment.pop("JAVA_HOME", None)
        environment["PATH"] = path
    return subprocess.run(
        [sys.executable, "-m", "pipeline", "export", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_command_writes_parquet_and_prints_count_and_checksum(log_url: str, tmp_path: Path) -> None:
    topic = create_topic(log_url, "typed")
    topic.open_ledger(1)
    topic.publish_batch([OutgoingMessage(payload=b"%d" % index) for index in range(123)], Compression.LZ4)

    done = command(tmp_path, "--topic", "typed", "--url", log_url, "--to", "out")

    assert done.returncode == 0, done.stderr
    assert done.stdout == f"123 messages in out, checksum {topic.checksum}\n"
    assert sorted(map(int, pq.read_table(tmp_path / "out").column("value").to_pylist())) == list(range(123))


def test_an_error_is_one_line_and_starts_no_spark(log_url: str, tmp_path: Path) -> None:
    create_topic(log_url, "javaless")
    unknown = command(tmp_path, "--topic", "no-such", "--url", log_url, "--to", "out")
    javaless = command(tmp_path, "--topic", "javaless", "--url", log_url, "--to", "out", path=str(tmp_path))
    assert (unknown.returncode, javaless.returncode) == (1, 1)
    assert unknown.stderr == (
        "topic persistent://public/default/no-such does not exist in this database: check the topic's name and url\n"
    )
    assert javaless.stderr.startswith("Spark needs Java 17 or newer, and there is no java in PATH")
    assert javaless.stderr.count("\n") == 1
    assert unknown.stdout == javaless.stdout == ""
