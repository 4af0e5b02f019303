"""Read, copy and write topics with Spark, as `local[2]` in this process.

`python -m bench.load.spark URL TOPIC MESSAGES` reads a topic again and again, with the low priority of a worker's job,
until the process's standard input is closed.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf

from bench.ceilings.jdbc import JAR
from bench.ceilings.tuple_source import TupleSource
from bench.setting import Setting
from broker.conf import BrokerSettings
from pipeline.priority import give_way
from pipeline.session import spark_session

__all__ = ["TASKS", "copy", "read", "reading", "started_spark", "vela_frame", "write"]

TASKS: Final = 2
READING: Final = b"reading\n"


@contextmanager
def started_spark() -> Iterator[SparkSession]:
    """Start a session with Vela's data source, `TupleSource` to compare it with, and PostgreSQL's driver for Java."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "spark-defaults.conf").write_text(f"spark.driver.extraClassPath {JAR}\n", "utf-8")
        os.environ["SPARK_CONF_DIR"] = folder
        spark = spark_session("vela bench", master="", cores=TASKS)
        spark.sparkContext.setLogLevel("ERROR")
        spark.dataSource.register(TupleSource)
        try:
            yield spark
        finally:
            spark.stop()
            del os.environ["SPARK_CONF_DIR"]


def vela_frame(
    url: str, spark: SparkSession, topic: str, schema: str | None = None, *, source: str = "vela"
) -> DataFrame:
    """Return a topic as a DataFrame that is read in TASKS tasks."""
    reader = spark.read.format(source).options(topic=topic, url=url, partitions=str(TASKS))
    return (reader if schema is None else reader.schema(schema)).load()


def read(frame: DataFrame, messages: int) -> float:
    """Read all columns of all rows, and return the messages per second."""
    seen = Observation()
    began = time.perf_counter()
    frame.observe(seen, sf.count(sf.lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    seconds = time.perf_counter() - began
    if seen.get["rows"] != messages:
        raise AssertionError(f"Spark read {seen.get['rows']} of {messages} messages")
    return messages / seconds


def copy(setting: Setting, spark: SparkSession, topic: str, messages: int) -> float:
    """Copy a topic with a stream, in one micro-batch, and return the messages per second."""
    target = _deduplicating(setting)
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        query = (
            spark.readStream.format("vela")
            .options(topic=topic, url=setting.vela.database_url, partitions=str(TASKS))
            .option("startingOffsets", "earliest")
            .load()
            .writeStream.format("vela")
            .options(serviceUrl=setting.vela.pulsar_url, topic=target)
            .option("checkpointLocation", str(Path(folder, "checkpoint")))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        seconds = time.perf_counter() - began
    _require(setting, spark, target, messages)
    return messages / seconds


def write(setting: Setting, spark: SparkSession, payload_bytes: int, messages: int) -> float:
    """Generate rows with Spark, write them to a new topic, and return the messages per second."""
    target = _deduplicating(setting)
    value = sf.rpad(sf.col("id").cast("string"), payload_bytes, "x")
    rows = spark.range(0, messages, numPartitions=TASKS).select(value.alias("value"))
    began = time.perf_counter()
    rows.write.format("vela").mode("append").options(
        serviceUrl=setting.vela.pulsar_url, topic=target, writeId=target
    ).save()
    seconds = time.perf_counter() - began
    _require(setting, spark, target, messages)
    return messages / seconds


@contextmanager
def reading(setting: Setting, topic: str, messages: int) -> Iterator[None]:
    """Read again and again while the block runs, in a process with the low priority of a worker's job."""
    command = [sys.executable, "-m", "bench.load.spark", setting.vela.database_url, topic, str(messages)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if process.stdout.readline() != READING:
                raise AssertionError(f"the reading process ended early: {' '.join(command)}")
            yield
        finally:
            process.stdin.close()
    if process.returncode:
        raise AssertionError(f"the reading process exited with {process.returncode}")


def main() -> None:
    """Read the topic again and again until standard input ends."""
    url, topic, messages = sys.argv[1:]
    give_way(BrokerSettings.from_environment({}).pipeline_niceness)
    with started_spark() as spark:
        read(vela_frame(url, spark, topic), int(messages))  # starts Spark's Python workers
        # The parent process reads only READING. After it, write nothing to standard output: a full pipe would block.
        sys.stdout.buffer.write(READING)
        sys.stdout.buffer.flush()
        while not select.select([sys.stdin], [], [], 0)[0]:
            read(vela_frame(url, spark, topic), int(messages))


def _deduplicating(setting: Setting) -> str:
    topic = setting.fresh_topic("spark-target")
    setting.vela.manage("createtopic", topic)
    setting.vela.manage("setpolicy", topic, "deduplication=true", "--yes")
    return topic


def _require(setting: Setting, spark: SparkSession, topic: str, messages: int) -> None:
    stored = vela_frame(setting.vela.database_url, spark, topic, "__entryId BIGINT").count()
    if stored != messages:
        raise AssertionError(f"Spark wrote {stored} of {messages} messages")


if __name__ == "__main__":
    main()
