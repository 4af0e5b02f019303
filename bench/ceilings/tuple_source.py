"""A data source to compare with, written like most in Python: it yields tuples, and Spark converts them to Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.types import StructType

from pipeline.database import reading
from pipeline.message_columns import SPARK_SCHEMA, column_names
from pipeline.source.batch_reader import BatchReader
from pipeline.source.columns import schema_number
from pipeline.source.entries import read_entries
from pipeline.source.options import ReadOptions
from pipeline.source.ranges import EntryPartition
from vela.wire.entry import open_entry
from vela.wire.message_id import MessageId

__all__ = ["TupleSource"]


class TupleSource(DataSource):
    """`format("vela_tuples")`, with the options of `format("vela")`."""

    @classmethod
    def name(cls) -> str:
        """Return the name that `format()` takes."""
        return "vela_tuples"

    def schema(self) -> str:
        """Return the columns of `format("vela")`."""
        return SPARK_SCHEMA

    def reader(self, schema: StructType) -> _TupleReader:
        """Return the reader."""
        return _TupleReader(ReadOptions.parse(self.options), column_names(schema))


class _TupleReader(BatchReader):
    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield a tuple for each message."""
        assert isinstance(partition, EntryPartition)
        with reading(self._options, "reading tuples") as connection:
            for part in partition.ranges:
                for row in read_entries(connection, part):
                    for message in open_entry(row.data, max_message_bytes=1 << 30).messages():
                        position = MessageId(
                            part.ledger_id,
                            row.entry_id,
                            part.partition,
                            message.batch_index,
                            message.batch_size,
                        )
                        yield (
                            message.payload,
                            None if message.key is None else message.key.encode(),
                            part.topic,
                            position.to_bytes(),
                            _time(message.publish_time_ms),
                            _time(message.event_time_ms),
                            message.properties,
                            part.partition,
                            part.ledger_id,
                            row.entry_id,
                            message.batch_index,
                            message.producer_name,
                            message.sequence_id,
                            _time(row.append_ms),
                            schema_number(message.schema_version),
                        )


def _time(time_ms: int) -> datetime | None:
    return datetime.fromtimestamp(time_ms / 1000, UTC) if time_ms > 0 else None
