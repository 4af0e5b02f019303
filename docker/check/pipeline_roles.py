"""Check the roles that only the target `pipeline` has, and run a job on their cluster."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from docker.check.container import Container, Network
from docker.check.image import Image
from docker.check.programs import CheckFailed, say
from docker.check.server_roles import database, migrate

__all__ = ["check_pipeline_roles"]

_JVM_TERMINATED = 143  # a JVM's exit code after SIGTERM

_JOB = """
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
import os
session = SparkSession.builder.master(os.environ["VELA_SPARK_MASTER"]).getOrCreate()
doubled = session.range(1000).select(udf(lambda number: number * 2, "long")("id").alias("n"))
print("sum", doubled.groupBy().sum("n").first()[0])
session.stop()
"""


def check_pipeline_roles(image: Image, net: Network, folder: Path) -> None:
    """Start and stop master, worker and pipeline worker, and run a Python function on the Spark worker's executor."""
    with database(image, net, folder) as (_, environment), ExitStack() as stack:
        environment["VELA_SPARK_MASTER"] = "spark://spark-master:7077"

        def start(role: str) -> Container:
            container = Container(
                image, net, name=role, folder=folder, arguments=[role], environment=environment
            )
            return stack.enter_context(container)

        migrate(image, net, folder, environment)
        running: dict[str, Container] = {}
        for role in ("spark-master", "spark-worker", "pipeline-worker"):
            running[role] = start(role)
            say(f"role {role}: healthy after {running[role].wait_healthy():.1f} s")
        done = running["pipeline-worker"].execute(["python", "-c", _JOB], timeout_s=180)
        if "sum 999000" not in done.stdout:
            raise CheckFailed(f"Spark did not run the job:\n{done.stdout[-3000:]}")
        say("a job with a Python function ran on the Spark worker")
        for role, code in (
            ("pipeline-worker", 0),
            ("spark-worker", _JVM_TERMINATED),
            ("spark-master", _JVM_TERMINATED),
        ):
            say(f"role {role}: stopped in {running[role].stop(expected=code):.1f} s")
