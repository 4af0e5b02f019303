"""Vela's data pipeline on Spark: the data source `vela`, sessions to run it in, jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Register `spark.read.format("vela")` with this session. Safe to repeat.

    Executors import `pipeline` and `vela` by name, so both must be importable there (docs/how-to/spark.md).
    """
    # Imported here, so that `pipeline.java` can say what is missing even if PySpark is not installed.
    from pipeline.source import VelaDataSource

    spark.dataSource.register(VelaDataSource)
