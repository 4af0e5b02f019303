"""How fast does Spark read a topic, copy it and write one, and what does a full read cost those who publish?"""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf

from bench.ceilings.jdbc import JAR, jdbc_frame, store_rows
from bench.ceilings.raw_read import read_all
from bench.ceilings.tuple_source import TupleSource
from bench.figures import Figure, Goal, ratio_percent
from bench.load.end_to_end import binary_latency
from bench.load.messages import entries
from bench.load.open_loop import Latencies, run_exactly
from bench.load.publishing.binary import publish_count
from bench.setting import Setting
from pipeline.session import spark_session

__all__ = ["ask"]

TASKS: Final = 2
_KILOBYTE: Final = 1024
_READ: Final = Goal(at_least=200_000.0)  # messages of 1 KB
_OF_TUPLES: Final = Goal(at_least=300.0)
_OF_JDBC: Final = Goal(at_least=100.0)
_WRITE: Final = Goal(at_least=100_000.0)  # messages of 100 B
_P99: Final = Goal(at_most=200.0)


def ask(setting: Setting) -> list[Figure]:
    """Read, copy and write with Spark on this machine, messages of 1 KB, then of 100 B; then publish while it reads."""
    with _spark() as spark:
        figures = [
            figure for size in (_KILOBYTE, 100) for figure in _figures(setting, spark, payload_bytes=size)
        ]
        return figures + _publishing_beside(setting, spark)


@contextmanager
def _spark() -> Iterator[SparkSession]:
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


def _figures(setting: Setting, spark: SparkSession, *, payload_bytes: int) -> list[Figure]:
    url = setting.vela.database_url
    topic, batches, messages = _published(setting, payload_bytes, setting.sized(1_000_000, 200_000))
    batch = messages // batches
    few_topic, _, few = _published(setting, payload_bytes, setting.sized(200_000, 50_000))
    if JAR.is_file():
        store_rows(url, messages=messages, batch_messages=batch, payload_bytes=payload_bytes)
    runs: dict[str, list[float]] = {}
    for run in range(setting.repeats + 1):  # the first, which is not counted, starts Spark's Python workers
        measured = {
            "read": _read(_vela(setting, spark, topic), messages),
            "value": _read(_vela(setting, spark, topic, "value BINARY"), messages),
            "raw": read_all(url, topic, rows_a_statement=100),
            "tuples": _read(_vela(setting, spark, few_topic, source="vela_tuples"), few),
            "copy": _copy(setting, spark, topic, messages),
            "write": _write(setting, spark, payload_bytes, messages),
        }
        if JAR.is_file():
            measured["jdbc"] = _read(jdbc_frame(spark, url, entries=batches, tasks=TASKS), messages)
        setting.say(
            f"spark, {payload_bytes} B: "
            + ", ".join(f"{name} {value:,.0f}" for name, value in measured.items())
        )
        if run:
            for name, value in measured.items():
                runs.setdefault(name, []).append(value)
    is_large = payload_bytes == _KILOBYTE
    read = tuple(runs["read"])
    found = [
        Figure(
            name=f"Spark reads, {payload_bytes} B",
            unit="msg/s",
            runs=read,
            goal=_READ if is_large else None,
            note=f"{messages:,} messages in batches of {batch}, all columns, {TASKS} tasks",
        ),
        Figure(name="  the payload alone", unit="msg/s", runs=tuple(runs["value"])),
        Figure(name="  raw read of the same rows, 1 connection", unit="msg/s", runs=tuple(runs["raw"])),
        Figure(name="  of the raw read", unit="%", runs=ratio_percent(read, runs["raw"])),
        Figure(
            name="  a source that yields tuples",
            unit="msg/s",
            runs=tuple(runs["tuples"]),
            note=f"{few:,} messages",
        ),
        Figure(
            name="  of the source that yields tuples",
            unit="%",
            runs=ratio_percent(read, runs["tuples"]),
            goal=_OF_TUPLES,
        ),
    ]
    if "jdbc" in runs:
        found += [
            Figure(
                name="  Spark's JDBC source, a row a message",
                unit="msg/s",
                runs=tuple(runs["jdbc"]),
                note="all columns",
            ),
            Figure(
                name="  of the JDBC source", unit="%", runs=ratio_percent(read, runs["jdbc"]), goal=_OF_JDBC
            ),
        ]
    return [
        *found,
        Figure(
            name=f"Spark copies a topic, {payload_bytes} B",
            unit="msg/s",
            runs=tuple(runs["copy"]),
            note="one micro-batch, to a topic that deduplicates; counted in the target",
        ),
        Figure(
            name=f"Spark writes, {payload_bytes} B",
            unit="msg/s",
            runs=tuple(runs["write"]),
            goal=None if is_large else _WRITE,
            note=f"rows that Spark makes, {TASKS} tasks; counted in the target",
        ),
    ]


