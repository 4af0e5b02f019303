"""The schemas of topics as Spark's types, to turn payloads into columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as spark_types
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from pipeline.database import reading
from pipeline.errors import SchemaUnusable
from pipeline.option_values import OptionValues, full_topic_name
from pipeline.queries import query
from vela.wire.topic_name import TopicName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["TopicSchema", "expand", "topic_schema"]

_TYPES: Final = {2: "json", 4: "avro"}  # the protocol's Schema.Type
_PRIMITIVES: Final[Mapping[str, DataType]] = {
    "null": spark_types.StringType(),
    "boolean": spark_types.BooleanType(),
    "int": spark_types.IntegerType(),
    "long": spark_types.LongType(),
    "float": spark_types.FloatType(),
    "double": spark_types.DoubleType(),
    "bytes": spark_types.BinaryType(),
    "string": spark_types.StringType(),
}
_STATEMENT_TIMEOUT_MS: Final = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSchema:
    """One version of a topic's schema."""

    topic: str
    version: int
    kind: str  # json or avro
    definition: str  # an Avro schema as JSON, for both kinds

    def spark_type(self) -> StructType:
        """Return the type with which `from_json` reads a payload. Raises SchemaUnusable if Spark has no such type.

        A field with several types, null not counted, is a string with its JSON. Times stay numbers.
        """
        try:
            type_ = _spark_type(json.loads(self.definition), {})
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise SchemaUnusable(
                f"version {self.version} of the schema of {self.topic} cannot be a Spark type:"
                f" {type(error).__name__}: {error}"
            ) from None
        if not isinstance(type_, StructType):
            raise SchemaUnusable(f"the schema of {self.topic} is not a record, so it has no columns")
        return type_


@dataclass(frozen=True, slots=True, kw_only=True)
class _Database:
    url: str
    statement_timeout_ms: int


def topic_schema(*, url: str, topic: str, version: int | None = None) -> TopicSchema:
    """Return a version of a topic's schema, by default the latest. `url` and `topic` are the data source's options.

    Raises SchemaUnusable if there is no such version or Spark cannot use it, InvalidOption and DatabaseUnavailable.
    """
    database = _Database(
        url=OptionValues({"url": url}, ["url"]).database_url("url"),
        statement_timeout_ms=_STATEMENT_TIMEOUT_MS,
    )
    name = TopicName.parse(full_topic_name(topic)).base
    with reading(database, f"reading the schema of {name}") as connection:
        row = connection.execute(query("schema"), {"topic": name, "version": version}).fetchone()
    if row is None:
        which = "schema" if version is None else f"version {version} of a schema"
        raise SchemaUnusable(f"{name} has no {which}")
    found, type_, data = row
    if type_ not in _TYPES:
        raise SchemaUnusable(
            f"the schema of {name} is neither JSON nor Avro: take the columns out of value yourself"
        )
    return TopicSchema(
        topic=name, version=found, kind=_TYPES[type_], definition=bytes(data).decode(errors="replace")
    )


def expand(frame: DataFrame, schema: TopicSchema) -> DataFrame:
    """Return the frame with the fields of its payloads as columns in place of `value`.

    Spark reads the payloads in the JVM. Avro needs Spark's package spark-avro. Raises SchemaUnusable.
    """
    from pyspark.sql import functions as sf

    if schema.kind == "avro":
        from pyspark.sql.avro.functions import from_avro

        payload = from_avro(sf.col("value"), schema.definition, {"mode": "PERMISSIVE"})
    else:
        payload = sf.from_json(sf.col("value").cast("string"), schema.spark_type())
    others = [name for name in frame.columns if name != "value"]
    return frame.select(payload.alias("value"), *others).select("value.*", *others)


def _spark_type(schema: Any, named: dict[str, DataType | None]) -> DataType:
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        return _spark_type(kinds[0], named) if len(kinds) == 1 else spark_types.StringType()
    if isinstance(schema, str):
        found = _PRIMITIVES.get(schema) or named[schema]
        if found is None:
            raise ValueError(f"{schema} contains itself")
        return found
    match schema["type"]:
        case "record":
            named[schema["name"]] = None
            record = StructType(
                [StructField(field["name"], _spark_type(field["type"], named)) for field in schema["fields"]]
            )
            named[schema["name"]] = record
            return record
        case "array":
            return ArrayType(_spark_type(schema["items"], named))
        case "map":
            return MapType(spark_types.StringType(), _spark_type(schema["values"], named))
        case "enum":
            named[schema["name"]] = spark_types.StringType()
        case "fixed":
            named[schema["name"]] = spark_types.BinaryType()
        case inner:
            return _spark_type(inner, named)
    return _spark_type(schema["name"], named)
