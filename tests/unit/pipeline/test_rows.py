"""Rows of a DataFrame as messages, and the errors about rows and columns that cannot be sent."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, StringType, StructField, StructType

from pipeline.errors import InvalidOption, InvalidRow
from pipeline.sink.rows import Row, check_columns, rows_of

TIME = pa.timestamp("us", tz="UTC")


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def test_every_column_becomes_a_field_of_the_message() -> None:
    rows = batch(
        value=pa.array([b"a", None], pa.binary()),
        __key=pa.array(["kü", None], pa.string()),
        __topic=pa.array(["t", "a/b/c"], pa.string()),
        __eventTime=pa.array([datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=UTC), None], TIME),
        __messageProperties=pa.array([[("x", "1")], None], pa.map_(pa.string(), pa.string())),
        __ledgerId=pa.array([1, 2], pa.int64()),
    )
    assert list(rows_of(rows, 0)) == [
        Row(b"a", "kü", "persistent://public/default/t", 1000, {"x": "1"}),
        Row(None, None, "persistent://a/b/c", None, None),
    ]
    texts = batch(value=pa.array(["ü", "v"]), __key=pa.array([b"k", b"\xff"], pa.binary()))
    assert list(rows_of(texts, 0)) == [
        Row("ü".encode(), "k", None, None, None),
        Row(b"v", "/w==", None, None, None, key_b64=True),
    ]


def test_empty_columns_are_left_out_and_a_part_of_a_batch_is_read() -> None:
    empty = pa.array([[], None, [("p", "1")], []], pa.map_(pa.string(), pa.string()))
    whole = batch(
        value=pa.array([b"a", b"b", b"c", b"d"]),
        __key=pa.nulls(4, pa.binary()),
        __eventTime=pa.nulls(4, TIME),
        __messageProperties=empty,
    )
    assert [row.properties for row in rows_of(whole, 0)] == [None, None, {"p": "1"}, None]
    for first, found in ((0, [None, None]), (1, [None, {"p": "1"}]), (3, [None])):
        rows = list(rows_of(whole.slice(first, 2), 0))
        assert [row.properties for row in rows] == found
        assert {(row.key, row.event_time_ms) for row in rows} == {(None, None)}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"__eventTime": pa.array([0, -1], TIME)}, "row 8 has an event time before 1970"),
        (
            {"__messageProperties": pa.array([[], [("p", None)]], pa.map_(pa.string(), pa.string()))},
            "row 8 has no value for the property 'p'",
        ),
    ],
)
def test_rows_that_cannot_be_sent_are_named(columns: dict[str, pa.Array], said: str) -> None:
    with pytest.raises(InvalidRow, match=said):
        list(rows_of(batch(value=pa.array([b"a", b"b"]), **columns), 7))


def test_a_wrong_topic_is_named() -> None:
    with pytest.raises(InvalidOption, match="row 0, column __topic: 'a//b' is not a topic name"):
        list(rows_of(batch(value=pa.array([b"a"]), __topic=pa.array(["a//b"])), 0))


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, type_) for name, type_ in columns.items()])


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"value": StringType(), "id": LongType()}, "a column id, which messages do not have"),
        ({"value": IntegerType()}, "column value has type int: it must be binary or string"),
        ({"__key": StringType()}, "no column value"),
        (
            {"value": BinaryType(), "__eventTime": LongType()},
            "__eventTime has type bigint: it must be timestamp",
        ),
        ({"value": BinaryType()}, "no topic to write to"),
    ],
)
def test_a_column_that_cannot_be_written_is_named(columns: dict[str, DataType], said: str) -> None:
    with pytest.raises(InvalidRow, match=said):
        check_columns(schema(**columns), has_topic=False)


def test_two_columns_of_one_name_are_refused() -> None:
    twice = StructType([StructField("value", StringType()), StructField("value", BinaryType())])
    with pytest.raises(InvalidRow, match="several columns value: select one of them"):
        check_columns(twice, has_topic=True)


def test_columns_of_the_source_are_allowed_if_an_option_says_where_to_write() -> None:
    read = schema(value=StringType(), __topic=StringType(), __ledgerId=LongType(), __batchIndex=IntegerType())
    check_columns(read, has_topic=True)
    check_columns(schema(value=BinaryType()), has_topic=True)
    check_columns(schema(value=BinaryType(), __topic=StringType()), has_topic=False)
    with pytest.raises(InvalidRow, match="column __ledgerId, so it was read from topics"):
        check_columns(read, has_topic=False)
