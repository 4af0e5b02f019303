"""A prepared connection answers, fails and is cancelled as psycopg's own connections are."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors

from broker.storage.connection import connect, is_outcome_unknown
from broker.storage.log.packed_arrays import bigints, byteas
from broker.storage.prepared_connection import MOST_PREPARED, PreparedConnection
from tests.support.postgres_proxy import Moment, PostgresProxy
from tests.support.waiting import until

NAME = "prepared"
ONE = b"SELECT 1::bigint"
SLEEP = b"SELECT 1::bigint FROM pg_sleep(60)"
SESSION = f"FROM pg_stat_activity WHERE application_name = 'vela broker: {NAME}'"
IS_ASLEEP = f"SELECT 1 {SESSION} AND state = 'active' AND wait_event = 'PgSleep'"
END = f"SELECT pg_terminate_backend(pid) {SESSION}"


@pytest.fixture
async def connection(migrated_url: str) -> AsyncIterator[PreparedConnection]:
    connection = PreparedConnection(await connect(migrated_url, name=NAME))
    yield connection
    await connection.close()


@pytest.fixture
def operator(migrated_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(migrated_url, autocommit=True) as operator:
        yield operator


async def numbers(connection: PreparedConnection, statement: bytes, *values: bytes) -> list[int]:
    result = await asyncio.wait_for(connection.execute(statement, values), 10)
    return [int.from_bytes(result.get_value(row, 0) or b"") for row in range(result.ntuples)]


async def asleep(
    connection: PreparedConnection, operator: psycopg.Connection[Any]
) -> asyncio.Task[list[int]]:
    """Run a statement that sleeps, and wait until the server executes it."""
    task = asyncio.create_task(numbers(connection, SLEEP))
    await until(lambda: operator.execute(IS_ASLEEP).fetchone(), "the statement to sleep")
    return task


async def test_rows_come_in_order_and_a_statement_is_prepared_once(connection: PreparedConnection) -> None:
    statement = b"SELECT * FROM unnest($1::bigint[])"
    for values in ([3, 1, 2], [], list(range(5000))):
        assert await numbers(connection, statement, bigints(values)) == values
    mine_and_this_one = [2]
    assert await numbers(connection, b"SELECT count(*) FROM pg_prepared_statements") == mine_and_this_one


async def test_the_oldest_prepared_statements_are_given_up(connection: PreparedConnection) -> None:
    for number in range(2 * MOST_PREPARED):
        assert await numbers(connection, b"SELECT %d::bigint" % number) == [number]
    assert await numbers(connection, b"SELECT 0::bigint") == [0]
    assert await numbers(connection, b"SELECT count(*) FROM pg_prepared_statements") == [MOST_PREPARED]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        pytest.param(b"SELECT 1 FROM no_such_table", errors.UndefinedTable, id="while it is prepared"),
        pytest.param(
            b"SELECT 1 / (count(*) - count(*)) FROM pg_class", errors.DivisionByZero, id="while it runs"
        ),
        pytest.param(
            b"SELECT 1 / (g - 9000) FROM generate_series(1, 9000) g", errors.DivisionByZero, id="after rows"
        ),
    ],
)
async def test_an_error_has_psycopgs_class_and_the_next_statement_runs(
    connection: PreparedConnection, statement: bytes, error: type[psycopg.Error]
) -> None:
    for _ in range(2):
        with pytest.raises(error) as raised:
            await numbers(connection, statement)
        assert not is_outcome_unknown(raised.value, is_closed=connection.closed)
    assert await numbers(connection, ONE) == [1]


async def test_a_statement_larger_than_the_buffers_of_the_system_is_sent(migrated_url: str) -> None:
    plain = await connect(migrated_url, name=NAME)
    with socket.socket(fileno=socket.dup(plain.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * 1024)
    connection = PreparedConnection(plain)
    values = [bytes(1 << 20)] * 3
    statement = b"SELECT sum(length(v)) FROM unnest($1::bytea[]) v"
    for _ in range(2):
        assert await numbers(connection, statement, byteas(values)) == [3 << 20]
    await connection.close()


async def test_a_session_that_ends_between_statements_is_noticed(
    connection: PreparedConnection, operator: psycopg.Connection[Any]
) -> None:
    assert await numbers(connection, ONE) == [1]
    operator.execute(END)
    await until(lambda: connection.closed, "the connection to be closed")
    with pytest.raises(psycopg.OperationalError):
        await numbers(connection, ONE)


async def test_a_session_that_ends_while_a_statement_runs_says_why(
    connection: PreparedConnection, operator: psycopg.Connection[Any]
) -> None:
    task = await asleep(connection, operator)
    operator.execute(END)
    with pytest.raises(errors.AdminShutdown) as raised:
        await task
    assert is_outcome_unknown(raised.value, is_closed=connection.closed)
    await until(lambda: connection.closed, "the connection to be closed")


@pytest.mark.parametrize("moment", [Moment.LOSE_REQUEST, Moment.LOSE_ANSWER])
async def test_a_connection_that_is_lost_fails_its_statement(migrated_url: str, moment: Moment) -> None:
    proxy = PostgresProxy(migrated_url)
    await proxy.start()
    connection = PreparedConnection(await connect(proxy.url, name=NAME))
    assert await numbers(connection, ONE) == [1]
    proxy.trap("SELECT 1", moment)
    with pytest.raises(psycopg.OperationalError) as raised:
        await numbers(connection, ONE)
    assert connection.closed
    assert is_outcome_unknown(raised.value, is_closed=connection.closed)
    await connection.close()
    await proxy.stop()


async def test_a_cancelled_statement_ends_in_the_server_too(
    connection: PreparedConnection, operator: psycopg.Connection[Any]
) -> None:
    task = await asleep(connection, operator)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 10)
    assert connection.closed
    assert operator.execute(IS_ASLEEP).fetchone() is None
