"""The data source `vela`: a topic's stored messages as a DataFrame (Spark's Python Data Source API)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pipeline.batches import BatchBuilder
from pipeline.columns import SPARK_SCHEMA, Run, key_bytes
from pipeline.database import reading
from pipeline.errors import EntryUnreadable
from pipeline.log import read_entries
from pipeline.options import ReadOptions
from pipeline.planning import EntryRange, plan, split
from vela.wire.entry import decode_messages
from vela.wire.errors import EntryCorrupt

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EntryPartition", "VelaDataSource", "VelaReader"]

logger = logging.getLogger(__name__)


class VelaDataSource(DataSource):
    """`spark.read.format("vela").option("topic", …).option("url", …).load()`; see docs/how-to/spark.md."""

    def __init__(self, options: Any) -> None:
        """Raises InvalidOption."""
        super().__init__(options)
        self._read_options = ReadOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        """Return the name that `format()` takes."""
        return "vela"

    def schema(self) -> str:
        """Return the schema, which is the same for every topic. Payloads are bytes; the job decodes them."""
        return SPARK_SCHEMA

    def reader(self, schema: StructType) -> VelaReader:
        """Return the batch reader."""
        return VelaReader(self._read_options)


class EntryPartition(InputPartition):
    """The ranges that one task reads, in log order. Pickled to an executor."""

    def __init__(self, ranges: Sequence[EntryRange]) -> None:
        super().__init__(tuple(ranges))
        self.ranges = tuple(ranges)


class VelaReader(DataSourceReader):
    """Plans on the driver and reads on executors. It has no state, so that a task can be repeated."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Return ranges up to the last committed entry. Raises TopicNotFound, DatabaseUnavailable, InvalidOption."""
        with reading(self._options, f"planning the read of {self._options.topic}") as connection:
            ranges = plan(connection, self._options)
        return [EntryPartition(part) for part in split(ranges, self._options.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the partition's messages. Raises DatabaseUnavailable, EntriesMissing, EntryUnreadable."""
        assert isinstance(partition, EntryPartition)
        options = self._options
        unreadable = 0
        batches = BatchBuilder(max_rows=options.batch_rows)
        with reading(options, f"reading {options.topic}") as connection:
            for part in partition.ranges:
                for entry_id, data in read_entries(connection, part):
                    try:
                        run = _decode(part, entry_id, data, options.max_message_bytes)
                    except EntryCorrupt as error:
                        _refuse_or_log(options, part, entry_id, error)
                        unreadable += 1
                        continue
                    yield from batches.add(run)
        yield from batches.rest()
        if unreadable:
            logger.warning("%s: left out %s entries that cannot be read", options.topic, unreadable)


def _decode(part: EntryRange, entry_id: int, data: bytes, max_message_bytes: int) -> Run:
    messages = decode_messages(data, max_message_bytes=max_message_bytes)
    return Run(
        source=part,
        entry_id=entry_id,
        messages=messages,
        keys=[key_bytes(message) for message in messages],
    )


def _refuse_or_log(options: ReadOptions, part: EntryRange, entry_id: int, error: EntryCorrupt) -> None:
    what = (
        f"entry {part.ledger_id}:{entry_id} of {part.topic} cannot be read ({type(error).__name__}: {error})"
    )
    if not options.skip_corrupt:
        raise EntryUnreadable(f"{what}; to leave such entries out, set option onCorrupt to skip") from None
    logger.warning("%s; the entry is left out", what)
