"""Reversing Vela's migration also removes the objects of Vela that Django does not know."""

from __future__ import annotations

import psycopg

from broker.storage.queries import script

FUNCTIONS_AND_SEQUENCES = """
    SELECT proname FROM pg_proc WHERE proname LIKE 'vela\\_%'
    UNION SELECT relname FROM pg_class WHERE relname IN ('vela_delivery_id', 'vela_delivery_story_id')
    UNION SELECT nspname FROM pg_namespace WHERE nspname LIKE 'vela\\_%'
"""


def test_no_function_sequence_or_schema_stays_behind(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        assert connection.execute(FUNCTIONS_AND_SEQUENCES).fetchall()
        connection.execute(script("functions", "drop_tables").encode())
        assert connection.execute(FUNCTIONS_AND_SEQUENCES).fetchall() == []
        connection.rollback()
