"""Vela's data pipeline on Spark: the data source and sink `vela`, sessions to run them in, jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Register the format `vela` with this session. Safe to repeat.

    Executors import `pipeline` and `vela` by name, so both must be importable there (docs/how-to/spark.md).
    """
    # Imported here, so that `pipeline.java` can say what is missing even if PySpark is not installed.
    from pipeline.data_source import VelaDataSource

    spark.dataSource.register(VelaDataSource)
