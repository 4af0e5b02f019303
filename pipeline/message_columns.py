"""The columns of a DataFrame of messages: names and types as in pulsar-spark, then Vela's own columns.

This module does not import PyArrow, because Spark starts a process for each call to the data source, and most calls
need only the names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pipeline.errors import InvalidOption

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["SPARK_SCHEMA", "SPARK_TYPES", "column_names"]

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
SPARK_SCHEMA: Final = ", ".join(f"{name} {type_}" for name, type_ in SPARK_TYPES.items())


def column_names(schema: StructType) -> tuple[str, ...]:
    """Return a read's columns, in order. Raises InvalidOption for a column that messages do not have."""
    for field in schema.fields:
        wanted = SPARK_TYPES.get(field.name)
        if wanted is None:
            raise InvalidOption(f"the schema has a column {field.name}: the columns are {SPARK_SCHEMA}")
        if field.dataType.simpleString() != wanted:
            raise InvalidOption(
                f"the schema has column {field.name} as {field.dataType.simpleString()}: it is {wanted}"
            )
    return tuple(field.name for field in schema.fields)
