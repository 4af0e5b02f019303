"""A bare server that stores each message and then sends it back: what a message costs without a broker.

It stores each message as a row of a table shaped like a segment. While one commit is in flight, it gathers the next,
as Vela's writer does. `python -m bench.ceilings.committed_echo DATABASE_URL BYTES` prints its port; each message has
this many bytes.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import psycopg

from bench.ceilings.serving import served

__all__ = ["committed_echo_server"]

_LEDGER_ID = 1_000_000  # no ledger of the load, which writes into the same table, has this id
_INSERT = (
    "INSERT INTO bench_ceiling (ledger_id, entry_id, append_ms, deliver_at_ms, cumulative_messages, cumulative_bytes,"
    " messages, flags, data)"
    " SELECT * FROM unnest(%b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[],"
    " %b::integer[], %b::smallint[], %b::bytea[])"
)


class _CommittedEcho(asyncio.Protocol):
    def __init__(self, connection: psycopg.AsyncConnection, size_bytes: int) -> None:
        self._cursor = connection.cursor()
        self._size_bytes = size_bytes
        self._buffer = b""
        self._stored = 0
        self._commit: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._commit is None:
            self._commit = asyncio.get_running_loop().create_task(self._commit_all())

    async def _commit_all(self) -> None:
        size_bytes = self._size_bytes
        while ready := len(self._buffer) // size_bytes:
            data, self._buffer = self._buffer[: ready * size_bytes], self._buffer[ready * size_bytes :]
            rows = [data[at : at + size_bytes] for at in range(0, len(data), size_bytes)]
            await self._cursor.execute(_INSERT, _columns(rows, self._stored))
            self._stored += ready
            self._transport.write(data)
        self._commit = None


def _columns(data: Sequence[bytes], first: int) -> tuple[list[int] | list[bytes], ...]:
    """Return the values of the statement for rows of the same size. The first row has the id `first`."""
    rows = len(data)
    ids = range(first, first + rows)
    return (
        [_LEDGER_ID] * rows,
        list(ids),
        [int(time.time() * 1000)] * rows,
        [0] * rows,
        [number + 1 for number in ids],
        [(number + 1) * len(data[0]) for number in ids],
        [1] * rows,
        [0] * rows,
        list(data),
    )


@contextmanager
def committed_echo_server(database_url: str, size_bytes: int) -> Iterator[int]:
    """Start the server and yield its port. The table must exist, and only one client may connect."""
    with served("bench.ceilings.committed_echo", database_url, str(size_bytes)) as port:
        yield port


async def _serve(database_url: str, size_bytes: int) -> None:
    async with await psycopg.AsyncConnection.connect(
        database_url, autocommit=True, prepare_threshold=2
    ) as connection:
        server = await asyncio.get_running_loop().create_server(
            lambda: _CommittedEcho(connection, size_bytes), "127.0.0.1", 0
        )
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2])))
