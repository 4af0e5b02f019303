"""Messages in files: Parquet with the data source's columns, or text that people and other programs read.

NDJSON and CSV have a column for text and a column for Base64, both for values and for keys. A value that is not UTF-8
is in the Base64 column, so no message changes on its way through a file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pipeline.errors import InvalidOption

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["MANIFEST", "SUFFIXES", "data_files", "read_files", "write_files"]

MANIFEST: Final = "_vela_export.manifest"  # Spark ignores names that begin with _
SUFFIXES: Final = {"parquet": ".parquet", "ndjson": ".json", "csv": ".csv"}

_READ_COLUMNS: Final = (
    "value",
    "valueBase64",
    "key",
    "keyBase64",
    "properties",
    "eventTime",
    "schemaVersion",
)
_READ_FROM_JSON: Final = ", ".join(
    f"{name} {'MAP<STRING, STRING>' if name == 'properties' else 'STRING'}" for name in _READ_COLUMNS
)
_CSV: Final[dict[str, str | bool | int]] = {
    "header": True,
    "escape": '"',
    "multiLine": True,
    "ignoreLeadingWhiteSpace": False,
    "ignoreTrailingWhiteSpace": False,
    "maxCharsPerColumn": -1,
    "nullValue": "\\N",  # an empty string is a value too
}
_TIME: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"
# A value or key that is \N (the CSV null) or has one of these characters is written as Base64, because some readers of
# text files would change it.
_UNSAFE: Final = "^\\\\N$|[\\x00-\\x08\\x0B-\\x1F\\x7F\\uFEFF]"


def write_files(frame: DataFrame, folder: Path, format_: str) -> None:
    """Write a DataFrame with the data source's columns. Raises PySparkException if Spark cannot write."""
    place = _address(folder)
    match format_:
        case "parquet":
            frame.write.mode("append").parquet(place)
        case "ndjson":
            _as_text(frame, format_).write.mode("append").json(place)
        case _:
            _as_text(frame, format_).write.mode("append").options(**_CSV).csv(place)


def read_files(spark: SparkSession, paths: Sequence[Path], format_: str) -> DataFrame:
    """Return the columns that the sink writes: value, key, properties, event time, schema version.

    Raises InvalidOption if the files have no column for values. If Spark cannot read them, this or the first query
    raises PySparkException.
    """
    from pyspark.sql import functions as sf

    files = [_address(path) for path in paths]
    reader = spark.read.option("__globPaths__", "false")  # a name such as orders[1] is not a pattern
    if format_ == "parquet":
        frame = reader.parquet(*files)
        if "value" not in frame.columns:
            raise InvalidOption("the Parquet files have no column value")
        return _messages(
            *(
                sf.col(name) if name in frame.columns else sf.lit(None)
                for name in ("value", "__key", "__messageProperties", "__eventTime", "__schemaVersion")
            ),
            of=frame,
        )
    if format_ == "ndjson":
        for path in paths:
            _require_a_message(path)
        frame = reader.schema(_READ_FROM_JSON).option("mode", "FAILFAST").json(files)
    else:
        frame = reader.options(**_CSV, mode="FAILFAST").csv(files)
    if not {"value", "valueBase64"} & set(frame.columns):
        raise InvalidOption(f"the header of {paths[0]} has no column value")
    texts = {
        name: sf.col(name) if name in frame.columns else sf.lit(None).cast("string") for name in _READ_COLUMNS
    }
    properties = texts["properties"]
    if format_ == "csv":
        properties = sf.from_json(properties, "MAP<STRING, STRING>", {"mode": "FAILFAST"})
    return _messages(
        sf.coalesce(texts["value"].cast("binary"), sf.unbase64(texts["valueBase64"])),
        sf.coalesce(texts["key"].cast("binary"), sf.unbase64(texts["keyBase64"])),
        properties,
        sf.to_timestamp(texts["eventTime"]),
        texts["schemaVersion"].try_cast("bigint"),
        of=frame,
    )


def _require_a_message(path: Path) -> None:
    """Raise InvalidOption if the first line has no column of a message: each line would become an empty message.

    A line that an export wrote may have no value either, but it always has the topic.
    """
    with path.open("rb") as file:
        try:
            line = json.loads(file.readline())
        except (ValueError, RecursionError):
            return  # Spark names the line that it cannot read
    if isinstance(line, dict) and not line.keys() & {"topic", *_READ_COLUMNS}:
        raise InvalidOption(f"the first line of {path} has no column value")


def _address(path: Path) -> str:
    """Return a path as Hadoop takes it. Without the scheme, a cluster may look for it in HDFS."""
    return f"file:{os.path.abspath(path)}"


def data_files(folder: Path, format_: str) -> list[Path]:
    """Return a folder's non-empty files of a format, sorted by name. If `folder` is a file, return only that."""
    suffix = SUFFIXES[format_]
    if folder.is_file():
        return [folder]
    return sorted(
        path
        for path in folder.iterdir()
        if path.name.endswith(suffix)
        and path.name[:1] not in ("_", ".")
        and path.is_file()
        and path.stat().st_size
    )


def _as_text(frame: DataFrame, format_: str) -> DataFrame:
    from pyspark.sql import functions as sf

    properties = sf.col("__messageProperties")
    return frame.select(
        sf.col("__topic").alias("topic"),
        sf.col("__ledgerId").alias("ledgerId"),
        sf.col("__entryId").alias("entryId"),
        sf.col("__batchIndex").alias("batchIndex"),
        *(
            sf.date_format(f"__{name}", _TIME).alias(name)
            for name in ("publishTime", "appendTime", "eventTime")
        ),
        sf.col("__producerName").alias("producerName"),
        sf.col("__sequenceId").alias("sequenceId"),
        sf.col("__schemaVersion").alias("schemaVersion"),
        *_text_columns("__key", "key"),
        (sf.to_json(properties) if format_ == "csv" else properties).alias("properties"),
        *_text_columns("value", "value"),
    )


def _text_columns(source: str, name: str) -> tuple[Column, Column]:
    """Return the column with the text of valid, plain UTF-8, and the one with the Base64 of everything else."""
    from pyspark.sql import functions as sf

    text = sf.try_validate_utf8(sf.col(source).cast("string"))
    is_plain = text.isNotNull() & ~text.rlike(_UNSAFE)
    return (
        sf.when(is_plain, text).alias(name),
        sf.when(~sf.coalesce(is_plain, sf.lit(False)), sf.base64(source)).alias(f"{name}Base64"),
    )


def _messages(
    value: Column,
    key: Column,
    properties: Column,
    event_time: Column,
    schema_version: Column,
    *,
    of: DataFrame,
) -> DataFrame:
    from pyspark.sql import functions as sf

    map_type = "MAP<STRING, STRING>"
    return of.select(
        value.cast("binary").alias("value"),
        key.cast("binary").alias("__key"),
        sf.coalesce(properties.cast(map_type), sf.create_map().cast(map_type)).alias("__messageProperties"),
        event_time.cast("timestamp").alias("__eventTime"),
        schema_version.cast("bigint").alias("__schemaVersion"),
    )
