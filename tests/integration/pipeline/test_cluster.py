"""Jobs on a standalone cluster: executors that have no Vela get its code, and no password is visible."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from config.environment import PROJECT_DIR
from tests.integration.pipeline.publishing import create_topic
from tests.support.spark_cluster import SparkCluster, started_cluster
from tests.support.vela import descendants_of
from vela.wire.entry import OutgoingMessage


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with started_cluster(1) as cluster:
        yield cluster


def test_an_export_runs_on_the_cluster_that_a_setting_names(
    cluster: SparkCluster, log_url: str, tmp_path: Path
) -> None:
    topic = create_topic(log_url, "clustered")
    topic.open_ledger(1)
    topic.publish_batch([OutgoingMessage(payload=b"%d" % number) for number in range(500)])
    (tmp_path / "conf").mkdir()
    (tmp_path / "scratch").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.dir file:{tmp_path}\nspark.eventLog.compress false\n"
    )

    job = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "pipeline",
            "export",
            "--topic",
            "clustered",
            "--to",
            "out",
            "--memory",
            "512m",
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            **cluster.environment,
            "PYTHONPATH": str(PROJECT_DIR),
            "DATABASE_URL": log_url,
            "SPARK_CONF_DIR": str(tmp_path / "conf"),
            "TMPDIR": str(tmp_path / "scratch"),  # as a worker sets it
            "SPARK_LOCAL_DIRS": str(tmp_path / "scratch"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    arguments: set[str] = set()
    while job.poll() is None:
        arguments |= set(descendants_of(job.pid).values())
        arguments |= {line for daemon in cluster.workers for line in descendants_of(daemon.pid).values()}
        with suppress(subprocess.TimeoutExpired):
            job.wait(0.2)

    said, log = job.communicate()
    assert (job.returncode, said) == (0, f"500 messages in out, checksum {topic.checksum}\n"), log
    password = conninfo_to_dict(log_url)["password"]
    assert password
    assert any("CoarseGrainedExecutorBackend" in line for line in arguments)
    assert not [line for line in arguments if str(password) in line]
    (events,) = (path for path in tmp_path.rglob("events_*") if path.is_file())
    told = events.read_text()
    assert "SparkListenerTaskEnd" in told
    assert str(password) not in told + log
