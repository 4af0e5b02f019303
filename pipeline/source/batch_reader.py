"""The batch reader: `spark.read.format("vela")`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from pipeline.database import reading
from pipeline.source.filters import EVERYTHING, read_filter
from pipeline.source.options import ReadOptions
from pipeline.source.plan import plan_read
from pipeline.source.ranges import EntryPartition, split
from pipeline.source.topic_logs import EntryIndex

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BatchReader", "FilteringBatchReader"]


class BatchReader(DataSourceReader):
    """Plans on the driver and reads on executors. A task can be repeated."""

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = columns
        self._wanted = EVERYTHING

    def partitions(self) -> Sequence[InputPartition]:
        """Return ranges of about the same size. Raises PipelineError."""
        options = self._options
        with reading(options, f"planning the read of {options.label}") as connection:
            plan = plan_read(connection, options, self._wanted)
            parts = split(
                EntryIndex(connection, offload_url=options.offload_url),
                plan.ranges,
                most=options.partitions,
                part_bytes=options.partition_bytes,
            )
        return [EntryPartition(part) for part in parts or [[]]]  # Spark needs at least one partition

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the partition's messages. Raises PipelineError, for example EntriesMissing or EntryUnreadable."""
        from pipeline.source.reading import read_partition  # here, because planning does not need it

        return read_partition(self._options, self._columns, self._wanted, partition)


class FilteringBatchReader(BatchReader):
    """A batch reader that accepts filters.

    It is a separate class, for reads with option pushFilters, for two reasons. Spark 4.3 refuses a reader with a method
    `pushFilters` unless `spark.sql.python.filterPushdown.enabled` is set. And Spark plans a DataFrame's read once: all
    later queries on the same DataFrame, and all branches of one query, get the partitions for the filters that were
    pushed last, so only the user can know whether filters may be pushed.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Store the query's filters. Return all of them, so that Spark applies them to the rows that it gets."""
        self._wanted = read_filter(filters)
        return filters
