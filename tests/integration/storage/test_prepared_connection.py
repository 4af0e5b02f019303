"""A prepared connection answers, fails and is cancelled as psycopg's own connections are."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import psycopg
import pytest
from psycopg import errors
from psycopg.pq.abc import PGresult

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

TABLE = "vela_test_numbers"
COPY = "; ".join(["SELECT 7::bigint FROM pg_sleep(0)", *[f"COPY {TABLE} FROM STDIN (FORMAT binary)"] * 2])
STUCK = COPY.replace("pg_sleep(0)", "pg_sleep(60)")


@pytest.fixture
async def connection(migrated_url: str) -> AsyncIterator[PreparedConnection]:
    connection = await PreparedConnection.open(migrated_url, name=NAME)
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
    connection = await PreparedConnection.open(proxy.url, name=NAME)
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


def binary(numbers: Sequence[int]) -> bytes:
    """Return the numbers as rows of one bigint, in the binary format of COPY."""
    rows = b"".join(struct.pack("!hiq", 1, 8, number) for number in numbers)
    return b"PGCOPY\n\xff\r\n\0" + bytes(8) + rows + b"\xff\xff"


def two_streams(locked: PGresult) -> Iterator[bytes]:
    """Yield the rows for each COPY statement: first the two neighbours of the selected number, then many numbers."""
    number = int(locked.get_value(0, 0) or b"")
    yield binary([number - 1, number + 1])
    yield binary(range(100, 100_000))


@pytest.fixture
def numbers_table(operator: psycopg.Connection[Any]) -> Iterator[None]:
    operator.execute(f"CREATE TABLE {TABLE} (number bigint CHECK (number <> 99))")
    yield
    operator.execute(f"DROP TABLE {TABLE}")


def count(operator: psycopg.Connection[Any]) -> int:
    return int((operator.execute(f"SELECT count(*) FROM {TABLE}").fetchone() or (0,))[0])


@pytest.mark.usefixtures("numbers_table")
async def test_copies_store_the_rows_that_were_made_of_the_first_answer(
    connection: PreparedConnection, operator: psycopg.Connection[Any]
) -> None:
    for _ in range(2):
        await connection.copy(COPY.encode(), two_streams)
    assert count(operator) == 2 * (2 + 99_900)
    assert operator.execute(
        f"SELECT DISTINCT number FROM {TABLE} WHERE number < 99 ORDER BY 1"
    ).fetchall() == [
        (6,),
        (8,),
    ]
    assert await numbers(connection, ONE) == [1]


@pytest.mark.usefixtures("numbers_table")
async def test_a_refused_row_of_a_later_copy_undoes_the_earlier_one(
    connection: PreparedConnection, operator: psycopg.Connection[Any]
) -> None:
    def with_a_refused_one(_: PGresult) -> Iterator[bytes]:
        yield binary([1, 2])
        yield binary([*range(100, 50_000), 99, *range(50_000, 300_000)])

    for _ in range(2):
        with pytest.raises(errors.CheckViolation) as raised:
            await connection.copy(COPY.encode(), with_a_refused_one)
        assert not is_outcome_unknown(raised.value, is_closed=connection.closed)
    assert count(operator) == 0
    assert await numbers(connection, ONE) == [1]


@pytest.mark.usefixtures("numbers_table")
async def test_rows_that_cannot_be_made_leave_nothing_stored(
    connection: PreparedConnection, operator: psycopg.Connection[Any]
) -> None:
    def fails(_: PGresult) -> Iterator[bytes]:
        yield binary([1])
        raise ValueError("no more rows")

    with pytest.raises(ValueError, match="no more rows"):
        await connection.copy(COPY.encode(), fails)
    assert connection.closed
    assert count(operator) == 0


@pytest.mark.usefixtures("numbers_table")
@pytest.mark.parametrize("moment", [Moment.LOSE_REQUEST, Moment.LOSE_ROWS, Moment.LOSE_ANSWER])
async def test_a_connection_that_is_lost_fails_its_copy(
    migrated_url: str, operator: psycopg.Connection[Any], moment: Moment
) -> None:
    proxy = PostgresProxy(migrated_url)
    await proxy.start()
    connection = await PreparedConnection.open(proxy.url, name=NAME)
    trap = proxy.trap(f"COPY {TABLE}", moment)
    with pytest.raises(psycopg.OperationalError) as raised:
        await connection.copy(COPY.encode(), two_streams)
    assert trap.caught.is_set()
    assert connection.closed
    assert is_outcome_unknown(raised.value, is_closed=connection.closed)
    await until(lambda: operator.execute(f"SELECT 1 {SESSION}").fetchone() is None, "the session to end")
    assert (count(operator) > 0) == (moment is Moment.LOSE_ANSWER)
    await connection.close()
    await proxy.stop()


@pytest.mark.usefixtures("numbers_table")
async def test_a_session_that_ends_before_it_asks_for_rows_says_why(
    connection: PreparedConnection, operator: psycopg.Connection[Any]
) -> None:
    task = asyncio.create_task(connection.copy(STUCK.encode(), two_streams))
    await until(lambda: operator.execute(IS_ASLEEP).fetchone(), "the statement to sleep")
    operator.execute(END)
    with pytest.raises(errors.AdminShutdown) as raised:
        await task
    assert is_outcome_unknown(raised.value, is_closed=connection.closed)
    assert count(operator) == 0


@pytest.mark.usefixtures("numbers_table")
async def test_a_copy_cancelled_before_it_sends_rows_ends_in_the_server_too(
    connection: PreparedConnection, operator: psycopg.Connection[Any]
) -> None:
    task = asyncio.create_task(connection.copy(STUCK.encode(), two_streams))
    await until(lambda: operator.execute(IS_ASLEEP).fetchone(), "the statement to sleep")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 10)
    assert connection.closed
    assert operator.execute(IS_ASLEEP).fetchone() is None
    assert count(operator) == 0


@pytest.mark.usefixtures("numbers_table")
async def test_a_copy_cancelled_among_its_rows_ends_in_the_server_too(
    connection: PreparedConnection, operator: psycopg.Connection[Any]
) -> None:
    is_waiting = f"SELECT 1 {SESSION} AND wait_event_type = 'Lock'"
    with operator.transaction():
        operator.execute(f"LOCK TABLE {TABLE}")  # COPY asks for rows only when it has locked the table
        task = asyncio.create_task(connection.copy(COPY.encode(), two_streams))
        with psycopg.connect(operator.info.dsn, password=operator.info.password, autocommit=True) as other:
            await until(lambda: other.execute(is_waiting).fetchone(), "the COPY to wait for the table")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(task, 10)
            assert connection.closed
            await until(lambda: other.execute(is_waiting).fetchone() is None, "the session to end")
    assert count(operator) == 0
