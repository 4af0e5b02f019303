"""A relay that passes bytes on, unchanged, to the server behind it. It can add TLS to a server that has none."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

__all__ = ["relay"]


@asynccontextmanager
async def relay(
    port: int, context: ssl.SSLContext | None = None, *, is_silent: Callable[[], bool] = lambda: False
) -> AsyncIterator[int]:
    """Relay to 127.0.0.1:`port`, and yield the port to connect to. Connections made while `is_silent` get no answer."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if is_silent():
                await reader.read()  # until the peer gives up
                writer.close()
                return
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))
        except (OSError, asyncio.CancelledError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
