"""Vela's data pipeline on Spark: the data source and sink `vela`, sessions to run them in, jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Register the format `vela` with this session. Safe to repeat.

    Executors import `pipeline` and `vela` by name, so both must be importable there (docs/how-to/spark.md). Switches on
    Spark's `spark.sql.python.filterPushdown.enabled`, without which Spark refuses a data source that takes filters.
    """
    # Imported here, so that `pipeline.java` can say what is missing even if PySpark is not installed.
    from pipeline.data_source import VelaDataSource

    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(VelaDataSource)
