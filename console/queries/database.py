"""Run the named queries of `sql/` on the read-only connection."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from django.db import ProgrammingError, connections
from psycopg import sql
from psycopg.errors import UndefinedTable

from console.queries.stores import FileStore, Store, rows_in_file
from pipeline.errors import LedgerFileMissing

__all__ = [
    "READ_ALIAS",
    "containing",
    "fetch",
    "fetch_entries",
    "fetch_one",
    "fetch_text",
    "parameters_of",
    "statement",
]

READ_ALIAS = "read"

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)

_JSONB_OID = 3802

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    segment_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ledger:
    ledger_id: int


@cache
def _queries(file: str) -> dict[str, str]:
    text = files("console.queries").joinpath("sql", f"{file}.sql").read_text("utf-8")
    parts = _NAME.split(text)
    return {
        name: "\n".join(line for line in body.splitlines() if not line.lstrip().startswith("--")).strip()
        for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def statement(file: str, name: str) -> str:
    """Return the text of a named query."""
    return _queries(file)[name]


def parameters_of(alias: str) -> dict[str, Any]:
    """Return psycopg's parameters for the Django connection `alias`."""
    parameters = connections[alias].get_connection_params()
    return {name: value for name, value in parameters.items() if name not in ("context", "cursor_factory")}


def fetch(row_type: type[T], file: str, name: str, parameters: Mapping[str, Any]) -> list[T]:
    """Run a named query whose columns are the fields of `row_type`.

    Raises django.db.OperationalError if the query exceeds the connection's statement timeout.
    """
    return _run(row_type, _queries(file)[name], parameters)


def fetch_text(row_type: type[T], text: str, parameters: Mapping[str, Any]) -> list[T]:
    """Run the query `text`, whose columns are the fields of `row_type`."""
    return _run(row_type, text, parameters)


def fetch_entries(
    row_type: type[T], name: str, stores: Collection[Store], parameters: Mapping[str, Any]
) -> list[T]:
    """Run a query of log.sql on segments and on files of offloaded ledgers. A segment is a pair of tables of entries.

    Leaves out dropped segments, and files that retention has deleted. Raises
    pipeline.errors.OffloadUnavailable if a file cannot be read or was lost.
    """
    segments = sorted(each for each in stores if isinstance(each, int))
    files = [each for each in stores if isinstance(each, FileStore)]
    rows = _in_segments(row_type, name, segments, parameters) if segments else []
    return rows + [row_type(**row) for each in files for row in _in_file(name, each, parameters)]


def _in_file(name: str, store: FileStore, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    try:
        return rows_in_file(name, store, parameters)
    except LedgerFileMissing:
        if fetch(_Ledger, "log", "of_file", {"file_name": store.name}):
            # A ledger still names the file, so retention did not delete the file.
            raise
        return []


def _in_segments(
    row_type: type[T], name: str, segments: Sequence[int], parameters: Mapping[str, Any]
) -> list[T]:
    template = sql.SQL(_queries("log")[name])
    parts = [
        template.format(
            entries=sql.Identifier(f"vela_entry_{segment}"),
            rest=sql.Identifier(f"vela_entry_{segment}_rest"),
            segment=sql.Literal(segment),
        )
        for segment in segments
    ]
    try:
        return _run(row_type, sql.SQL(" UNION ALL ").join(parts).as_string(None), parameters)
    except ProgrammingError as error:
        if not isinstance(error.__cause__, UndefinedTable):
            raise
        left = [row.segment_id for row in fetch(_Table, "log", "tables", {"segments": list(segments)})]
        if len(left) == len(segments):
            raise  # Every table exists, so the next attempt would fail too
    return _in_segments(row_type, name, left, parameters) if left else []


def _run(row_type: type[T], statement: str, parameters: Mapping[str, Any]) -> list[T]:
    with connections[READ_ALIAS].cursor() as cursor:
        cursor.execute(statement, parameters)
        description = cursor.description or ()
        names = [column[0] for column in description]
        # Django makes psycopg return JSON columns as text.
        documents = [number for number, column in enumerate(description) if column[1] == _JSONB_OID]
        return [row_type(**dict(zip(names, _read(row, documents), strict=True))) for row in cursor.fetchall()]


def _read(row: Sequence[object], documents: Sequence[int]) -> Sequence[object]:
    if not documents:
        return row
    values = list(row)
    for number in documents:
        text = values[number]
        values[number] = json.loads(text) if isinstance(text, str) else text
    return values


def fetch_one(row_type: type[T], file: str, name: str, parameters: Mapping[str, Any]) -> T | None:
    """Return the first row of a named query, or None."""
    rows = fetch(row_type, file, name, parameters)
    return rows[0] if rows else None


def containing(text: str) -> str:
    """Return the LIKE pattern for values that contain `text`, or "" if `text` is empty."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%" if text else ""
