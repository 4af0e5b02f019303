"""One database and one Spark for the whole folder: a Spark takes seconds to start and half a gigabyte."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from config.run.postgres.server import PostgresServer
from pipeline.session import local_session
from tests.support.postgres import fresh_database


@pytest.fixture(scope="session")
def log_url(postgres: PostgresServer, migrated: str) -> Iterator[str]:
    """A migrated database that the tests of this folder share, each with topics of its own."""
    with fresh_database(postgres.url, "test_pipeline", template=migrated) as url:
        yield url


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A real Spark, local[2]."""
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it logs its end after pytest has closed the stream
    session = local_session("vela tests", cores=2, memory="768m")
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()
