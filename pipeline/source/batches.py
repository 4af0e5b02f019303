"""Collect the messages of entries into RecordBatches of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pipeline.source.columns import SPARK_TYPES, Run, record_batch

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BatchBuilder"]

BATCH_BYTES: Final = 8 << 20  # payload bytes after which a RecordBatch is complete, however few its rows


class BatchBuilder:
    """Collects runs for a RecordBatch. It bounds the rows, and the payload bytes except for the last entry's."""

    def __init__(
        self, *, max_rows: int, max_bytes: int = BATCH_BYTES, columns: Sequence[str] = tuple(SPARK_TYPES)
    ) -> None:
        self._columns = columns
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._runs: list[Run] = []
        self._rows = 0
        self._size_bytes = 0

    def add(self, run: Run) -> Iterator[pa.RecordBatch]:
        """Add the messages of an entry, and yield the batches that this completes."""
        taken = 0
        while taken < len(run.messages):
            until = min(len(run.messages), taken + self._max_rows - self._rows)
            piece = (
                run
                if until - taken == len(run.messages)
                else replace(run, messages=run.messages[taken:until])
            )
            self._runs.append(piece)
            self._rows += until - taken
            self._size_bytes += sum([len(message.payload) for message in piece.messages])
            taken = until
            if self._rows >= self._max_rows or self._size_bytes >= self._max_bytes:
                yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the last, incomplete batch, if there is one."""
        if self._rows:
            yield record_batch(self._runs, self._columns)
        self._runs, self._rows, self._size_bytes = [], 0, 0
