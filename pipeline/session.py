"""A Spark session on this machine, for jobs that need no cluster."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

import pipeline
import vela
from pipeline.java import require_java

__all__ = ["import_path", "local_session"]

_SHUFFLE_PARTITIONS_PER_CORE: Final = 4


def local_session(app_name: str, *, cores: int = 2, memory: str = "1g") -> SparkSession:
    """Start a session on `local[cores]` with `vela` registered. Its workers use this interpreter and these packages.

    `memory` is the heap of the Java process. Sets PYSPARK_PYTHON in this process's environment, because Spark looks
    only there. Raises JavaMissing before it starts anything. Stop the session with `.stop()`.
    """
    require_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName(app_name)
        .config("spark.driver.memory", memory)
        .config("spark.driver.extraJavaOptions", f'"-Djava.io.tmpdir={tempfile.gettempdir()}"')
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        # Spark's default of 200 is for a cluster: here each of a shuffle's tasks would write 200 small files.
        .config("spark.sql.shuffle.partitions", str(_SHUFFLE_PARTITIONS_PER_CORE * cores))
        .config("spark.sql.session.timeZone", "UTC")
        # Spark's default is INT96, which is deprecated in Parquet.
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .config("spark.executorEnv.PYTHONPATH", import_path())
        .getOrCreate()
    )
    pipeline.register(spark)
    return spark


def import_path() -> str:
    """Return a PYTHONPATH with which workers import the same `pipeline` and `vela` as this process."""
    folders = [
        str(Path(package.__file__).resolve().parents[1]) for package in (pipeline, vela) if package.__file__
    ]
    inherited = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    return os.pathsep.join(dict.fromkeys([*folders, *inherited]))
