"""Prepared statements and COPY on a connection whose socket the event loop watches.

`PreparedConnection` does not use psycopg's cursor, because that cursor took a third of the CPU time that the broker
spends on a commit.
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

# PostgreSQL plans an append just once, so the plan must suit a table that grows. See
# docs/decisions/0049-appends-planned-once.md.
_PLANNED_ONCE: Final = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off"

MOST_PREPARED: Final = 16
_CANCEL_S: Final = 5.0
# A COPY holds locks, so it is rolled back if its turn to commit does not come within this time.
_TURN_S: Final = 5.0


class PreparedConnection:
    """A connection that runs one statement at a time and is bound to one event loop."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._names: dict[bytes, bytes] = {}  # Name of each prepared statement
        self._prepared = 0
        self._socket: int | None = None
        self._is_flushing = False
        self._is_cancelled = False
        self._results: list[PGresult] = []
        self._answered: asyncio.Future[None] | None = None

    @classmethod
    async def open(cls, conninfo: str, *, name: str) -> PreparedConnection:
        """Open a connection. pg_stat_activity shows `name`. Raises psycopg.OperationalError."""
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
        """Run a statement and return its rows. Values and rows are in the binary format.

        Raises psycopg.Error. The function `is_outcome_unknown` tells whether the failed statement may have committed.
        Cancelling this call cancels the statement and closes the connection. The statement may already have committed.
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
        """Run a SELECT, then one or more COPY FROM STDIN statements, as one transaction.

        `streams` gets the rows of the SELECT, in the text format, and yields the bytes of each COPY. Nothing is stored
        if `streams` or a COPY fails. Errors and cancellation work as in `execute`.

        If `turn` is given, the transaction commits only after `turn` is set to true. If `turn` is not set within 5 s,
        this call sets `turn` to false. If `turn` is false, nothing is stored and this call raises
        psycopg.errors.QueryCanceled.
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
                # The server waits for rows. Closing the connection rolls the transaction back.
                await self.close()
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
        answered = self._sent()
        await asyncio.wait((turn, answered), timeout=_TURN_S, return_when=asyncio.FIRST_COMPLETED)
        if answered.done():
            # The server ended the COPY early.
            answered.result()
            self._without_error()
        if not turn.done():
            turn.set_result(False)
        return turn.result()

    def _sent(self) -> asyncio.Future[None]:
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
        self._is_cancelled = True
        try:
            if self._pgconn.transaction_status == TransactionStatus.ACTIVE:
                self._answered = asyncio.get_running_loop().create_future()
                async with asyncio.timeout(_CANCEL_S):
                    await self._connection.cancel_safe(timeout=_CANCEL_S)
                    await self._answered
        except (psycopg.Error, TimeoutError):
            pass  # The server cannot be reached, or does not end the statement
        finally:
            await self.close()
