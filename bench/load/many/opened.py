"""Producers and consumers that are open and send nothing, all on one connection; and connections without either."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from bench.load.peers.binary import BinaryPeer
from vela.wire.binary import commands
from vela.wire.binary.enums import InitialPosition, SubType

__all__ = ["Opened", "allow_files", "opened_connections"]

_AT_ONCE: Final = 16


class Opened(BinaryPeer):
    """One connection. A producer's or consumer's id is its index in the list that it was opened from."""

    async def producers(self, topics: Sequence[str]) -> None:
        """Open a producer on each topic. A topic may be in the list many times."""

        async def one(number: int) -> None:
            request = self._request()
            await self._answer(
                request,
                commands.producer(
                    topics[number], producer_id=number, request_id=request, user_provided_name=False
                ),
            )

        await _each(len(topics), one)

    async def consumers(self, topic: str, subscriptions: Sequence[str]) -> None:
        """Open a Shared consumer of each subscription. A subscription may be in the list many times."""

        async def one(number: int) -> None:
            request = self._request()
            await self._answer(
                request,
                commands.subscribe(
                    topic,
                    subscriptions[number],
                    type=SubType.SHARED,
                    consumer_id=number,
                    request_id=request,
                    initial_position=InitialPosition.EARLIEST,
                ),
            )

        await _each(len(subscriptions), one)


async def opened_connections(port: int, count: int) -> list[BinaryPeer]:
    """Open `count` connections and shake hands on each."""
    peers: list[BinaryPeer] = []

    async def one(_: int) -> None:
        peers.append(await BinaryPeer.connect(port))

    await _each(count, one)
    return peers


async def _each(count: int, one: Callable[[int], Awaitable[None]]) -> None:
    """Call `one` with each number below `count`, a few at a time."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def gated(number: int) -> None:
        async with gate:
            await one(number)

    await asyncio.gather(*(gated(number) for number in range(count)))


def allow_files(files: int) -> None:
    """Let this process open that many files and sockets, as far as its hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(files, hard), hard))
