"""The data source `vela`: topics as DataFrames and streams, and back (Spark's Python Data Source API)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pipeline.errors import InvalidOption
from pipeline.message_columns import SPARK_SCHEMA, column_names
from pipeline.source.options import ReadOptions

if TYPE_CHECKING:
    from pipeline.sink.writers import BatchWriter, StreamWriter
    from pipeline.source.batch_reader import BatchReader
    from pipeline.source.stream_reader import StreamReader

__all__ = ["VelaDataSource"]


class VelaDataSource(DataSource):
    """`spark.read.format("vela").option("topic", …).option("url", …).load()`; see docs/how-to/spark.md.

    Spark starts a process for each call, so each method imports only the parts that it needs.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name that `format()` takes."""
        return "vela"

    def schema(self) -> str:
        """Return the schema, which is the same for every topic. Raises InvalidOption for an unknown option."""
        ReadOptions.parse(self.options)
        return SPARK_SCHEMA

    def reader(self, schema: StructType) -> BatchReader:
        """Return the batch reader. Raises InvalidOption if an option is wrong."""
        from pipeline.source.batch_reader import BatchReader, FilteringBatchReader

        options = ReadOptions.parse(self.options)
        options.require_batch()
        reader = FilteringBatchReader if options.push_filters else BatchReader
        return reader(options, column_names(schema))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        """Return the stream reader. Raises InvalidOption if an option is wrong."""
        from pipeline.source.stream_reader import StreamReader

        options = ReadOptions.parse(self.options)
        options.require_stream()
        return StreamReader(options, column_names(schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Return the batch writer.

        Raises InvalidOption for a wrong option or `overwrite`, InvalidRow for wrong columns.
        """
        from pipeline.sink.options import WriteOptions
        from pipeline.sink.rows import check_columns
        from pipeline.sink.writers import BatchWriter

        if overwrite:
            raise InvalidOption('a topic cannot be overwritten: write with mode("append")')
        options = WriteOptions.parse(self.options)
        check_columns(schema, has_topic=options.topic is not None)
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        """Return the stream writer.

        Raises InvalidOption for a wrong option or `overwrite`, InvalidRow for wrong columns.
        """
        from pipeline.sink.options import WriteOptions
        from pipeline.sink.rows import check_columns
        from pipeline.sink.writers import StreamWriter

        if overwrite:
            raise InvalidOption(
                "output mode complete would send the whole result with every micro-batch: use append or update"
            )
        options = WriteOptions.parse(self.options)
        options.require_stream()
        check_columns(schema, has_topic=options.topic is not None)
        return StreamWriter(options)
