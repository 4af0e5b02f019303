"""Compact a topic that has too many keys for the broker's memory.

Spark does the part that needs the memory: it finds the latest message of each key and stores the message's position.
The topic's owner then copies the messages that stay, as it does for its own compactions: this job changes nothing that
readers see.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pipeline.database import storing
from pipeline.errors import BrokerUnavailable, PipelineError, TopicNotFound, counted
from pipeline.jobs.export import pin
from pipeline.jobs.failures import SPARK_ERRORS, failed
from pipeline.jobs.reporting import counted_tasks
from pipeline.queries import query
from pipeline.source.offsets import OTHERS, Offset, offsets_from_json, offsets_to_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from pipeline.database import Connection
    from pipeline.jobs.request import JobRequest, Reporter

__all__ = ["run"]

T = TypeVar("T")

_ROWS: Final = 10_000  # stored by one statement
_POLL_S: Final = 0.2
_PICK_UP_S: Final = 60.0  # after this time the job fails if no broker runs

_COLUMNS: Final = (
    "value BINARY, __key BINARY, __topic STRING, __ledgerId BIGINT, __entryId BIGINT, __batchIndex INT,"
    " __keyIsBinary BOOLEAN"
)
# No text begins with the byte FF, so a text key and a binary key never get the same hash. The broker computes the same
# hash of a key to find the key's row.
_KEY_MD5: Final = "md5(CASE WHEN __keyIsBinary THEN concat(unhex('FF'), __key) ELSE __key END) AS key_md5"
_PLACE: Final = (
    "struct(__ledgerId AS ledger_id, __entryId AS entry_id, greatest(__batchIndex, 0) AS batch_index,"
    " coalesce(octet_length(value), 0) = 0 AS is_deleted) AS place"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log:
    """A topic or partition, and where its last compaction ended."""

    topic_id: int
    name: str
    generation: int  # the number of the last compaction; 0 if there was none
    begin: Offset  # the last entry that the last compaction covered; the job reads what follows


def run(request: JobRequest, reporter: Reporter, session: Callable[[], SparkSession]) -> dict[str, Any]:
    """Find the latest message of each key, then wait until the broker has compacted the topic. Raises PipelineError.

    Safe to repeat and to kill: readers get what they got before, until the broker has stored everything that stays.
    """
    with storing(request, f"compacting {request.topic}") as connection:
        logs = [
            _Log(
                topic_id=row[0],
                name=row[1],
                generation=row[2],
                begin=Offset(ledger_id=row[3], entry_id=row[4], messages=row[5]),
            )
            for row in connection.execute(query("topics", "compact"), (request.topic,))
        ]
        if not logs:
            raise TopicNotFound(f"topic {request.topic} does not exist in this database")
        pinned, messages = pin(request.source(startingOffsets=json.dumps(_starts(logs))))
        ends = offsets_from_json(json.loads(pinned["endingOffsets"]))
        logs = [each for each in logs if each.name in ends and _has_news(each, ends[each.name])]
        if not messages or not logs:
            return {"topic": request.topic, "words": "nothing was published since the last compaction"}
        surveys = {each.name: _begin(connection, each, ends[each.name], request.write_id) for each in logs}
        numbers = sorted(surveys.values())
        try:
            spark = session()
            with counted_tasks(spark, reporter):
                reporter.stage("find the latest message of each key")
                frame = spark.read.format("vela").schema(_COLUMNS).options(**pinned).load()
                _survey(frame, request, surveys)
        except BaseException:
            connection.execute(query("give_up", "compact"), (numbers,))
            raise
        connection.execute(query("ready", "compact"), (numbers,))
        reporter.stage("copy what stays", len(numbers))
        kept, removed = _ended(connection, numbers, reporter)
    return {
        "topic": request.topic,
        "messages": messages,
        "kept_messages": kept,
        "removed_messages": removed,
        "words": f"{counted(messages, 'message', 'messages')} read: {counted(kept, 'stays', 'stay')} for readers of the"
        f" compacted topic, {counted(removed, 'is', 'are')} left out",
    }


def _starts(logs: Sequence[_Log]) -> dict[str, Any]:
    """Return the option startingOffsets. Leave a partition that was added a moment ago to the next compaction.

    The offsets include counts of messages, because retention may have trimmed the entry at an offset: the counts show
    that nothing after it is gone.
    """
    first = {each.name: "earliest" for each in logs if each.begin.ledger_id < 0}
    later = offsets_to_json({each.name: each.begin for each in logs if each.begin.ledger_id >= 0})
    return {OTHERS: "latest", **first, **later}


def _has_news(log: _Log, end: Offset) -> bool:
    """Return whether entries follow those of the last compaction. The end of an empty log has entry id -1."""
    return end.entry_id >= 0 and end.position > log.begin.position


def _begin(connection: Connection, log: _Log, end: Offset, write_id: str) -> int:
    """Begin the survey of a log, which gets the positions of its keys' latest messages. Return the survey's id."""
    row = connection.execute(
        query("begin", "compact"),
        {
            "topic_id": log.topic_id,
            "write_id": write_id,
            "generation": log.generation,
            "begin_ledger": log.begin.ledger_id,
            "begin_entry": log.begin.entry_id,
            "horizon_ledger": end.ledger_id,
            "horizon_entry": end.entry_id,
        },
    ).fetchone()
    assert row is not None
    return int(row[0])


def _survey(frame: DataFrame, request: JobRequest, surveys: dict[str, int]) -> None:
    """Let executors store the position of each key's latest message. `surveys` has the id of each topic's survey.

    The executors use their own address of the database.
    """
    theirs = request.on_executors()

    def store(rows: Iterable[Row]) -> None:
        with storing(theirs, f"storing keys of {theirs.topic}") as connection:
            for part in _parts(iter(rows), _ROWS):
                places = [row["place"] for row in part]
                connection.execute(
                    query("add", "compact"),
                    (
                        [surveys[row["__topic"]] for row in part],
                        [bytes.fromhex(row["key_md5"]) for row in part],
                        [place["ledger_id"] for place in places],
                        [place["entry_id"] for place in places],
                        [place["batch_index"] for place in places],
                        [place["is_deleted"] for place in places],
                    ),
                )

    try:
        found = frame.where("__key IS NOT NULL").selectExpr("__topic", _KEY_MD5, _PLACE)
        found.groupBy("__topic", "key_md5").agg({"place": "max"}).withColumnRenamed(
            "max(place)", "place"
        ).foreachPartition(store)
    except SPARK_ERRORS as error:
        raise failed(error) or error from error


def _parts(rows: Iterator[T], most: int) -> Iterator[Sequence[T]]:
    while part := list(islice(rows, most)):
        yield part


def _ended(connection: Connection, numbers: Sequence[int], reporter: Reporter) -> tuple[int, int]:
    """Wait until the broker has compacted every topic. Return how many messages stay, and how many were removed.

    Raises BrokerUnavailable if no broker runs, and PipelineError if the broker refuses a compaction.
    """
    until_s = time.monotonic() + _PICK_UP_S
    done = 0
    while True:
        connection.execute(query("ask", "compact"))
        rows = connection.execute(query("ends", "compact"), (list(numbers),)).fetchall()
        ended = [row for row in rows if row[0] in ("done", "refused")]
        if len(ended) > done:
            done = len(ended)
            reporter.progress(done)
        if done == len(numbers):
            break
        if time.monotonic() > until_s and not _is_served(connection):
            raise BrokerUnavailable(
                "no broker runs: start it, and it compacts the topic with what this job has found"
            )
        time.sleep(_POLL_S)
    refused = [row[1] for row in rows if row[0] == "refused"]
    if refused:
        raise PipelineError(f"the broker has not compacted the topic: {refused[0]}")
    return sum(row[2] for row in rows), sum(row[3] for row in rows)


def _is_served(connection: Connection) -> bool:
    """Return whether a broker has given a sign of life in the last 30 s. A compaction may take much longer."""
    row = connection.execute(query("is_served", "compact")).fetchone()
    return row is not None and bool(row[0])
