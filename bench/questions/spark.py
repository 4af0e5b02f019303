"""How fast does Spark read a topic, and how fast does it copy one topic to another?"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from bench.ceilings.raw_read import read_all
from bench.figures import Figure, ratio_percent
from bench.load.messages import entries
from bench.load.publishing.binary import publish_count
from bench.setting import Setting
from pipeline.session import spark_session

__all__ = ["ask"]

TASKS = 2


def ask(setting: Setting) -> list[Figure]:
    """Read all columns, then the payload alone, then copy to a topic that deduplicates, with local[2]."""
    spark = spark_session("vela bench", cores=TASKS)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        return [figure for payload_bytes in (1024, 100) for figure in _figures(setting, spark, payload_bytes)]
    finally:
        spark.stop()


def _figures(setting: Setting, spark: SparkSession, payload_bytes: int) -> list[Figure]:
    topic = setting.fresh_topic("spark")
    entry = entries.batch(payload_bytes)
    count = setting.sized(1_000_000, 50_000) // entry.messages
    messages = count * entry.messages
    asyncio.run(publish_count(setting.pulsar_port, topic, entry, count, window=64))
    _read(setting, spark, topic, messages)  # starts Spark's Python workers
    read: list[float] = []
    values: list[float] = []
    copied: list[float] = []
    ceilings: list[float] = []
    for _ in range(setting.repeats):
        read.append(_read(setting, spark, topic, messages))
        values.append(_read(setting, spark, topic, messages, "value BINARY"))
        copied.append(_copy(setting, spark, topic, messages))
        ceilings.append(read_all(setting.vela.database_url, topic, rows_a_statement=100))
        setting.say(
            f"spark, {payload_bytes} B: read {read[-1]:,.0f} msg/s, value only {values[-1]:,.0f};"
            f" copy {copied[-1]:,.0f}; raw read {ceilings[-1]:,.0f}"
        )
    return [
        Figure(
            name=f"Spark reads, {payload_bytes} B",
            unit="msg/s",
            runs=tuple(read),
            note=f"{messages:,} messages in batches of {entry.messages}, all columns, {TASKS} tasks",
        ),
        Figure(name="  the payload alone", unit="msg/s", runs=tuple(values)),
        Figure(name="  raw read of the same rows", unit="msg/s", runs=tuple(ceilings)),
        Figure(name="  of the raw read", unit="%", runs=ratio_percent(tuple(read), ceilings)),
        Figure(
            name=f"Spark copies a topic, {payload_bytes} B",
            unit="msg/s",
            runs=tuple(copied),
            note="one micro-batch, to a topic that deduplicates; counted in the target",
        ),
    ]


def _read(
    setting: Setting, spark: SparkSession, topic: str, messages: int, schema: str | None = None
) -> float:
    reader = spark.read.format("vela").options(
        topic=topic, url=setting.vela.database_url, partitions=str(TASKS)
    )
    if schema is not None:
        reader = reader.schema(schema)
    began = time.perf_counter()
    (row,) = reader.load().agg(sf.count("*"), sf.sum(sf.length("value"))).collect()
    seconds = time.perf_counter() - began
    if row[0] != messages:
        raise AssertionError(f"Spark read {row[0]} of {messages} messages")
    return messages / seconds


def _copy(setting: Setting, spark: SparkSession, topic: str, messages: int) -> float:
    target = setting.fresh_topic("spark-copy")
    setting.vela.manage("createtopic", target)
    setting.vela.manage("setpolicy", target, "deduplication=true", "--yes")
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
    copied = spark.read.format("vela").options(topic=target, url=setting.vela.database_url).load().count()
    if copied != messages:
        raise AssertionError(f"Spark copied {copied} of {messages} messages")
    return messages / seconds
