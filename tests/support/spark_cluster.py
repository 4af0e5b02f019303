"""A standalone Spark cluster on this machine: a master, and workers with one core each."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from config.run.children.lifeline import dies_with_parent
from tests.support.ports import free_ports
from tests.support.vela import children_of, descendants_of
from tests.support.waiting import wait_until

__all__ = ["SparkCluster", "started_cluster"]

SPARK_HOME = Path(pyspark.__file__).parent
_START_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkCluster:
    """The cluster's address, its folder and its workers' daemons."""

    url: str  # spark://host:port
    folder: Path  # of logs and of the executors' files
    workers: list[subprocess.Popen[bytes]]

    @property
    def environment(self) -> dict[str, str]:
        """The environment that a driver needs to run on this cluster."""
        return {"VELA_SPARK_MASTER": self.url, "SPARK_LOCAL_IP": "127.0.0.1"}

    def executors(self) -> list[int]:
        """Return the process ids of the executors, which are Java processes."""
        return [pid for worker in self.workers for pid in children_of(worker.pid)]

    def python_workers(self) -> list[int]:
        """Return the process ids of the Python processes that run tasks."""
        return [
            pid
            for executor in self.executors()
            for pid, started_as in descendants_of(executor).items()
            if "pyspark.daemon" in started_as
        ]


@contextmanager
def started_cluster(workers: int = 2, *, memory: str = "1g") -> Iterator[SparkCluster]:
    """Start a cluster whose executors know neither this checkout nor its PYTHONPATH. Kill everything at the end."""
    (port,) = free_ports(1)
    url = f"spark://127.0.0.1:{port}"
    with (
        tempfile.TemporaryDirectory(prefix="vela-spark-", ignore_cleanup_errors=True) as name,
        ExitStack() as stack,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        stack.enter_context(
            _daemon(folder, "master", "master.Master", "--host", "127.0.0.1", "--port", str(port))
        )
        wait_until(lambda: _accepts(port), f"a master on port {port}", timeout_s=_START_S)
        daemons = [
            stack.enter_context(
                _daemon(
                    folder,
                    f"worker-{number}",
                    "worker.Worker",
                    *("--host", "127.0.0.1", "--cores", "1", "--memory", memory),
                    *("--work-dir", str(folder / f"work-{number}"), url),
                )
            )
            for number in range(workers)
        ]
        wait_until(
            lambda: (
                (folder / "master.log").read_text(errors="replace").count("Registering worker") == workers
            ),
            f"{workers} workers at {url}",
            timeout_s=_START_S,
        )
        yield SparkCluster(url=url, folder=folder, workers=daemons)


@contextmanager
def _daemon(folder: Path, name: str, class_: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with (folder / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            [
                str(SPARK_HOME / "bin" / "spark-class"),
                f"org.apache.spark.deploy.{class_}",
                *("--webui-port", "0"),
                *arguments,
            ],
            cwd=folder,
            env={
                **environment,
                "SPARK_HOME": str(SPARK_HOME),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_DAEMON_MEMORY": "256m",
            },
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=dies_with_parent(signal.SIGKILL),
        )
    try:
        yield process
    finally:
        for pid in [*descendants_of(process.pid), process.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait()


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
