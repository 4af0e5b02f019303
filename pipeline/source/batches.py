"""Collect the messages of entries into RecordBatches of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import pyarrow as pa

from pipeline.message_columns import SPARK_TYPES
from pipeline.source.columns import PlainRun, Run, plain_record_batch, record_batch

__all__ = ["BatchBuilder"]

BATCH_BYTES: Final = 8 << 20  # size after which a RecordBatch is complete, however few its rows


class BatchBuilder:
    """Collects runs. A batch has at most `max_rows` rows, and exceeds `max_bytes` by at most one entry.

    A batch's size is about the size of its payloads, keys and properties.
    """

    def __init__(
        self, *, max_rows: int, max_bytes: int = BATCH_BYTES, columns: Sequence[str] = tuple(SPARK_TYPES)
    ) -> None:
        self._columns = columns
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._runs: list[Run | PlainRun] = []
        self._rows = 0
        self._size_bytes = 0

    def add(self, run: Run | PlainRun) -> Iterator[pa.RecordBatch]:
        """Add the messages of an entry, and yield the batches that this completes."""
        rows = run.rows
        taken = 0
        while taken < rows:
            until = min(rows, taken + self._max_rows - self._rows)
            piece = run if until - taken == rows else run.piece(taken, until)
            self._runs.append(piece)
            self._rows += until - taken
            self._size_bytes += _size_bytes(piece)
            taken = until
            if self._rows >= self._max_rows or self._size_bytes >= self._max_bytes:
                yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the messages collected so far as one batch, unless there are none, and start a new batch."""
        batches: list[pa.RecordBatch] = []
        for kind, runs in groupby(self._runs, type):
            if kind is PlainRun:
                plain = [run for run in runs if isinstance(run, PlainRun)]
                batches.append(plain_record_batch(plain, self._columns))
            else:
                batches.append(record_batch([run for run in runs if isinstance(run, Run)], self._columns))
        if batches:
            yield batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        self._runs, self._rows, self._size_bytes = [], 0, 0


def _size_bytes(run: Run | PlainRun) -> int:
    if isinstance(run, PlainRun):
        return int(run.values.nbytes)
    size_bytes = 0
    for message in run.messages:
        size_bytes += len(message.payload) + len(message.key or "")
        if message.properties:
            size_bytes += sum([len(name) + len(text) for name, text in message.properties.items()])
    return size_bytes
