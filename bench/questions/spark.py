"""How fast does Spark read a topic, copy it and write one, and how much does a full read delay publishers?"""

from __future__ import annotations

import asyncio
from typing import Final

from pyspark.sql import SparkSession

from bench.ceilings.jdbc import JAR, jdbc_frame, store_rows
from bench.ceilings.raw_read import read_all
from bench.figures import Figure, Goal, ratio_percent
from bench.load.end_to_end import binary_latency
from bench.load.messages import entries
from bench.load.open_loop import Latencies, run_exactly
from bench.load.publishing.binary import publish_count
from bench.load.spark import TASKS, copy, read, reading, started_spark, vela_frame, write
from bench.setting import Setting

__all__ = ["ask"]

_KILOBYTE: Final = 1024
_READ: Final = Goal(at_least=200_000.0)  # messages of 1 KB
_OF_TUPLES: Final = Goal(at_least=300.0)
_OF_JDBC: Final = Goal(at_least=100.0)
_WRITE: Final = Goal(at_least=100_000.0)  # messages of 100 B
_P99: Final = Goal(at_most=200.0)


def ask(setting: Setting) -> list[Figure]:
    """Read, copy and write with Spark on this machine, messages of 1 KB, then of 100 B; then publish while it reads."""
    with started_spark() as spark:
        figures = [
            figure for size in (_KILOBYTE, 100) for figure in _figures(setting, spark, payload_bytes=size)
        ]
    return figures + _publishing_beside(setting)


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
            "read": read(vela_frame(url, spark, topic), messages),
            "value": read(vela_frame(url, spark, topic, "value BINARY"), messages),
            "raw": read_all(url, topic, rows_a_statement=100),
            "few": read(vela_frame(url, spark, few_topic), few),
            "tuples": read(vela_frame(url, spark, few_topic, source="vela_tuples"), few),
            "copy": copy(setting, spark, topic, messages),
            "write": write(setting, spark, payload_bytes, messages),
        }
        if JAR.is_file():
            measured["jdbc"] = read(jdbc_frame(spark, url, entries=batches, tasks=TASKS), messages)
        setting.say(
            f"spark, {payload_bytes} B: "
            + ", ".join(f"{name} {value:,.0f}" for name, value in measured.items())
        )
        if run:
            for name, value in measured.items():
                runs.setdefault(name, []).append(value)
    is_large = payload_bytes == _KILOBYTE
    of_vela = tuple(runs["read"])
    found = [
        Figure(
            name=f"Spark reads, {payload_bytes} B",
            unit="msg/s",
            runs=of_vela,
            goal=_READ if is_large else None,
            note=f"{messages:,} messages in batches of {batch}, all columns, {TASKS} tasks",
        ),
        Figure(name="  the payload alone", unit="msg/s", runs=tuple(runs["value"])),
        Figure(name="  raw read of the same rows, 1 connection", unit="msg/s", runs=tuple(runs["raw"])),
        Figure(name="  of the raw read", unit="%", runs=ratio_percent(of_vela, runs["raw"])),
        Figure(
            name="  a source that yields tuples",
            unit="msg/s",
            runs=tuple(runs["tuples"]),
            note=f"{few:,} messages",
        ),
        Figure(
            name="  Vela's source, on as many messages",
            unit="msg/s",
            runs=tuple(runs["few"]),
            note=f"{few:,} messages",
        ),
        Figure(
            name="  of the source that yields tuples",
            unit="%",
            runs=ratio_percent(runs["few"], runs["tuples"]),
            goal=_OF_TUPLES,
            note="the same messages",
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
                name="  of the JDBC source",
                unit="%",
                runs=ratio_percent(of_vela, runs["jdbc"]),
                goal=_OF_JDBC,
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
    """Publish to a new topic. Return its name, how many batches and how many messages it has."""
    topic = setting.fresh_topic("spark")
    entry = entries.batch(payload_bytes)
    count = messages // entry.messages
    asyncio.run(publish_count(setting.pulsar_port, topic, entry, count, window=64))
    return topic, count, count * entry.messages


def _publishing_beside(setting: Setting) -> list[Figure]:
    topic, _, messages = _published(setting, _KILOBYTE, setting.sized(1_000_000, 200_000))
    alone: list[Latencies] = []
    beside: list[Latencies] = []
    for _ in range(setting.repeats):
        alone.append(_latency(setting))
        with reading(setting, topic, messages):
            beside.append(_latency(setting))
        setting.say(f"publish alone: {alone[-1]}; beside a full read: {beside[-1]}")
    p99 = [tuple(run.at(99) for run in runs) for runs in (alone, beside)]
    return [
        Figure(name="binary publish at 1,000 msg/s, alone, p99", unit="ms", runs=p99[0]),
        Figure(
            name="  while Spark reads a topic again and again, p99",
            unit="ms",
            runs=p99[1],
            note=f"{TASKS} tasks, with the priority of a worker's; no readBytesPerSecond",
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
