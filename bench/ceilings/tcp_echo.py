"""A bare TCP server that sends back the bytes it receives (`python -m bench.ceilings.tcp_echo`), and its client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from bench.ceilings.serving import served
from bench.load.open_loop import Latencies, OpenLoop

__all__ = ["echo_latency", "tcp_echo_server"]

_NUMBER_BYTES = 8


class _Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


class _Listener(asyncio.Protocol):
    def __init__(self, loop: OpenLoop, size_bytes: int) -> None:
        self._loop = loop
        self._size_bytes = size_bytes
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= self._size_bytes:
            self._loop.arrived(int.from_bytes(self._buffer[:_NUMBER_BYTES], "big"))
            self._buffer = self._buffer[self._size_bytes :]


async def echo_latency(
    port: int, *, payload_bytes: int, per_s: float, warm_up_s: float, run_s: float
) -> Latencies:
    """Send messages at a fixed rate and measure when the server has sent them back."""
    loop = OpenLoop(per_s=per_s, warm_up_s=warm_up_s, run_s=run_s)
    filling = bytes(payload_bytes - _NUMBER_BYTES)
    transport, _ = await asyncio.get_running_loop().create_connection(
        lambda: _Listener(loop, payload_bytes), "127.0.0.1", port
    )
    try:
        return await loop.run(lambda number: transport.write(number.to_bytes(_NUMBER_BYTES, "big") + filling))
    finally:
        transport.abort()


@contextmanager
def tcp_echo_server() -> Iterator[int]:
    """Start the server in a separate process and yield its port."""
    with served("bench.ceilings.tcp_echo") as port:
        yield port


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Echo, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())
