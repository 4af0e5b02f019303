"""The pipeline's connections: autocommit, with a time limit for every statement, and read-only except for results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow

from pipeline.errors import DatabaseUnavailable, InvalidOption

__all__ = ["Connection", "DatabaseOptions", "reading", "storing"]

Connection = psycopg.Connection[TupleRow]

_CONNECT: Final = {
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "application_name": "vela pipeline",
}
# How libpq names a parameter that it does not know, in a URL and in a string of keywords and values.
_UNKNOWN: Final = re.compile(r'invalid (?:URI query parameter:|connection option) "(?P<name>[^"]*)"')


class DatabaseOptions(Protocol):
    """The address of the database, and the time limit for each statement."""

    @property
    def url(self) -> str: ...

    @property
    def statement_timeout_ms(self) -> int: ...


@contextmanager
def reading(options: DatabaseOptions, what: str) -> Iterator[Connection]:
    """Open a read-only connection for the block. Errors begin with `what`, which describes the block's work.

    The connection is in autocommit mode: an open transaction's snapshot would prevent vacuum from removing dead rows in
    the whole database. Raises InvalidOption for a URL that cannot be read, and DatabaseUnavailable if the database
    cannot be used, even if only a statement in the block shows that.
    """
    with _connected(options, what, "on") as connection:
        yield connection


@contextmanager
def storing(options: DatabaseOptions, what: str) -> Iterator[Connection]:
    """Open a connection that may write, for the block. Raises the errors of `reading`."""
    with _connected(options, what, "off") as connection:
        yield connection


@contextmanager
def _connected(options: DatabaseOptions, what: str, read_only: str) -> Iterator[Connection]:
    try:
        with psycopg.connect(_conninfo(options, read_only), autocommit=True) as connection:
            yield connection
    except errors.QueryCanceled:
        raise DatabaseUnavailable(
            f"{what}: the database took longer than statementTimeoutMs = {options.statement_timeout_ms}:"
            " raise the option, or find out what the statement waits for"
        ) from None
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        raise DatabaseUnavailable(
            f"{what}: the database has no views vela_read_v1: set option url to Vela's database, and migrate it"
        ) from None
    except errors.InsufficientPrivilege as error:
        raise DatabaseUnavailable(
            f"{what}: {_line(error)}: let the user in option url read schema vela_read_v1 (VELA_READ_ROLE)"
            if read_only == "on"
            else f"{what}: {_line(error)}: let the user in option url write to it, or use the broker's user"
        ) from None
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(f"{what}: cannot use the database in option url: {_line(error)}") from None


def _conninfo(options: DatabaseOptions, read_only: str) -> str:
    try:
        given = str(conninfo_to_dict(options.url).get("options") or "")
    except psycopg.ProgrammingError as error:
        if unknown := _UNKNOWN.match(str(error)):
            raise InvalidOption(
                f"option url has the parameter {unknown['name']!r}, which PostgreSQL does not know: remove or"
                " correct it"
            ) from None
        # libpq's other messages quote the URL, and with it the password.
        raise InvalidOption(
            "option url is not a PostgreSQL URL of the form postgresql://user@host:5432/database"
        ) from None
    limit = f"-c statement_timeout={options.statement_timeout_ms}"
    settings = f"{given} -c default_transaction_read_only={read_only} {limit}"
    return psycopg.conninfo.make_conninfo(options.url, options=settings.strip(), **_CONNECT)


def _line(error: psycopg.Error) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
