"""A TCP proxy in front of PostgreSQL that loses or holds a connection at a chosen moment of a chosen statement.

It reads just enough of the protocol to know which SQL a message runs. Parse names a statement, Bind runs the statement,
and CopyData has its rows. The answer ends with ReadyForQuery, which the server sends after COMMIT.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from urllib.parse import urlsplit, urlunsplit

__all__ = ["Moment", "PostgresProxy", "Trap"]

_CHUNK = 1 << 16
# The codes for SSL and GSS, which a client may ask for before it sends its startup message.
_ASKS_FOR_ENCRYPTION = (
    (80877103).to_bytes(4, "big"),
    (80877104).to_bytes(4, "big"),
)


class Moment(Enum):
    """What happens to a statement that a trap catches."""

    LOSE_REQUEST = auto()  # the connection dies before the server has seen it
    LOSE_ROWS = auto()  # the connection dies when the server has half of the rows of a COPY
    HOLD_ROWS = auto()  # the server has half of the rows of a COPY, and gets the others after `release`
    LOSE_ANSWER = auto()  # the server has committed; the connection dies before the answer
    HOLD_REQUEST = auto()  # the server gets the statement after `release`
    HOLD_ANSWER = auto()  # the server has committed; the answer waits until `release`
    LATE_REQUEST = auto()  # the client sees its connection die; the server gets the statement at `release`


@dataclass(eq=False)
class Trap:
    """Catches the first statement whose SQL contains `sql`; later ones pass."""

    sql: str
    moment: Moment
    connection: str = ""  # a part of the application's name; "" for any application
    caught: asyncio.Event = field(default_factory=asyncio.Event)  # the moment has come
    passed: asyncio.Event = field(default_factory=asyncio.Event)  # the server has answered the statement
    _released: asyncio.Event = field(default_factory=asyncio.Event)
    taken: bool = False

    def release(self) -> None:
        """Pass on a held statement or answer."""
        self._released.set()

    async def wait_released(self) -> None:
        """Wait for `release`."""
        await self._released.wait()


class _Link:
    """One client's connection and the one to the server behind it."""

    def __init__(
        self,
        proxy: PostgresProxy,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._proxy = proxy
        self._client_reader, self._client = client
        self._server_reader, self._server = server
        self._statements: dict[bytes, str] = {}
        self._answering: Trap | None = None
        self._copying: Trap | None = None
        self._started = False
        self.is_orphan = False  # the server never learns that the client has gone
        self.name = ""

    async def run(self) -> None:
        """Pass bytes on until one side ends."""
        pumps = [asyncio.ensure_future(self._requests()), asyncio.ensure_future(self._answers())]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            if self.is_orphan:
                await self._proxy.stopped.wait()
            if self._answering is not None and self._answering.moment is Moment.LATE_REQUEST:
                await asyncio.wait(pumps)
        finally:
            self.kill()
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    def kill(self) -> None:
        """End both sides at once, as a lost network does."""
        self.kill_client()
        self._server.transport.abort()

    def kill_client(self) -> None:
        """End the client's side only."""
        self._client.transport.abort()

    async def _requests(self) -> None:
        buffer = b""
        with suppress(ConnectionError):
            while data := await self._client_reader.read(_CHUNK):
                buffer += data
                trap, ready, buffer = self._scan(buffer)
                if trap is not None:
                    left = await self._spring(trap, ready)
                    if left is None:
                        return
                    ready = left
                self._server.write(ready)
                await self._server.drain()

    def _scan(self, buffer: bytes) -> tuple[Trap | None, bytes, bytes]:
        """Return the trap that a message sprang, the whole messages, and the rest of the buffer."""
        at = 0
        trap: Trap | None = None
        while len(buffer) - at >= 5:
            head = 0 if not self._started else 1
            size = head + int.from_bytes(buffer[at + head : at + head + 4], "big")
            if len(buffer) - at < size:
                break
            message = buffer[at : at + size]
            if head:
                trap = trap or self._inspect(message[:1], message[5:])
            elif message[4:8] not in _ASKS_FOR_ENCRYPTION:
                self._started = True
                parts = message[8:].split(b"\0")
                self.name = (
                    dict(zip(parts[::2], parts[1::2], strict=False)).get(b"application_name", b"").decode()
                )
            at += size
        return trap, buffer[:at], buffer[at:]

    def _inspect(self, kind: bytes, body: bytes) -> Trap | None:
        if kind == b"P":
            name, sql = body.split(b"\0")[:2]
            self._statements[name] = sql.decode()
            return None
        if kind == b"B":
            return self._proxy.trap_for(self._statements.get(body.split(b"\0")[1], ""), self.name)
        if kind == b"d":
            return self._copying
        if kind == b"Q":
            return self._proxy.trap_for(body.rstrip(b"\0").decode(), self.name)
        return None

    async def _spring(self, trap: Trap, ready: bytes) -> bytes | None:
        """Do what the trap does to a request. Return the bytes still to send, or None if the link must end."""
        if trap.moment is Moment.LOSE_REQUEST:
            trap.caught.set()
            return None
        if trap is self._copying:
            return await self._spring_among_rows(trap, ready)
        if trap.moment in (Moment.LOSE_ROWS, Moment.HOLD_ROWS):
            self._copying = trap
            return ready
        self._answering = trap
        if trap.moment is Moment.HOLD_REQUEST:
            trap.caught.set()
            await trap.wait_released()
        elif trap.moment is Moment.LATE_REQUEST:
            self.kill_client()
            trap.caught.set()
            await trap.wait_released()
            self._server.write(ready)
            await self._server.drain()
            await trap.passed.wait()
            return None
        return ready

    async def _spring_among_rows(self, trap: Trap, ready: bytes) -> bytes | None:
        half = len(ready) // 2
        self._server.write(ready[:half])
        await self._server.drain()
        trap.caught.set()
        self._copying = None
        if trap.moment is Moment.LOSE_ROWS:
            return None
        await trap.wait_released()
        return ready[half:]

    async def _answers(self) -> None:
        tail = b""
        with suppress(ConnectionError):
            while data := await self._server_reader.read(_CHUNK):
                trap = self._answering
                tail = (tail + data)[-6:]
                if trap is not None and tail[:5] == b"Z\0\0\0\5":
                    trap.passed.set()
                    if trap.moment is Moment.LATE_REQUEST:
                        return
                    self._answering = None
                    if trap.moment is Moment.LOSE_ANSWER:
                        trap.caught.set()
                        return
                    if trap.moment is Moment.HOLD_ANSWER:
                        trap.caught.set()
                        await trap.wait_released()
                self._client.write(data)
                await self._client.drain()


class PostgresProxy:
    """Listens on a free port. `url` is the database behind it, for clients."""

    def __init__(self, database_url: str) -> None:
        self._upstream = urlsplit(database_url)
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._traps: list[Trap] = []
        self.is_refusing = False
        self.stopped = asyncio.Event()
        self.url = ""

    async def start(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        user, _, _ = self._upstream.netloc.rpartition("@")
        self.url = urlunsplit(self._upstream._replace(netloc=f"{user}@127.0.0.1:{port}"))

    async def stop(self) -> None:
        """Cut all connections and stop listening."""
        self.stopped.set()
        if self._server is not None:
            self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # aborted transports end in the loop's next turn

    def trap(self, sql: str, moment: Moment, *, connection: str = "") -> Trap:
        """Catch the next statement whose text contains `sql`."""
        trap = Trap(sql=sql, moment=moment, connection=connection)
        self._traps.append(trap)
        return trap

    def trap_for(self, sql: str, name: str) -> Trap | None:
        """Return the trap that a statement springs, and mark it as taken."""
        for trap in self._traps:
            if not trap.taken and trap.sql in sql and trap.connection in name:
                trap.taken = True
                return trap
        return None

    def cut(self, name: str = "") -> int:
        """Kill the connections whose application's name contains `name`. Return how many there were."""
        found = list(self._named(name))
        for link in found:
            link.kill()
        return len(found)

    def orphan(self, name: str) -> None:
        """Kill the client's side only, as when a host vanishes: the server keeps the session and its locks."""
        for link in self._named(name):
            link.is_orphan = True
            link.kill_client()

    def _named(self, name: str) -> Iterator[_Link]:
        return (link for link in self._links if name in link.name)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or self.is_refusing:
            writer.transport.abort()
            return
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            server = await asyncio.open_connection(self._upstream.hostname, self._upstream.port)
            link = _Link(self, (reader, writer), server)
            self._links.add(link)
            try:
                await link.run()
            finally:
                self._links.discard(link)
        except (OSError, asyncio.CancelledError):
            return
        finally:
            writer.transport.abort()
