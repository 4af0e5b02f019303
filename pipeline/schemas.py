"""The schemas of topics as Spark's types, to turn payloads into columns."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as spark_types
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from pipeline.database import reading
from pipeline.errors import SchemaUnusable
from pipeline.option_values import OptionValues, full_topic_name
from pipeline.queries import query
from vela.wire.topic_name import TopicName

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["TopicSchema", "expand", "json_payload", "sink_schemas", "topic_schema"]

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
    writers: Mapping[int, str] = field(default_factory=dict)
    """Avro only: the definitions with which payloads were written, by version."""

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
class _StoredSchema:
    version: int
    type: int  # the protocol's Schema.Type
    data: bytes
    properties: Mapping[str, str]  # of a KeyValue schema: the types of its parts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Database:
    url: str
    statement_timeout_ms: int


def topic_schema(*, url: str, topic: str, version: int | None = None) -> TopicSchema:
    """Return a version of a topic's schema, by default the latest. `url` and `topic` are the data source's options.

    Raises SchemaUnusable if there is no such version or Spark cannot use it, InvalidOption and DatabaseUnavailable.
    """
    name, rows = _stored(url, topic)
    versions = {row.version: (_TYPES.get(row.type), row.data.decode(errors="replace")) for row in rows}
    wanted = max(versions, default=0) if version is None else version
    if wanted not in versions:
        which = "schema" if version is None else f"version {version} of a schema"
        raise SchemaUnusable(f"{name} has no {which}")
    kind, definition = versions[wanted]
    if kind is None:
        raise SchemaUnusable(
            f"the schema of {name} is neither JSON nor Avro: take the columns out of value yourself"
        )
    writers = {number: text for number, (of, text) in versions.items() if of == kind == "avro"}
    return TopicSchema(topic=name, version=wanted, kind=kind, definition=definition, writers=writers)


def sink_schemas(*, url: str, topic: str, versions: Collection[int] | None = None) -> str:
    """Return the sink's option `schemas` for rows that were read from a topic, by default with all its versions.

    Raises InvalidOption and DatabaseUnavailable.
    """
    _, rows = _stored(url, topic)
    return json.dumps(
        {
            row.version: {
                "type": row.type,
                "definition": base64.b64encode(row.data).decode(),
                **({"properties": row.properties} if row.properties else {}),
            }
            for row in sorted(rows, key=lambda row: row.version)
            if versions is None or row.version in versions
        }
    )


def _stored(url: str, topic: str) -> tuple[str, list[_StoredSchema]]:
    """Return the topic name under which the schemas are stored, and all versions."""
    database = _Database(
        url=OptionValues({"url": url}, ["url"]).database_url("url"),
        statement_timeout_ms=_STATEMENT_TIMEOUT_MS,
    )
    name = TopicName.parse(full_topic_name(topic)).base
    with reading(database, f"reading the schema of {name}") as connection:
        rows = connection.execute(query("schemas"), (name,)).fetchall()
    return name, [
        _StoredSchema(version=version, type=type_, data=bytes(data), properties=properties)
        for version, type_, data, properties in rows
    ]


def expand(frame: DataFrame, schema: TopicSchema) -> DataFrame:
    """Return the frame with the fields of its payloads as columns in place of `value`.

    An Avro payload is decoded with the version in its row's `__schemaVersion`, and then converted to `schema`. Raises
    SchemaUnusable.
    """
    from pyspark.sql import functions as sf

    payload = sf.from_json(json_payload(frame, schema), schema.spark_type())
    others = [name for name in frame.columns if name != "value"]
    return frame.select(payload.alias("value"), *others).select("value.*", *others)


def json_payload(frame: DataFrame, schema: TopicSchema) -> Column:
    """Return the column of the payloads as JSON; null for Avro that cannot be read. Raises SchemaUnusable."""
    from pyspark.sql import functions as sf

    if schema.kind == "json":
        return sf.col("value").cast("string")
    if "__schemaVersion" not in frame.columns:
        raise SchemaUnusable(
            f"{schema.topic} has an Avro schema, so reading its payloads needs __schemaVersion: select it too"
        )
    try:
        from pipeline.avro_payloads import decoder
    except ImportError:
        raise SchemaUnusable(
            f"{schema.topic} has an Avro schema, and fastavro is not installed here: install vela[pipeline]"
        ) from None
    decode = decoder(schema.definition, version=schema.version, writers=schema.writers)
    as_column = sf.arrow_udf(decode, "string")  # type: ignore[attr-defined]  # Spark's stubs leave it out
    text: Column = as_column(sf.col("value"), sf.col("__schemaVersion"))
    return text


def _spark_type(schema: Any, named: dict[str, DataType | None], namespace: str = "") -> DataType:
    """Return Spark's type for an Avro type in a namespace.

    `named` has the named types so far. A type that is still being read is None there: a type cannot contain itself.
    """
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        return _spark_type(kinds[0], named, namespace) if len(kinds) == 1 else spark_types.StringType()
    if isinstance(schema, str):
        full_name = f"{namespace}.{schema}"
        found = _PRIMITIVES.get(schema) or named[full_name if full_name in named else schema]
        if found is None:
            raise ValueError(f"{schema} contains itself")
        return found
    match schema["type"]:
        case "record":
            names, inside = _names_of(schema, namespace)
            named |= dict.fromkeys(names)
            fields = [
                (field["name"], _spark_type(field["type"], named, inside)) for field in schema["fields"]
            ]
            record = StructType([StructField(name, type_) for name, type_ in fields])
            named |= dict.fromkeys(names, record)
            return record
        case "array":
            return ArrayType(_spark_type(schema["items"], named, namespace))
        case "map":
            return MapType(spark_types.StringType(), _spark_type(schema["values"], named, namespace))
        case "enum":
            named |= dict.fromkeys(_names_of(schema, namespace)[0], spark_types.StringType())
            return spark_types.StringType()
        case "fixed":
            named |= dict.fromkeys(_names_of(schema, namespace)[0], spark_types.BinaryType())
            return spark_types.BinaryType()
        case inner:
            return _spark_type(inner, named, namespace)


def _names_of(schema: Mapping[str, Any], namespace: str) -> tuple[list[str], str]:
    """Return the full and the short name of a type, and the namespace inside it."""
    outside, _, short_name = schema["name"].rpartition(".")
    inside = outside or schema.get("namespace") or namespace
    return [f"{inside}.{short_name}", short_name], inside
