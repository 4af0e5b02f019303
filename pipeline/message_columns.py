"""The columns of a DataFrame of messages: names and types as in pulsar-spark, then Vela's own columns.

This module does not import PyArrow, because Spark starts a process for each call to the data source, and most calls
need only the names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from pipeline.errors import InvalidOption, InvalidRow

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = [
    "ALL_TYPES",
    "SPARK_SCHEMA",
    "SPARK_TYPES",
    "column_names",
    "event_time_ms",
    "properties_of",
]

SPARK_TYPES: Final = {
    "value": "binary",
    "__key": "binary",
    "__topic": "string",
    "__messageId": "binary",
    "__publishTime": "timestamp",
    "__eventTime": "timestamp",
    "__messageProperties": "map<string,string>",
    "__partition": "int",
    "__ledgerId": "bigint",
    "__entryId": "bigint",
    "__batchIndex": "int",
    "__producerName": "string",
    "__sequenceId": "bigint",
    "__appendTime": "timestamp",
    "__schemaVersion": "bigint",
}
ALL_TYPES: Final = SPARK_TYPES | {"__keyIsBinary": "boolean"}
"""SPARK_TYPES, and the columns that a read has only if its schema names them."""

SPARK_SCHEMA: Final = ", ".join(f"{name} {type_}" for name, type_ in SPARK_TYPES.items())


def column_names(schema: StructType) -> tuple[str, ...]:
    """Return a read's columns, in order. Raises InvalidOption for a column that messages do not have."""
    for field in schema.fields:
        wanted = ALL_TYPES.get(field.name)
        if wanted is None:
            raise InvalidOption(f"the schema has a column {field.name}: the columns are {SPARK_SCHEMA}")
        if field.dataType.simpleString() != wanted:
            raise InvalidOption(
                f"the schema has column {field.name} as {field.dataType.simpleString()}: it is {wanted}"
            )
    return tuple(field.name for field in schema.fields)


def properties_of(pairs: Iterable[tuple[str, str | None]], number: int | None = None) -> dict[str, str]:
    """Return the properties of a row. Raises InvalidRow if one has no value, which messages cannot have.

    `number` is the row's place in the data, for the error; None if it is not known.
    """
    properties: dict[str, str] = {}
    for name, text in pairs:
        if text is None:
            raise InvalidRow(
                f"{_row(number)} has no value for the property {name!r}: remove it or give it one"
            )
        properties[name] = text
    return properties


def event_time_ms(time_us: int, number: int | None = None) -> int:
    """Return a row's event time in ms since 1970, as messages have it. Raises InvalidRow for a time before 1970."""
    if time_us < 0:
        raise InvalidRow(f"{_row(number)} has an event time before 1970: messages cannot have one")
    return time_us // 1000


def _row(number: int | None) -> str:
    return "a row" if number is None else f"row {number}"
