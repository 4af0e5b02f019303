"""Many binary connections: some that stay open, and some that come and go."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bench.load.open_loop import Latencies, OpenLoop
from bench.load.peers.binary import BinaryPeer
from vela.wire.binary import commands

__all__ = ["arriving", "crowd"]

_OPENING = 100  # connections that are opened at a time
_PING_EVERY_S = 0.1


@contextmanager
def crowd(port: int, *, connections: int, active: int) -> Iterator[None]:
    """Keep this many connections open, in a thread. `active` of them ping ten times a second."""
    ready, stop = threading.Event(), threading.Event()
    failure: list[BaseException] = []

    def serve() -> None:
        try:
            asyncio.run(_crowd(port, connections, active, ready, stop))
        except BaseException as error:
            failure.append(error)
            raise
        finally:
            ready.set()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    ready.wait()
    if failure:
        raise failure[0]
    try:
        yield
    finally:
        stop.set()
        thread.join()


async def _crowd(
    port: int, connections: int, active: int, ready: threading.Event, stop: threading.Event
) -> None:
    peers: list[BinaryPeer] = []
    while len(peers) < connections:
        opening = min(_OPENING, connections - len(peers))
        peers += await asyncio.gather(*(BinaryPeer.connect(port) for _ in range(opening)))
    ready.set()
    while not stop.is_set():
        for peer in peers[:active]:
            peer.check()
            peer.write([commands.ping()])
        await asyncio.sleep(_PING_EVERY_S)
    for peer in peers:
        peer.close()


async def arriving(port: int, *, per_s: float, warm_up_s: float, run_s: float) -> Latencies:
    """Connect at a fixed rate, and leave once admitted. The latency is from the intended time to CONNECTED."""
    loop = OpenLoop(per_s=per_s, warm_up_s=warm_up_s, run_s=run_s)
    tasks: set[asyncio.Task[None]] = set()

    async def arrive(number: int) -> None:
        peer = await BinaryPeer.connect(port)
        loop.arrived(number)
        peer.close()

    def send(number: int) -> None:
        task = asyncio.create_task(arrive(number))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    return await loop.run(send)
