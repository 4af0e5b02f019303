"""The data source `vela` as Spark calls it: filters, refused options, and what a planning process imports."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from config.environment import PROJECT_DIR
from pipeline.data_source import VelaDataSource
from pipeline.database import reading
from pipeline.errors import CheckpointDamaged, InvalidOption
from pipeline.source.options import ReadOptions

READ = {"topic": "t", "url": "postgresql://vela@127.0.0.1/vela"}
WRITE = {"topic": "t", "serviceUrl": "pulsar://127.0.0.1:6650"}
VALUE = StructType([StructField("value", BinaryType())])


def test_a_reader_takes_filters_only_if_it_is_asked_to() -> None:
    """Spark finds this out by checking whether the reader overrides `pushFilters`."""
    plain = VelaDataSource(dict(READ)).reader(VALUE)
    asked = VelaDataSource({**READ, "pushFilters": "true"}).reader(VALUE)
    assert type(plain).pushFilters is DataSourceReader.pushFilters
    assert type(asked).pushFilters is not DataSourceReader.pushFilters
    with pytest.raises(InvalidOption, match="option pushFilters is for batch reads"):
        VelaDataSource({**READ, "pushFilters": "true"}).streamReader(VALUE)


def test_wrong_options_of_reads_and_writes_are_refused() -> None:
    with pytest.raises(InvalidOption, match="the schema has column value as bigint: it is binary"):
        VelaDataSource(dict(READ)).reader(StructType([StructField("value", LongType())]))
    with pytest.raises(InvalidOption, match="a topic cannot be overwritten"):
        VelaDataSource(dict(WRITE)).writer(VALUE, overwrite=True)
    with pytest.raises(InvalidOption, match="output mode complete"):
        VelaDataSource(dict(WRITE)).streamWriter(VALUE, overwrite=True)
    with pytest.raises(InvalidOption, match="option writeId is for batch writes"):
        VelaDataSource({**WRITE, "writeId": "w"}).streamWriter(VALUE, overwrite=False)
    with pytest.raises(InvalidOption, match="option writeId is missing"):
        VelaDataSource({**WRITE, "writeId": ""}).writer(VALUE, overwrite=False)
    with pytest.raises(InvalidOption, match="option serviceUrl is missing"):
        VelaDataSource({"topic": "t"}).writer(VALUE, overwrite=False)


@pytest.mark.parametrize("offset", [{"t": {"last": "5"}}, {"t": {"0": 23}}, {"t": None}, [1], "5:1", None])
def test_a_checkpoint_that_cannot_be_read_is_named(offset: Any) -> None:
    """The checkpoint is damaged or belongs to another source. The error comes before any read from the database."""
    reader = VelaDataSource(dict(READ)).streamReader(VALUE)
    with pytest.raises(CheckpointDamaged, match="set another checkpointLocation"):
        reader.latestOffset(offset, ReadAllAvailable())
    with pytest.raises(CheckpointDamaged, match="set another checkpointLocation"):
        reader.partitions({}, offset)


@pytest.mark.parametrize(
    ("module", "unneeded"),
    [
        ("pipeline.data_source", {"psycopg", "pyarrow.compute", "vela.wire.entry"}),
        ("pipeline.source.batch_reader", {"pyarrow.compute", "vela.wire.entry"}),
    ],
)
def test_a_process_that_only_plans_does_not_import_what_decodes(module: str, unneeded: set[str]) -> None:
    code = f"import {module}, sys; print(*sorted(set(sys.modules) & {unneeded}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT_DIR, capture_output=True, text=True, check=True
    )
    assert done.stdout == "\n"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://u:secret@[h/d", "is not a PostgreSQL URL"),
        (
            "postgresql://u:secret@h/d?sslmoed=require",
            "has the parameter 'sslmoed', which PostgreSQL does not know",
        ),
        ("host=h password=secret bd=x", "has the parameter 'bd', which PostgreSQL does not know"),
    ],
)
def test_a_url_that_libpq_refuses_is_not_quoted(url: str, says: str) -> None:
    options = ReadOptions.parse({"topic": "orders", "url": url})
    with (
        pytest.raises(InvalidOption, match=f"option url {says}") as refused,
        reading(options, "planning"),
    ):
        pass
    assert "secret" not in str(refused.value)
