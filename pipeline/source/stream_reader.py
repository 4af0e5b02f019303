"""The stream reader: `spark.readStream.format("vela")`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pipeline.database import Connection, reading
from pipeline.errors import CheckpointDamaged, DataLost
from pipeline.source.admission import admit
from pipeline.source.bounds import require_stored, starts_of
from pipeline.source.filters import EVERYTHING
from pipeline.source.offsets import BEGINNING, Offset, Offsets, offsets_from_json, offsets_to_json
from pipeline.source.options import ReadOptions
from pipeline.source.ranges import EntryPartition, ranges_between, split
from pipeline.source.topic_logs import EntryIndex, StoredTopic, TopicLog, find_topics, read_logs

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["StreamReader"]

logger = logging.getLogger(__name__)

Json = dict[str, Any]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches on the driver and reads on executors. Spark keeps the offsets in the query's checkpoint."""

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = columns
        self._target: Offsets | None = None  # the end of a query with Trigger.AvailableNow

    def initialOffset(self) -> Json:  # noqa: N802
        """Return where a new query starts. Raises PipelineError."""
        with self._planning() as connection:
            logs = read_logs(connection, find_topics(connection, self._options))
            return offsets_to_json(starts_of(connection, logs, self._options, default="latest"))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return ReadMaxRows if the options have a limit, else ReadAllAvailable.

        `latestOffset` applies the limits itself, because Spark has no limit for entries.
        """
        limits = self._options.limits
        return ReadMaxRows(limits.rows or (1 << 63) - 1) if limits.is_set else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of the query: the last entries committed now."""
        self._target = offsets_from_json(self.reportLatestOffset())

    def reportLatestOffset(self) -> Json:  # noqa: N802
        """Return the last committed entry of every topic."""
        with self._planning() as connection:
            logs = read_logs(connection, self._topics(connection))
            return offsets_to_json({log.topic.name: log.latest for log in logs})

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802
        """Return the end of the next micro-batch: `start` if there is nothing to read.

        A topic that is new since the last micro-batch is read from its beginning. Raises DataLost if entries after
        `start` were trimmed or a topic is gone, unless failOnDataLoss is false.
        """
        begin = _in_checkpoint(start)
        with self._planning() as connection:
            starts, logs = self._continued(connection, begin)
            ends: Offsets = {}
            for log in logs:
                name = log.topic.name
                ends[name] = max(starts[name], self._limit_of(name, log.latest), key=_position)
            if not isinstance(limit, ReadAllAvailable):
                ends = admit(
                    EntryIndex(connection, offload_url=self._options.offload_url),
                    logs,
                    starts,
                    ends,
                    self._options.limits,
                )
            return offsets_to_json(ends)

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch. Raises PipelineError.

        If Spark plans the micro-batch again with the same options and stored entries, it gets the same tasks.
        """
        options = self._options
        begin, ends = _in_checkpoint(start), _in_checkpoint(end)
        with self._planning() as connection:
            starts, logs = self._continued(connection, begin, planned=ends)
            index = EntryIndex(connection, offload_url=self._options.offload_url)
            ranges = [
                part
                for log in logs
                if log.topic.name in ends
                for part in ranges_between(index, log, starts[log.topic.name], ends[log.topic.name])
            ]
            parts = split(index, ranges, most=options.partitions, part_bytes=options.partition_bytes)
        return [EntryPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the partition's messages. Raises PipelineError, for example EntriesMissing or EntryUnreadable."""
        from pipeline.source.reading import read_partition  # here, because planning does not need it

        return read_partition(self._options, self._columns, EVERYTHING, partition)

    def _planning(self) -> AbstractContextManager[Connection]:
        return reading(self._options, f"planning the read of {self._options.label}")

    def _limit_of(self, topic: str, latest: Offset) -> Offset:
        if self._target is None:
            return latest
        return min(latest, self._target.get(topic, BEGINNING), key=_position)

    def _topics(self, connection: Connection) -> list[StoredTopic]:
        """Return the topics that the stream reads now. A named topic may be missing only if failOnDataLoss is false."""
        return find_topics(connection, self._options, must_exist=self._options.fail_on_data_loss)

    def _continued(
        self,
        connection: Connection,
        starts: Mapping[str, Offset],
        planned: Mapping[str, Offset] | None = None,
    ) -> tuple[Offsets, list[TopicLog]]:
        """Return the offsets from which to continue, and the logs to read.

        `planned` is the end of the micro-batch, if it has one already. Raises DataLost if a topic or entries after its
        offset are gone, unless failOnDataLoss is false.
        """
        options = self._options
        topics = self._topics(connection)
        gone = sorted((starts.keys() | (planned or {}).keys()) - {topic.name for topic in topics})
        if gone:
            what = "does not exist now" if options.names(gone[0]) else "is not in the query's options now"
            text = f"topic {gone[0]} was read before and {what}"
            if options.fail_on_data_loss:
                raise DataLost(text, "set failOnDataLoss to false to continue without it")
            logger.warning("%s; failOnDataLoss is false, so the query continues without it", text)
        if self._target is not None:
            topics = [topic for topic in topics if topic.name in self._target or topic.name in starts]
        logs = read_logs(connection, topics, after=starts)
        return {
            log.topic.name: require_stored(log, starts.get(log.topic.name, BEGINNING), options)
            for log in logs
        }, logs


def _in_checkpoint(value: Json) -> Offsets:
    """Return the offsets that Spark read from the checkpoint. Raises CheckpointDamaged."""
    try:
        return offsets_from_json(value)
    except (ValueError, AttributeError):
        raise CheckpointDamaged(
            "the query's checkpoint has offsets that are not Vela's, perhaps because it is damaged or another query's:"
            " restore it, or set another checkpointLocation to begin where the options say"
        ) from None


def _position(offset: Offset) -> tuple[int, int]:
    return offset.position
