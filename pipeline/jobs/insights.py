"""Compute statistics of a topic's messages for each hour, and store them for the topic's page."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from pipeline.database import reading, storing
from pipeline.errors import TopicNotFound, counted
from pipeline.jobs.export import pin
from pipeline.jobs.failures import SPARK_ERRORS, failed
from pipeline.jobs.reporting import counted_tasks
from pipeline.queries import query
from vela.wire.latency_counts import percentile_ms, summed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipeline.jobs.request import JobRequest, Reporter

__all__ = ["run"]

_HOUR_MS: Final = 3_600_000
_TOP: Final = 10
_POISON_REDELIVERIES: Final = 3
_SHOWN_CHARACTERS: Final = 200
_SHARES: Final = (0.5, 0.95, 0.99)

_ROWS: Final = (
    f"unix_millis(__appendTime) div {_HOUR_MS} * {_HOUR_MS} AS hour_ms",
    "octet_length(value) AS size",
    "unix_millis(__appendTime) - unix_millis(__publishTime) AS delay_ms",
    f"left(coalesce(try_validate_utf8(CAST(__key AS string)), base64(__key)), {_SHOWN_CHARACTERS}) AS key",
    f"left(__messageProperties['REAL_TOPIC'], {_SHOWN_CHARACTERS}) AS letter_topic",
    f"left(__messageProperties['REAL_SUBSCRIPTION'], {_SHOWN_CHARACTERS}) AS letter_subscription",
)
_OF_HOUR: Final = (
    "count(*) AS messages",
    "coalesce(sum(size), 0) AS size_bytes",
    f"percentile_approx(size, array{_SHARES}) AS sizes",
    "max(size) AS size_most",
    f"percentile_approx(delay_ms, array{_SHARES}) AS delays",
    "count(key) AS keyed_messages",
    "approx_count_distinct(key) AS keys",
)


def run(request: JobRequest, reporter: Reporter, session: Callable[[], SparkSession]) -> dict[str, Any]:
    """Compute and store statistics for the current hour and the past `hours`. Leave out hours without messages.

    If retention has trimmed messages of an hour, the hour keeps its earlier values, except the values of subscriptions.
    Safe to repeat. Raises PipelineError.
    """
    now_ms = time.time_ns() // 1_000_000
    from_ms = now_ms - now_ms % _HOUR_MS - int(request.options["hours"]) * _HOUR_MS
    with reading(request, f"reading {request.topic}") as connection:
        row = connection.execute(query("topic", "insights"), (request.topic,)).fetchone()
        if row is None:
            raise TopicNotFound(f"topic {request.topic} does not exist in this database")
        topic_id, topic_ids = row
        known = {"topic_ids": topic_ids, "from_ms": from_ms, "least": _POISON_REDELIVERIES}
        subscriptions = _by_hour(
            connection.execute(query("subscriptions", "insights"), known).fetchall(),
            ("name", "acked", "redelivered", "out", "ack_latencies"),
        )
        pending = connection.execute(query("poison", "insights"), known).fetchall()
    for each in chain.from_iterable(subscriptions.values()):
        each |= _percentiles("ack_p{}_ms", _ack_percentiles(each.pop("ack_latencies")))
    poison = [dict(zip(("subscription", "id", "count"), each, strict=True)) for each in pending]
    source = request.source(onCorrupt="skip", failOnDataLoss="false", startingTime=str(from_ms))
    pinned, _ = pin(source)
    spark = session()
    with counted_tasks(spark, reporter):
        reporter.stage("read messages")
        frame = spark.read.format("vela").options(**pinned).load()
        hours, keys, letters = _computed(frame)
    reporter.stage("store hours", len(hours))
    with storing(request, "storing insights") as connection:
        for number, hour in enumerate(hours):
            hour_ms = hour["hour_ms"]
            connection.execute(
                query("store", "insights"),
                {
                    "topic_id": topic_id,
                    "hour_ms": hour_ms,
                    **{
                        name: hour[name]
                        for name in ("messages", "size_bytes", "size_most", "keyed_messages", "keys")
                    },
                    **_percentiles("size_p{}", hour["sizes"]),
                    **_percentiles("delay_p{}_ms", hour["delays"]),
                    "top_keys": _json(keys.get(hour_ms, [])),
                    "letters": _json(letters.get(hour_ms, [])),
                    "subscriptions": _json(subscriptions.get(hour_ms, [])),
                    "poison": _json(poison if hour_ms == now_ms - now_ms % _HOUR_MS else []),
                },
            )
            reporter.progress(number + 1, len(hours))
        for hour_ms, did in subscriptions.items():
            connection.execute(
                query("store_subscriptions", "insights"),
                {"topic_id": topic_id, "hour_ms": hour_ms, "subscriptions": _json(did)},
            )
    messages = sum(hour["messages"] for hour in hours)
    return {
        "hours": len(hours),
        "messages": messages,
        "words": f"{counted(len(hours), 'hour', 'hours')} of {request.topic} computed from"
        f" {counted(messages, 'message', 'messages')}",
    }


def _computed(frame: DataFrame) -> tuple[list[Any], dict[int, list[Any]], dict[int, list[Any]]]:
    from pyspark.sql import functions as sf

    rows = frame.selectExpr(*_ROWS).cache()
    try:
        hours = rows.groupBy("hour_ms").agg(*map(sf.expr, _OF_HOUR)).orderBy("hour_ms").collect()
        keys = _top(rows, ("key",), "key IS NOT NULL", with_bytes=True)
        letters = _top(rows, ("letter_topic", "letter_subscription"), "letter_topic IS NOT NULL")
    except SPARK_ERRORS as error:
        raise failed(error) or error from error
    finally:
        rows.unpersist()
    return (
        hours,
        _by_hour(keys, ("key", "messages", "bytes")),
        _by_hour(letters, ("topic", "subscription", "messages")),
    )


def _top(rows: DataFrame, names: tuple[str, ...], where: str, *, with_bytes: bool = False) -> list[Any]:
    """Return each hour's most frequent values with their number of messages and, if asked for, of bytes."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    counted = (
        rows.where(where)
        .groupBy("hour_ms", *names)
        .agg(sf.count("*").alias("messages"), *([sf.sum("size").alias("bytes")] if with_bytes else []))
    )
    order = Window.partitionBy("hour_ms").orderBy(sf.desc("messages"), *names)
    ranked = counted.withColumn("rank", sf.row_number().over(order)).where(f"rank <= {_TOP}")
    return ranked.orderBy("hour_ms", "rank").drop("rank").collect()


def _by_hour(rows: list[Any], names: tuple[str, ...]) -> dict[int, list[Any]]:
    """Group rows by their first column, and name the other columns."""
    found: dict[int, list[Any]] = defaultdict(list)
    for hour_ms, *values in rows:
        found[hour_ms].append(dict(zip(names, values, strict=True)))
    return found


def _percentiles(name: str, values: Sequence[int | None] | None) -> dict[str, int | None]:
    known: Sequence[int | None] = values or (None, None, None)
    return {name.format(part): value for part, value in zip((50, 95, 99), known, strict=True)}


def _ack_percentiles(counts: list[list[int]]) -> list[int | None]:
    """Return the percentiles of a subscription's time from delivery to ack, from the counts of its partitions."""
    return [percentile_ms(summed(counts), share) for share in _SHARES]


def _json(value: list[Any]) -> str:
    """Return JSON without NUL, which PostgreSQL does not store."""
    return json.dumps(value).replace("\\u0000", "\\ufffd")
