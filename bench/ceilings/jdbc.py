"""Let Spark's own JDBC source read as many messages as Vela's data source does, from a table with a row for each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import DataFrame, SparkSession

__all__ = ["JAR", "jdbc_frame", "store_rows"]

JAR: Final = Path(os.environ.get("BENCH_JDBC_JAR", "/usr/share/java/postgresql.jar"))
"""PostgreSQL's driver for Java: Debian's libpostgresql-jdbc-java."""

_FETCH_ROWS: Final = 10_000


def store_rows(database_url: str, *, messages: int, batch_messages: int, payload_bytes: int) -> None:
    """Make the table `bench_message` and fill it.

    It has the columns of Vela's data source, except for the version of the schema.
    """
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS bench_message")
        connection.execute(
            "CREATE TABLE bench_message (value bytea, key bytea, topic text, message_id bytea,"
            " publish_time timestamptz, event_time timestamptz, properties text, partition int,"
            " ledger_id bigint, entry_id bigint,"
            " batch_index int, producer_name text, sequence_id bigint, append_time timestamptz)"
        )
        connection.execute("ALTER TABLE bench_message ALTER value SET STORAGE EXTERNAL")
        connection.execute(
            "INSERT INTO bench_message SELECT %(value)s, NULL, 'persistent://public/default/spark', %(id)s, now(),"
            " NULL, NULL, -1, 1, n / %(batch)s, n %% %(batch)s, 'bench', n, now() FROM generate_series(0, %(last)s) n",
            {
                "value": os.urandom(payload_bytes),
                "id": os.urandom(8),
                "batch": batch_messages,
                "last": messages - 1,
            },
        )
        connection.execute("CREATE INDEX ON bench_message (entry_id)")
        connection.execute("VACUUM ANALYZE bench_message")


def jdbc_frame(spark: SparkSession, database_url: str, *, entries: int, tasks: int) -> DataFrame:
    """Return the table as a DataFrame that is read in this many tasks, each over a connection with a cursor."""
    database = conninfo_to_dict(database_url)
    return (
        spark.read.format("jdbc")
        .options(
            url=f"jdbc:postgresql://{database['host']}:{database['port']}/{database['dbname']}",
            driver="org.postgresql.Driver",
            user=str(database["user"]),
            password=str(database["password"]),
            dbtable="bench_message",
            partitionColumn="entry_id",
            lowerBound="0",
            upperBound=str(entries),
            numPartitions=str(tasks),
            fetchsize=str(_FETCH_ROWS),
        )
        .load()
    )
