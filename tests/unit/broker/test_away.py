"""Which errors of psycopg mean that the broker must wait for the database, and which it passes on to the client."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from broker.storage.away import is_away


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError("the connection is lost"),
        psycopg.InterfaceError("the connection is closed"),
        errors.ConnectionFailure(),
        errors.DeadlockDetected(),
        errors.DiskFull(),
        errors.OutOfMemory(),
        errors.TooManyConnections(),
        errors.LockNotAvailable(),
        errors.AdminShutdown(),
        errors.CannotConnectNow(),
        errors.IoError(),
    ],
)
def test_an_error_of_an_unavailable_database_is_waited_for(error: psycopg.Error) -> None:
    assert is_away(error)


@pytest.mark.parametrize(
    "error",
    [
        errors.ProgramLimitExceeded(),
        errors.StatementTooComplex(),
        errors.ObjectNotInPrerequisiteState(),
        errors.QueryCanceled(),
        errors.StringDataRightTruncation(),
        errors.UniqueViolation(),
        errors.UndefinedTable(),
        psycopg.DataError("text cannot contain NUL"),
        ValueError("not of the database"),
    ],
)
def test_an_error_of_the_statement_is_answered(error: Exception) -> None:
    assert not is_away(error)
