"""A Spark session with `vela` registered: on this machine, or on the cluster that VELA_SPARK_MASTER names."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

import pipeline
import vela
from pipeline.java import require_java

__all__ = ["names_in_spark_defaults", "spark_session"]

_SHUFFLE_PARTITIONS_PER_CORE: Final = 4
_PROPERTY: Final = re.compile(r"^[ \t]*([^#!\s=:][^\s=:]*)", re.MULTILINE)


def spark_session(
    app_name: str, *, master: str | None = None, cores: int = 2, memory: str = "1g"
) -> SparkSession:
    """Start a session with `vela` registered.

    `master` is the cluster's address, such as spark://host:7077; "" is this machine, and None is VELA_SPARK_MASTER.
    `cores` is the number of tasks that run at the same time, `memory` is the heap of the driver and of each executor.
    Properties in spark-defaults.conf in SPARK_CONF_DIR override the heap and, on a cluster, `cores`.

    On this machine, workers use this interpreter and these packages. Executors of a cluster get this process's
    `pipeline` and `vela`, and must have the other packages. They must also have the interpreter that PYSPARK_PYTHON
    names or, if that is not set, an interpreter at the same path as this process's. Sets PYSPARK_PYTHON in this
    process's environment, because Spark looks only there.
    Raises JavaMissing before it starts anything. Stop the session with `.stop()`.
    """
    require_java()
    master = os.environ.get("VELA_SPARK_MASTER", "") if master is None else master
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": f'"-Djava.io.tmpdir={tempfile.gettempdir()}"',
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Spark's default of 200 is for a large cluster: each task of a shuffle would write 200 small files.
        "spark.sql.shuffle.partitions": str(_SHUFFLE_PARTITIONS_PER_CORE * cores),
        "spark.sql.session.timeZone": "UTC",
        # Spark's default is INT96, which is deprecated in Parquet.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }
    if master:
        settings |= {"spark.executor.memory": memory, "spark.cores.max": str(cores)}
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    else:
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executorEnv.PYTHONPATH": _import_path(),
        }
        os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master or f"local[{cores}]").appName(app_name)
    for name in settings.keys() - names_in_spark_defaults():
        builder = builder.config(name, settings[name])
    spark = builder.getOrCreate()
    pipeline.register(spark)
    return spark


def names_in_spark_defaults() -> set[str]:
    """Return the names of the properties in spark-defaults.conf. A session that sets one of them would override it."""
    folder = os.environ.get("SPARK_CONF_DIR")
    file = Path(folder, "spark-defaults.conf") if folder else None
    return set(_PROPERTY.findall(file.read_text("utf-8"))) if file is not None and file.is_file() else set()


def _import_path() -> str:
    """Return a PYTHONPATH with which workers import the same `pipeline` and `vela` as this process."""
    folders = [
        str(Path(package.__file__).resolve().parents[1]) for package in (pipeline, vela) if package.__file__
    ]
    inherited = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    return os.pathsep.join(dict.fromkeys([*folders, *inherited]))
