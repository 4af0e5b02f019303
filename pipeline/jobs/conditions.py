"""SQL conditions over messages, from users who may read messages but not run code where the job runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pipeline.errors import InvalidOption, SchemaUnusable
from pipeline.jobs.failures import SPARK_ERRORS, reason_of
from pipeline.schemas import json_payload, topic_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession

__all__ = ["COLUMNS", "UNREADABLE", "matching"]

COLUMNS: Final = (
    "value, text, key, properties, topic, publish_time, append_time, event_time, ledger_id, entry_id, batch_index,"
    " producer, size"
)
UNREADABLE: Final = "unreadable"  # the observation's number: how many payloads the condition cannot read
_COLUMN_NAMES: Final = frozenset(COLUMNS.split(", "))
# Spark has functions that call Java methods, read files and send requests, and every version adds some. The functions
# listed here compute from their arguments alone. They do not depend on the time either, because a continued run must
# choose the same messages.
_NAMES: Final = """
    abs array array_contains array_size ascii base64 bigint binary bit_length boolean bround cardinality ceil
    ceiling char_length character_length coalesce concat concat_ws contains date date_add date_diff date_format
    date_sub date_trunc datediff day dayofmonth dayofweek decimal decode double element_at endswith exists filter
    float floor forall from_json from_unixtime get get_json_object greatest hash hex hour if ifnull int
    is_variant_null isnan isnotnull isnull json_array_length json_object_keys lcase least left length levenshtein
    like lower lpad ltrim make_timestamp map_contains_key map_keys map_values md5 minute mod month named_struct
    nullif nvl nvl2 octet_length parse_json position regexp_count regexp_extract regexp_like regexp_replace
    regexp_substr replace reverse right rlike round rpad rtrim second sha sha1 sha2 size smallint split split_part
    startswith string struct substr substring substring_index timestamp timestamp_micros timestamp_millis
    timestamp_seconds timestampadd timestampdiff tinyint to_date to_json to_timestamp to_unix_timestamp transform
    translate trim try_cast try_divide try_element_at try_parse_json try_to_date try_to_number try_to_timestamp
    try_variant_get typeof ucase unbase64 unhex unix_micros unix_millis unix_seconds upper variant_get weekday
    xxhash64 year
"""
_FUNCTIONS: Final = frozenset(_NAMES.split())
_REFUSED_NODES: Final = (
    "Subquery",
    "Exists",
    "ListQuery",
    "UnresolvedIdentifier",
    "Plan",
    "Window",
    "Current",
    "Now",
)
_OTHER_COLUMNS: Final = (
    "try_validate_utf8(CAST(value AS string)) AS text",
    "CAST(__key AS string) AS key",
    "__messageProperties AS properties",
    "__topic AS topic",
    "__publishTime AS publish_time",
    "__appendTime AS append_time",
    "__eventTime AS event_time",
    "__ledgerId AS ledger_id",
    "__entryId AS entry_id",
    "__batchIndex AS batch_index",
    "__producerName AS producer",
    "octet_length(value) AS size",
    "struct(*) AS `the message`",
)
_HOF: Final = "ArrayExists"  # the function `exists` over an array, which is not a subquery
_MALFORMED: Final = "_malformed"  # the field that Spark sets if a payload does not fit its schema
_MOST_NODES: Final = 1_000


def matching(
    spark: SparkSession, frame: DataFrame, where: str, *, url: str, topic: str
) -> tuple[DataFrame, Observation | None]:
    """Return the rows that match a condition over COLUMNS, and an observation that the first query of the rows fills.

    The observation has one number, UNREADABLE. There is no observation (None) if the condition does not use payloads.
    Raises InvalidOption for a condition that is not allowed.

    `value` is a struct if the topic has a JSON or Avro schema, else a variant: `value:pieces::int`.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as sf

    if not where:
        return frame, None
    # With substitution, Spark would replace ${env:NAME} before it parses, and a condition could read passwords from
    # the environment.
    spark.conf.set("spark.sql.variable.substitute", "false")
    used = _columns_of_safe(spark, where)
    value, is_unreadable, hint = _value(frame, url, topic) if "value" in used else (sf.lit(None), "", "")
    named = frame.select(value.alias("value"), *[sf.expr(column) for column in _OTHER_COLUMNS])
    payloads = Observation() if "value" in used else None
    if payloads is not None:
        named = named.observe(payloads, sf.expr(f"count_if({is_unreadable})").alias(UNREADABLE))
    try:
        return named.where(where).select("`the message`.*"), payloads
    except SPARK_ERRORS as error:
        raise InvalidOption(f"option where: {reason_of(error)}; the columns are {COLUMNS}{hint}") from None


def _value(frame: DataFrame, url: str, topic: str) -> tuple[Column, str, str]:
    """Return the column of the payloads, an SQL condition that is true for an unreadable one, and a hint for errors."""
    from pyspark.sql import functions as sf

    is_null = "value IS NULL AND size > 0"
    try:
        schema = topic_schema(url=url, topic=topic)
    except SchemaUnusable:
        payload = sf.try_parse_json(sf.col("value").cast("string"))
        return (
            payload,
            is_null,
            "; the topic has no schema, so write a field with its type: value:pieces::int",
        )
    fields = schema.spark_type().add(_MALFORMED, "string")
    payload = sf.from_json(json_payload(frame, schema), fields, {"columnNameOfCorruptRecord": _MALFORMED})
    names = ", ".join(name for name in fields.names if name != _MALFORMED)
    hint = f"; the topic has a schema, so write a field as value.{fields.names[0]}: its fields are {names}"
    return payload, f"value.{_MALFORMED} IS NOT NULL OR {is_null}", hint


def _columns_of_safe(spark: SparkSession, where: str) -> set[str]:
    """Return the columns that a condition uses. Raises InvalidOption if the condition could do more than compute."""
    used: set[str] = set()
    parser = spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001 - Spark's Python has no parser of its own
    try:
        parsed = parser.parseExpression(where)
    except SPARK_ERRORS as error:
        raise InvalidOption(f"option where is not an SQL condition: {reason_of(error)}") from None
    for number, node in enumerate(_nodes(parsed)):
        if number > _MOST_NODES:
            raise InvalidOption(f"option where has more than {_MOST_NODES:,} parts: write a shorter one")
        kind = node.getClass().getSimpleName()
        if kind != _HOF and any(refused in kind for refused in _REFUSED_NODES):
            raise InvalidOption(
                f"option where has a part of the kind {kind}: use only the columns of one message"
            )
        if kind == "UnresolvedAttribute":
            column = node.nameParts().head()
            if column.lower() not in _COLUMN_NAMES:
                raise InvalidOption(f"option where has no column {column}: the columns are {COLUMNS}")
            used.add(column.lower())
        if kind == "UnresolvedFunction":
            name = node.nameParts().mkString(".").lower()
            if name not in _FUNCTIONS:
                raise InvalidOption(
                    f"option where uses the function {name}, which conditions may not use: they may compute from the"
                    " columns, and nothing else"
                )
    return used


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    children = node.children()
    for index in range(children.size()):
        yield from _nodes(children.apply(index))
