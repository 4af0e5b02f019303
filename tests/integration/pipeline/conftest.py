"""One database and one Spark session for the whole folder: Spark needs seconds to start, and half a gigabyte."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from config.run.postgres.server import PostgresServer
from pipeline.session import spark_session
from tests.integration.pipeline.running import Broker
from tests.support.postgres import fresh_database
from tests.support.vela import started_vela


@pytest.fixture(scope="session")
def log_url(postgres: PostgresServer, migrated: str) -> Iterator[str]:
    """A migrated database that the tests of this folder share. Each test must use its own topics."""
    with fresh_database(postgres.url, "test_pipeline", template=migrated) as url:
        yield url


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A real Spark, local[2]."""
    # py4j logs that it ends, but by then pytest has closed the log's stream.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    session = spark_session("vela tests", cores=2, memory="768m")
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture(scope="session")
def broker(spark: SparkSession, vela_data: Path) -> Iterator[Broker]:
    """A Vela for the whole folder. All topics deduplicate except those of public/plain."""
    with started_vela(data=vela_data) as process:
        broker = Broker(spark, process)
        for namespace in ("public/default", "public/parts"):
            broker.topic(f"{namespace}/first")
            process.manage("setpolicy", namespace, "deduplication=true", "--yes")
        process.manage("setpolicy", "public/parts", "auto_create_partitions=3", "--yes")
        try:
            yield broker
        finally:
            broker.client.close()
