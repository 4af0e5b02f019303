"""The writers that Spark calls: on executors to write a task's rows, on the driver when all tasks are done."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from pipeline.errors import BrokerUnavailable, InvalidRow
from pipeline.pace import Pace
from pipeline.sink.lanes import Lanes
from pipeline.sink.options import WriteOptions
from pipeline.sink.rows import rows_of
from vela.aio import Client
from vela.authentication import token_authentication
from vela.errors import VelaError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BatchWriter", "StreamWriter", "Written"]

logger = logging.getLogger(__name__)

_QUERY_ID: Final = "sql.streaming.queryId"  # the same after a restart from the checkpoint
_EPOCH: Final = "streaming.sql.batchId"  # the number of the micro-batch
_OPERATION_TIMEOUT_S: Final = 30.0  # for opening a producer, if sendTimeoutMs is not shorter
# The low bits of a sequence id number a task's rows of one epoch. The bits above them are the epoch.
_ROW_BITS: Final = 32


class Written(WriterCommitMessage):
    """The counts of rows that one task wrote."""

    def __init__(self, rows: int, repeated: int) -> None:
        self.rows = rows
        self.repeated = repeated  # of these, the rows that an earlier attempt had stored


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame. Spark sends pickled copies of the writer to the executors."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        # Without a write id, use a random one: all attempts of a task then use the same producer name.
        self._name = f"spark-{options.write_id or uuid.uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write a task's rows. Raises BrokerUnavailable, DeduplicationOff, InvalidRow, InvalidOption."""
        task = TaskContext.get()
        assert task is not None
        must_deduplicate = self._options.exactly_once
        if must_deduplicate is None:
            must_deduplicate = self._options.write_id is not None
        return _write(
            iterator,
            self._options,
            name=self._name,
            partition=task.partitionId(),
            epoch=0,
            must_deduplicate=must_deduplicate,
        )

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log a warning if an earlier attempt, or an earlier write of the same id, had written some of the rows."""
        written = [message for message in messages if isinstance(message, Written)]
        rows, repeated = sum(each.rows for each in written), sum(each.repeated for each in written)
        if repeated:
            logger.warning("%s: %s of %s rows had been written before", self._name, repeated, rows)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a stream. Spark sends pickled copies of the writer to the executors."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write a task's rows of one micro-batch. Raises the errors of `BatchWriter.write`."""
        task = TaskContext.get()
        assert task is not None
        query_id, epoch = task.getLocalProperty(_QUERY_ID), task.getLocalProperty(_EPOCH)
        assert query_id is not None
        assert epoch is not None
        return _write(
            iterator,
            self._options,
            name=f"spark-{query_id}",
            partition=task.partitionId(),
            epoch=int(epoch),
            must_deduplicate=self._options.exactly_once is not False,
        )


def _write(
    batches: Iterator[pa.RecordBatch],
    options: WriteOptions,
    *,
    name: str,
    partition: int,
    epoch: int,
    must_deduplicate: bool,
) -> Written:
    async def write() -> Written:
        async with Client(
            options.service_url,
            authentication=token_authentication(options.token, options.token_file),
            operation_timeout_seconds=min(_OPERATION_TIMEOUT_S, options.send_timeout_ms / 1000),
            stats_interval_in_seconds=0,
            tls_trust_certs_file_path=options.tls_trust_file or None,
            tls_validate_hostname=True,
            tls_certificate_file_path=options.tls_certificate_file or None,
            tls_private_key_file_path=options.tls_key_file or None,
        ) as client:
            lanes = Lanes(
                client,
                options,
                producer_name=f"{name}-{partition}",
                must_deduplicate=must_deduplicate,
                offset=partition,
            )
            rows, pace = 0, Pace(options.rows_per_s)
            # `next` runs in a thread, because the client must answer the broker's pings while Spark computes rows.
            while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                for row in rows_of(batch, rows):
                    if pause_s := pace.pause_s(1):
                        await asyncio.sleep(pause_s)
                    topic = options.topic or row.topic
                    if topic is None:
                        raise InvalidRow(f"row {rows} has no __topic: fill the column, or set option topic")
                    await lanes.add(row, topic, (epoch << _ROW_BITS) + rows)
                    rows += 1
            await lanes.finish()
            return Written(rows, lanes.repeated)

    try:
        return asyncio.run(write())
    except VelaError as error:
        raise BrokerUnavailable(f"cannot write: {type(error).__name__}: {error}") from None
