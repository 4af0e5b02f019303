"""The rows of a DataFrame as messages to be sent."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from pipeline.errors import InvalidRow
from pipeline.message_columns import ALL_TYPES, event_time_ms, properties_of
from pipeline.option_values import full_topic_name

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["Row", "check_columns", "rows_of"]

# Columns that are written, and their types.
_WRITTEN: Final = {
    "value": ("binary", "string"),
    "__key": ("binary", "string"),
    "__topic": ("string",),
    "__eventTime": ("timestamp",),
    "__messageProperties": ("map<string,string>",),
    "__schemaVersion": ("bigint",),
}

_METADATA_BYTES: Final = 64  # lengths, sequence id, event time
_PAIR_BYTES: Final = 18  # tags and lengths of a property


class Row(NamedTuple):
    """One message to be sent."""

    value: bytes | None  # None = a null value, which deletes its key when the topic is compacted
    key: str | None  # with `key_b64`, the Base64 of a key that is not text
    topic: str | None  # full name
    event_time_ms: int | None
    properties: dict[str, str] | None
    key_b64: bool = False
    schema_version: int | None = None  # a key of option schemas

    def size_bytes(self) -> int:
        """Return the most bytes that the message takes in an entry before compression."""
        size = _METADATA_BYTES + len(self.value or b"") + len((self.key or "").encode())
        if self.properties:
            for name, text in self.properties.items():
                size += _PAIR_BYTES + len(name.encode()) + len(text.encode())
        return size


def check_columns(schema: StructType, *, has_topic: bool) -> None:
    """Raise InvalidRow if a DataFrame cannot be written.

    With option topic, the data source's other columns are allowed and ignored.
    """
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if len(types) < len(schema.fields):
        names = [field.name for field in schema.fields]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidRow(f"the DataFrame has several columns {twice}: select one of them")
    for name, type_ in types.items():
        if name not in ALL_TYPES:
            raise InvalidRow(
                f"the DataFrame has a column {name}, which messages do not have: put it into value, for example with"
                " to_json(struct(…)), and select the columns of a message"
            )
        if name in _WRITTEN and type_ not in _WRITTEN[name]:
            raise InvalidRow(f"column {name} has type {type_}: it must be {' or '.join(_WRITTEN[name])}")
    if "value" not in types:
        raise InvalidRow("the DataFrame has no column value: select one of type binary or string")
    if not has_topic and "__topic" not in types:
        raise InvalidRow("no topic to write to: set option topic, or add a column __topic")
    read_only = next((name for name in types if name not in _WRITTEN), None)
    if not has_topic and read_only is not None:
        # __topic may name the topic that the row was read from: a stream would then read its own rows for ever.
        raise InvalidRow(
            f"the DataFrame has a column {read_only}, so it was read from topics, and __topic may be the topic of each"
            " row: set option topic, or select value, __topic and the other columns that you want to write"
        )


def rows_of(batch: pa.RecordBatch, first: int) -> Iterator[Row]:
    """Yield the rows of a RecordBatch. `first` is the number of its first row, for errors.

    Raises InvalidRow, and InvalidOption for a topic that cannot be written to.
    """
    columns = {name: batch.column(name) for name in batch.schema.names if name in _WRITTEN}
    nothing = [None] * batch.num_rows
    keys = _column(columns, "__key", nothing)
    topics = _column(columns, "__topic", nothing)
    properties = _column(columns, "__messageProperties", nothing)
    versions = _column(columns, "__schemaVersion", nothing)
    times_us: Sequence[int | None] = nothing
    if "__eventTime" in columns:
        columns["__eventTime"] = columns["__eventTime"].cast(pa.int64())
        times_us = _column(columns, "__eventTime", nothing)
    names: dict[str, str] = {}
    rows = zip(columns["value"].to_pylist(), keys, topics, times_us, properties, versions, strict=True)
    for number, (value, key, topic, time_us, pairs, version) in enumerate(rows, first):
        if topic is not None and topic not in names:
            names[topic] = full_topic_name(topic, f"row {number}, column __topic")
        text, key_b64 = _key(key)
        yield Row(
            value.encode() if isinstance(value, str) else value,
            text,
            None if topic is None else names[topic],
            None if time_us is None else event_time_ms(time_us, number),
            properties_of(pairs, number) if pairs else None,
            key_b64,
            version,
        )


def _column(columns: dict[str, pa.Array], name: str, nothing: Sequence[Any]) -> Sequence[Any]:
    """Return a column's values. A column of nulls or of empty maps costs no object for each row."""
    column = columns.get(name)
    if column is None or column.null_count == len(column):
        return nothing
    if isinstance(column, pa.MapArray) and column.offsets[0] == column.offsets[-1]:
        return nothing
    values: Sequence[Any] = column.to_pylist()
    return values


def _key(key: str | bytes | None) -> tuple[str | None, bool]:
    """Return a key as text, and whether that text is the Base64 of a key that is not UTF-8."""
    if not isinstance(key, bytes):
        return key, False
    try:
        return key.decode(), False
    except UnicodeDecodeError:
        return base64.b64encode(key).decode(), True
