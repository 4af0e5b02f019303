"""Vela's data pipeline on Spark: the data source and sink `vela`, sessions to run them in, and jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Register the format `vela` with this session, and send this process's code to the executors of a cluster.

    Executors need the packages that `vela[pipeline]` depends on (docs/how-to/spark-cluster.md). Safe to repeat.
    """
    # Imported here, so that `pipeline.__main__` can name what is missing even if PySpark is not installed.
    from pipeline.code_archive import send_code
    from pipeline.data_source import VelaDataSource

    send_code(spark)  # first, because registering fixes the files from which Spark's workers import
    spark.dataSource.register(VelaDataSource)