def _published(setting: Setting, payload_bytes: int, messages: int) -> tuple[str, int, int]:
    """Publish a topic; its name, its number of batches and of messages."""
    topic = setting.fresh_topic("spark")
    entry = entries.batch(payload_bytes)
    count = messages // entry.messages
    asyncio.run(publish_count(setting.pulsar_port, topic, entry, count, window=64))
    return topic, count, count * entry.messages


def _vela(
    setting: Setting, spark: SparkSession, topic: str, schema: str | None = None, *, source: str = "vela"
) -> DataFrame:
    reader = spark.read.format(source).options(
        topic=topic, url=setting.vela.database_url, partitions=str(TASKS)
    )
    return (reader if schema is None else reader.schema(schema)).load()


def _read(frame: DataFrame, messages: int) -> float:
    """Read all columns of all rows; messages per second."""
    seen = Observation()
    began = time.perf_counter()
    frame.observe(seen, sf.count(sf.lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    seconds = time.perf_counter() - began
    if seen.get["rows"] != messages:
        raise AssertionError(f"Spark read {seen.get['rows']} of {messages} messages")
    return messages / seconds


def _copy(setting: Setting, spark: SparkSession, topic: str, messages: int) -> float:
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


def _write(setting: Setting, spark: SparkSession, payload_bytes: int, messages: int) -> float:
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


def _deduplicating(setting: Setting) -> str:
    topic = setting.fresh_topic("spark-target")
    setting.vela.manage("createtopic", topic)
    setting.vela.manage("setpolicy", topic, "deduplication=true", "--yes")
    return topic


def _require(setting: Setting, spark: SparkSession, topic: str, messages: int) -> None:
    stored = _vela(setting, spark, topic, "__entryId BIGINT").count()
    if stored != messages:
        raise AssertionError(f"Spark wrote {stored} of {messages} messages")


def _publishing_beside(setting: Setting, spark: SparkSession) -> list[Figure]:
    topic, _, messages = _published(setting, _KILOBYTE, setting.sized(1_000_000, 200_000))
    alone: list[Latencies] = []
    beside: list[Latencies] = []
    for _ in range(setting.repeats):
        alone.append(_latency(setting))
        with _reading(_vela(setting, spark, topic), messages):
            beside.append(_latency(setting))
        setting.say(f"publish alone: {alone[-1]}; beside a full read: {beside[-1]}")
    p99 = [tuple(run.at(99) for run in runs) for runs in (alone, beside)]
    return [
        Figure(name="binary publish at 1,000 msg/s, alone, p99", unit="ms", runs=p99[0]),
        Figure(
            name="  while Spark reads a topic again and again, p99",
            unit="ms",
            runs=p99[1],
            note=f"{TASKS} tasks without readBytesPerSecond",
        ),
        Figure(name="  of p99 alone", unit="%", runs=ratio_percent(p99[1], p99[0]), goal=_P99),
    ]


def _latency(setting: Setting) -> Latencies:
    return run_exactly(
        binary_latency(
            setting.pulsar_port,
            setting.fresh_topic("beside-spark"),
            payload_bytes=_KILOBYTE,
            per_s=1000.0,
            warm_up_s=setting.warm_up_s,
            run_s=setting.run_s,
        )
    )


@contextmanager
def _reading(frame: DataFrame, messages: int) -> Iterator[None]:
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            _read(frame, messages)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        over.set()
        reader.join()
