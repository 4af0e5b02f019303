"""A role named by VELA_READ_ROLE may read what pages and jobs read, and write nothing."""

from __future__ import annotations

import psycopg
from psycopg import sql


def test_the_read_role_sees_every_segment_and_changes_none(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS vela_reader_under_test")
        connection.execute("CREATE ROLE vela_reader_under_test")
        try:
            with connection.transaction():
                connection.execute("SET LOCAL vela.read_role = 'vela_reader_under_test'")
                (segment,) = connection.execute("SELECT vela_open_segment_v1(0)").fetchone() or (0,)
                connection.execute("SELECT vela_refresh_entry_views_v1()")
            for table in (f"vela_entry_{segment}", "vela_entry", "vela_cursor", "vela_read_v1.entries"):
                for right, expected in (("SELECT", True), ("INSERT", False), ("DELETE", False)):
                    found = connection.execute(
                        "SELECT has_table_privilege('vela_reader_under_test', %s, %s)", (table, right)
                    ).fetchone()
                    assert found == (expected,), f"{right} on {table}"
        finally:
            connection.execute("DROP OWNED BY vela_reader_under_test")
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier("vela_reader_under_test")))
