"""The columns of a ledger file, and the checksum over them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.ledger_files.rows import EntryRow

__all__ = ["INDEX_COLUMNS", "SCHEMA", "ColumnsChecksum", "batch_of", "rows_of"]

SCHEMA: Final = pa.schema(
    [
        pa.field("entry_id", pa.int64(), nullable=False),
        pa.field("messages", pa.int32(), nullable=False),
        pa.field("flags", pa.int16(), nullable=False),
        pa.field("key_hash", pa.int32()),
        pa.field("deliver_at_ms", pa.int64(), nullable=False),
        pa.field("append_ms", pa.int64(), nullable=False),
        pa.field("cumulative_messages", pa.int64(), nullable=False),
        pa.field("cumulative_bytes", pa.int64(), nullable=False),
        pa.field("data", pa.binary(), nullable=False),
    ]
)
INDEX_COLUMNS: Final = tuple(name for name in SCHEMA.names if name != "data")


def batch_of(rows: Sequence[EntryRow]) -> pa.RecordBatch:
    """Return the rows as columns."""
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)],
        schema=SCHEMA,
    )


def rows_of(table: pa.Table) -> list[EntryRow]:
    """Return the columns as rows. Without the column `data`, each row has no data."""
    columns = [table.column(name).to_pylist() for name in INDEX_COLUMNS]
    columns.append(table.column("data").to_pylist() if "data" in table.column_names else [b""] * len(table))
    return [EntryRow(*row) for row in zip(*columns, strict=True)]


class ColumnsChecksum:
    """SHA-256 over the columns. It does not depend on how the rows are divided into batches."""

    def __init__(self) -> None:
        self._parts = {name: hashlib.sha256() for name in (*SCHEMA.names, "key_hash nulls", "data lengths")}

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch. hashlib releases the GIL while it works."""
        for name in INDEX_COLUMNS:
            column = batch.column(name)
            if name == "key_hash":
                self._parts["key_hash nulls"].update(_fixed(pc.cast(pc.is_null(column), pa.int8())))
                column = pc.fill_null(column, 0)
            self._parts[name].update(_fixed(column))
        data = batch.column("data")
        self._parts["data lengths"].update(_fixed(pc.binary_length(data)))
        self._parts["data"].update(_values(data))

    def hexdigest(self) -> str:
        """Return the checksum of everything that was added."""
        whole = hashlib.sha256()
        for part in self._parts.values():
            whole.update(part.digest())
        return whole.hexdigest()


def _fixed(column: pa.Array) -> memoryview:
    """Return the bytes of a column of numbers without nulls."""
    width = column.type.bit_width // 8
    begin = column.offset * width
    return memoryview(column.buffers()[1])[begin : begin + len(column) * width]


def _values(column: pa.Array) -> memoryview:
    """Return the bytes of a column of binary values, one after the other."""
    _, offsets, values = column.buffers()
    if not len(column) or values is None:
        return memoryview(b"")
    ends = memoryview(offsets).cast("b").cast("i")
    return memoryview(values)[ends[column.offset] : ends[column.offset + len(column)]]
