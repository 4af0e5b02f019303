"""Republish stored messages that match a condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pipeline.errors import DataLost, InvalidOption, PipelineError, counted
from pipeline.jobs.conditions import UNREADABLE, matching
from pipeline.jobs.export import pin
from pipeline.jobs.failures import SPARK_ERRORS, failed, reason_of
from pipeline.jobs.reporting import counted_tasks
from pipeline.schemas import sink_schemas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipeline.jobs.request import JobRequest, Reporter

__all__ = ["FROM_PROPERTY", "REPLAYS_PROPERTY", "run"]

REPLAYS_PROPERTY: Final = "REPLAYED_TIMES"  # how often a message was replayed
FROM_PROPERTY: Final = "REPLAYED_FROM"  # the topic and position from which it was first replayed
_SAMPLES: Final = 20
_SAMPLE_CHARACTERS: Final = 200
_READ_AS_NULL: Final = (
    "payloads that the condition read as null, because they are not JSON or do not fit the topic's schema"
)
_RANGE: Final = ("startingOffsets", "endingOffsets")


def run(request: JobRequest, reporter: Reporter, session: Callable[[], SparkSession]) -> dict[str, Any]:
    """Count the messages, and publish them in log order unless the run is a preview.

    The job pins the range before it publishes the first message, and names its producers after `write_id`. So a run
    that continues this one publishes the same messages, and a topic with deduplication stores each of them once.
    Raises PipelineError. If more than `limit` messages match, a run that is no preview raises before it publishes any.
    """
    options = request.options
    source = request.source(onCorrupt="fail")
    pinned = {name: request.pinned[name] for name in _RANGE if name in request.pinned}
    if not pinned:
        for name, option in (("starting_time", "startingTime"), ("ending_time", "endingTime")):
            if options[name]:
                source[option] = options[name]
        found, _ = pin(source, starts=True)
        pinned = {name: found[name] for name in _RANGE}
        reporter.pin(pinned)
    else:
        _require_stored({**source, **pinned})
    for time in ("startingTime", "endingTime"):
        source.pop(time, None)
    spark = session()
    with counted_tasks(spark, reporter):
        frame = spark.read.format("vela").options(**source, **pinned).load()
        chosen, payloads = matching(spark, frame, options["where"], url=request.url, topic=request.topic)
        is_fresh = f"{_REPLAYS} < {int(options['max_replays'])}"
        fresh = chosen.where(is_fresh)
        reporter.stage("count messages")
        messages, left_out, versions, samples = _counted(chosen, fresh, is_fresh)
        unreadable = payloads.get[UNREADABLE] if payloads is not None else 0
        result = {
            "messages": messages,
            "left_out": left_out,
            "unreadable": unreadable,
            "samples": samples,
            "to": options["to"],
        }
        fit = "fits" if messages == 1 else "fit"
        about = f"{counted(messages, 'message', 'messages')} of {request.topic} {fit}"
        if left_out:
            about += f", besides {counted(left_out, 'that was', 'that were')} replayed before"
        note = f"; {_READ_AS_NULL}: {unreadable}" if unreadable else ""
        is_over = messages > int(options["limit"])
        if options["preview"] == "true":
            more = f"; limit = {options['limit']}, so a run would publish none" if is_over else ""
            return {**result, "is_preview": True, "words": f"{about}; nothing was published{more}{note}"}
        if is_over:
            raise InvalidOption(
                f"{about}, more than limit = {options['limit']}, and nothing was published: choose fewer, or raise it"
            )
        if messages:
            reporter.stage("publish messages")
            _publish(request, fresh, versions)
    return {**result, "words": f"{about} and {'is' if messages == 1 else 'are'} in {options['to']}{note}"}


def _require_stored(source: dict[str, str]) -> None:
    """Raise DataLost if retention has trimmed messages of the range since an earlier run pinned it."""
    try:
        pin(source)
    except DataLost as error:
        raise DataLost(error.problem, "start a new run: this one cannot be continued") from None


# A publisher can set the property too: a negative number must not let a message be replayed more often.
_REPLAYS: Final = f"greatest(coalesce(try_cast(__messageProperties['{REPLAYS_PROPERTY}'] AS int), 0), 0)"


def _counted(
    chosen: DataFrame, fresh: DataFrame, is_fresh: str
) -> tuple[int, int, list[int], list[dict[str, Any]]]:
    """Return the number of fresh messages, the number left out, the fresh ones' schema versions, and samples of them.

    All numbers come from one query, because each query reads the range from the database again. The samples need a
    second query.
    """
    try:
        ((all_messages, messages, versions),) = chosen.selectExpr(
            "count(*)", f"count_if({is_fresh})", f"collect_set(__schemaVersion) FILTER (WHERE {is_fresh})"
        ).collect()
        rows = fresh.selectExpr(
            "concat_ws(':', __ledgerId, __entryId) AS id",
            "__batchIndex AS batch_index",
            f"left(try_validate_utf8(CAST(__key AS string)), {_SAMPLE_CHARACTERS}) AS key",
            f"left(try_validate_utf8(CAST(value AS string)), {_SAMPLE_CHARACTERS}) AS text",
            "octet_length(value) AS size_bytes",
        ).take(_SAMPLES)
    except SPARK_ERRORS as error:
        raise failed(error) or PipelineError(
            f"option where fails on a message: {reason_of(error)}; functions such as try_cast give null"
        ) from error
    return messages, all_messages - messages, versions, [row.asDict() for row in rows]


def _publish(request: JobRequest, fresh: DataFrame, versions: list[int]) -> None:
    options = request.options
    again = fresh.selectExpr(
        "value",
        "__key",
        "__eventTime",
        "__schemaVersion",
        f"""map_concat(
            map_filter(__messageProperties, (name, v) -> name NOT IN ('{REPLAYS_PROPERTY}', '{FROM_PROPERTY}')),
            map('{REPLAYS_PROPERTY}', CAST({_REPLAYS} + 1 AS string),
                '{FROM_PROPERTY}', coalesce(__messageProperties['{FROM_PROPERTY}'],
                    concat_ws(' ', __topic, concat_ws(':', __ledgerId, __entryId, __batchIndex))))
        ) AS __messageProperties""",
    )
    target = request.target(
        options["to"],
        write_id=f"replay-{request.write_id}",
        messages_per_s=int(options["messages_per_s"]),
    )
    if versions:
        target["schemas"] = sink_schemas(url=request.url, topic=request.topic, versions=versions)
    target["exactlyOnce"] = "false"  # with true, the sink would refuse a topic without deduplication
    try:
        # One task, so that messages keep their order and the rate is exact.
        again.coalesce(1).write.format("vela").mode("append").options(**target).save()
    except SPARK_ERRORS as error:
        raise failed(error) or error from error
