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
def test_the_database_is_away_after_an_error_that_says_it_is_unavailable(error: psycopg.Error) -> None:
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
def test_the_database_is_not_away_after_an_error_of_the_statement(error: Exception) -> None:
    assert not is_away(error)
