"""The work of an executor: read ranges of entries and yield their messages as RecordBatches."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pipeline.database import reading
from pipeline.errors import SKIP_CORRUPT, EntryUnreadable, counted
from pipeline.pace import Pace
from pipeline.source.batches import BatchBuilder
from pipeline.source.columns import PlainRun, Run, key_bytes
from pipeline.source.entries import EntryRow, read_entries
from pipeline.source.filters import ANY, ReadFilter
from pipeline.source.options import ReadOptions
from pipeline.source.plain_batches import LEAST_MESSAGES, plain_messages
from pipeline.source.ranges import EntryPartition, EntryRange
from vela.wire.entry import open_entry
from vela.wire.entry.header import parse_metadata
from vela.wire.errors import EntryCorrupt

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition

__all__ = ["read_partition"]

logger = logging.getLogger(__name__)


def read_partition(
    options: ReadOptions, columns: Sequence[str], wanted: ReadFilter, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """Yield a task's messages. Raises PipelineError, for example EntriesMissing or EntryUnreadable."""
    assert isinstance(partition, EntryPartition)
    unreadable = 0
    batches = BatchBuilder(max_rows=options.batch_rows, columns=columns)
    entry_ids = wanted.interval("__entryId")
    pace = Pace(options.read_bytes_per_s)
    with reading(options, f"reading {options.label}") as connection:
        for part in partition.ranges:
            for row in read_entries(
                connection,
                part,
                offload_url=options.offload_url,
                must_be_whole=options.fail_on_data_loss,
            ):
                if pause_s := pace.pause_s(len(row.data)):
                    time.sleep(pause_s)
                if not entry_ids.has(row.entry_id):
                    continue
                try:
                    run = _decode(part, row, options.max_message_bytes, wanted)
                except EntryCorrupt as error:
                    _refuse_or_log(options, part, row.entry_id, error)
                    unreadable += 1
                    continue
                yield from batches.add(run)
    yield from batches.rest()
    if unreadable:
        entries = counted(unreadable, "entry", "entries")
        logger.warning("%s: left out %s that cannot be read", options.label, entries)


def _decode(part: EntryRange, row: EntryRow, max_message_bytes: int, wanted: ReadFilter) -> Run | PlainRun:
    times_ms = wanted.interval_ms("__publishTime")
    # All messages of an entry have one publish time, which is known without decompressing them.
    if times_ms != ANY and not times_ms.has(parse_metadata(row.data)[0].publish_time):
        return Run(source=part, entry_id=row.entry_id, append_ms=row.append_ms, messages=[])
    opened = open_entry(row.data, max_message_bytes=max_message_bytes)
    metadata = opened.metadata
    if wanted.keys is None and metadata.num_messages_in_batch >= LEAST_MESSAGES:
        plain = plain_messages(opened.payload, metadata.num_messages_in_batch)
        if plain is not None:
            return PlainRun(
                source=part,
                entry_id=row.entry_id,
                append_ms=row.append_ms,
                publish_time_ms=metadata.publish_time,
                producer_name=metadata.producer_name,
                schema_version=metadata.schema_version,
                batch_size=metadata.num_messages_in_batch,
                first=0,
                values=plain.values,
                sequence_ids=plain.sequence_ids,
            )
    messages = opened.messages()
    for message in messages:
        if message.key_b64:
            key_bytes(message)  # raises now, while it is known which entry is damaged
    if wanted.keys is not None:
        messages = [message for message in messages if key_bytes(message) in wanted.keys]
    return Run(source=part, entry_id=row.entry_id, append_ms=row.append_ms, messages=messages)


def _refuse_or_log(options: ReadOptions, part: EntryRange, entry_id: int, error: EntryCorrupt) -> None:
    what = (
        f"entry {part.ledger_id}:{entry_id} of {part.topic} cannot be read ({type(error).__name__}: {error})"
    )
    if not options.skip_corrupt:
        raise EntryUnreadable(f"{what}; {SKIP_CORRUPT}") from None
    logger.warning("%s; the entry is left out", what)
