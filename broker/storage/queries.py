"""Named queries from the files in `sql/`. A query begins with a line `-- name: x`.

A segment is a pair of tables with entries of many topics.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib.resources import files

from psycopg import sql

__all__ = ["entry_table", "for_segment", "query", "rest_table", "script"]

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def _load(table: str) -> dict[str, str]:
    text = files("broker.storage").joinpath("sql", f"{table}.sql").read_text("utf-8")
    parts = _NAME.split(text)
    return {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


@cache
def query(table: str, name: str) -> bytes:
    """Return a query without comment lines. Raises KeyError if the file has no query of that name."""
    lines = [line for line in _load(table)[name].splitlines() if not line.lstrip().startswith("--")]
    return "\n".join(lines).strip().encode()


def script(table: str, name: str) -> str:
    """Return a named script with its comments, for a migration. Raises KeyError if there is no such script."""
    return _load(table)[name]


def entry_table(segment_id: int) -> sql.Identifier:
    """Return the name of a segment's table of entries."""
    return sql.Identifier(f"vela_entry_{segment_id}")


def rest_table(segment_id: int) -> sql.Identifier:
    """Return the name of a segment's table for the bytes that do not fit into an entry's row."""
    return sql.Identifier(f"vela_entry_{segment_id}_rest")


@lru_cache(maxsize=1024)
def for_segment(name: str, segment_id: int) -> bytes:
    """Return a query from entries.sql for the tables of one segment."""
    template = sql.SQL(query("entries", name).decode())
    return template.format(entries=entry_table(segment_id), rest=rest_table(segment_id)).as_bytes(None)
