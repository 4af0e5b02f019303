"""Prepared statements, and COPY, on a connection whose socket the event loop watches all the time.

For each statement, psycopg's cursor looks up the types of the values, starts and stops watching the socket, and sets a
timer. That work was a third of the broker's CPU time for a commit, and doing it once per connection is enough. psycopg
still opens the connection, speaks the protocol, and provides the error classes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import psycopg
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGresult

from broker.storage.connection import Connection, connect

__all__ = ["PreparedConnection"]

# Options of the session: plan an append once, and do not plan to read a whole table, which may grow later. By default,
# PostgreSQL plans each append again: a plan for all values looks more expensive, because PostgreSQL then assumes longer
# arrays than most appends have. Planning took more than half of PostgreSQL's CPU time for a small commit, see
# docs/decisions/0049-appends-planned-once.md.
_PLANNED_ONCE: Final = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off"

# Small appends have three statements for each segment, and most appends go into the newest segment.
MOST_PREPARED: Final = 16
_CANCEL_S: Final = 5.0
# A COPY that waits longer than this for its turn to commit is rolled back: it holds locks that others may need.
_TURN_S: Final = 5.0


class PreparedConnection:
    """Runs one statement at a time, on a connection that nothing else uses. Bound to one event loop.

    `closed` becomes true as soon as the server closes the connection, even between two statements.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._names: dict[bytes, bytes] = {}  # statement → its name in the session
        self._prepared = 0
        self._socket: int | None = None  # the file descriptor that the event loop watches
        # True while the operating system accepts no more bytes: the event loop then also waits until it accepts some.
        self._is_flushing = False
        self._is_cancelled = False
        self._results: list[PGresult] = []
        self._answered: asyncio.Future[None] | None = None

    @classmethod
    async def open(cls, conninfo: str, *, name: str) -> PreparedConnection:
        """Open a connection. pg_stat_activity shows it as "vela broker: `name`". Raises psycopg.OperationalError."""
        return cls(await connect(conninfo, name=name, options=_PLANNED_ONCE))

    @property
    def closed(self) -> bool:
        """Whether the connection is closed or lost."""
        return self._connection.closed

    async def close(self) -> None:
        """Close the connection. Safe to repeat."""
        self._unwatch()
        await self._connection.close()

    async def execute(self, statement: bytes, values: Sequence[bytes]) -> PGresult:
        """Run a statement and return its rows. `$1` is the first value; values and rows are in the binary format.

        Prepares the statement the first time. Raises psycopg.Error; `is_outcome_unknown` then says whether the
        statement may have committed. Cancelling this call asks the server to cancel the statement, whose outcome is
        then unknown, and closes the connection.
        """
        name = self._names.get(statement)
        if name is None:
            name = await self._prepare(statement)
        self._pgconn.send_query_prepared(name, values, [Format.BINARY] * len(values), Format.BINARY)
        return (await self._answer())[-1]

    async def copy(
        self,
        statements: bytes,
        streams: Callable[[PGresult], Iterator[bytes]],
        *,
        turn: asyncio.Future[bool] | None = None,
    ) -> None:
        """Run statements as one transaction: a SELECT, then COPY … FROM STDIN, once or several times.

        `streams` gets the rows of the SELECT, in the text format, and yields the bytes of one COPY after the other. The
        transaction commits only after the result of `turn` is true. If nobody sets it within 5 s of the last bytes,
        this sets it to false. If it is false, nothing is stored and this raises psycopg.errors.QueryCanceled. Other
        errors and cancellation are those of `execute`. Nothing is stored if a COPY or `streams` fails.
        """
        self._pgconn.send_query(statements)
        answer = await self._answer()
        data = streams(answer[0])
        try:
            rows = next(data)
            while answer[-1].status == ExecStatus.COPY_IN:
                self._pgconn.put_copy_data(rows)
                rows = next(data, b"")
                may_end = rows or turn is None or await self._is_turn(turn)
                self._pgconn.put_copy_end(None if may_end else b"the turn of this transaction did not come")
                answer = await self._answer()
        except BaseException:
            if self._pgconn.transaction_status == TransactionStatus.ACTIVE:
                await self.close()  # the server waits for rows; this makes it roll the transaction back
            raise

    async def _prepare(self, statement: bytes) -> bytes:
        if len(self._names) >= MOST_PREPARED:
            oldest = next(iter(self._names))
            self._pgconn.send_query(b"DEALLOCATE " + self._names.pop(oldest))
            await self._answer()
        self._prepared += 1
        name = b"vela_%d" % self._prepared
        self._pgconn.send_prepare(name, statement)
        await self._answer()
        self._names[statement] = name
        return name

    async def _answer(self) -> list[PGresult]:
        """Wait until the server has answered, or waits for the rows of a COPY. Raises psycopg.Error."""
        answered = self._sent()
        try:
            await answered
        except asyncio.CancelledError:
            await self._cancel()
            raise
        return self._without_error()

    def _without_error(self) -> list[PGresult]:
        for result in self._results:
            if result.status == ExecStatus.FATAL_ERROR:
                raise error_from_result(result, encoding=self._connection.info.encoding)
        return self._results

    async def _is_turn(self, turn: asyncio.Future[bool]) -> bool:
        """Send the rows of a COPY, and return whether `turn` becomes true in time; otherwise set it to false.

        Raises psycopg.Error if the server ends the COPY meanwhile.
        """
        answered = self._sent()
        await asyncio.wait((turn, answered), timeout=_TURN_S, return_when=asyncio.FIRST_COMPLETED)
        if answered.done():
            answered.result()
            self._without_error()
        if not turn.done():
            turn.set_result(False)
        return turn.result()

    def _sent(self) -> asyncio.Future[None]:
        """Send the queued bytes, and return the future that is done when the server has answered."""
        loop = asyncio.get_running_loop()
        self._results = []
        self._answered = loop.create_future()
        if self._socket is None:
            self._socket = self._pgconn.socket
            loop.add_reader(self._socket, self._on_readable)
        self._on_writable()
        return self._answered

    def _on_readable(self) -> None:
        try:
            self._pgconn.consume_input()
            if self._is_flushing:
                self._flush()
            while not self._pgconn.is_busy():
                result = self._pgconn.get_result()
                if result is None:
                    self._settle(None)
                    return
                if result.status == ExecStatus.COPY_IN and self._is_cancelled:
                    self._pgconn.put_copy_end(b"cancelled")
                    self._flush()
                    continue
                self._results.append(result)
                if result.status == ExecStatus.COPY_IN:
                    self._settle(None)
                    return
        except psycopg.Error as error:
            self._lost(error)

    def _on_writable(self) -> None:
        try:
            self._flush()
        except psycopg.Error as error:
            self._lost(error)

    def _flush(self) -> None:
        """Send as much as the operating system accepts now."""
        is_full = bool(self._pgconn.flush())
        if is_full == self._is_flushing or self._socket is None:
            return
        self._is_flushing = is_full
        loop = asyncio.get_running_loop()
        if is_full:
            loop.add_writer(self._socket, self._on_writable)
        else:
            loop.remove_writer(self._socket)

    def _lost(self, error: psycopg.Error) -> None:
        self._unwatch()
        self._pgconn.finish()
        # A server that ends a session sends the reason before it closes the connection.
        has_reason = any(result.status == ExecStatus.FATAL_ERROR for result in self._results)
        self._settle(None if has_reason else error)

    def _settle(self, error: psycopg.Error | None) -> None:
        answered = self._answered
        if answered is None or answered.done():
            return
        if error is None:
            answered.set_result(None)
        else:
            answered.set_exception(error)

    def _unwatch(self) -> None:
        if self._socket is None:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket)
        loop.remove_writer(self._socket)
        self._socket, self._is_flushing = None, False

    async def _cancel(self) -> None:
        """Ask the server to cancel the statement, wait at most 5 s for its answer, and close the connection."""
        self._is_cancelled = True
        try:
            if self._pgconn.transaction_status == TransactionStatus.ACTIVE:
                self._answered = asyncio.get_running_loop().create_future()
                async with asyncio.timeout(_CANCEL_S):
                    await self._connection.cancel_safe(timeout=_CANCEL_S)
                    await self._answered
        except (psycopg.Error, TimeoutError):
            pass  # the server is away, or does not end the statement
        finally:
            await self.close()
