"""Drain a stored backlog of numbered messages over TCP, with one consumer or several."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from typing import Final

from bench.load.messages.numbered import check_left, number_of
from bench.load.peers.binary import BinaryPeer, PeerFailed
from bench.load.peers.waiting import until
from vela.wire.binary import commands
from vela.wire.binary.enums import SubType

__all__ = ["spread_drain"]

_PERMITS: Final = 8000  # of all consumers together; with eight of them each has 1,000, a client's default
_ACKS_A_COMMAND: Final = 500
_HELD: Final = 1000  # with random acks, a consumer that holds this many unacked messages acks half of them


@dataclass(slots=True)
class _Backlog:
    """What all consumers together must see: every number once, and the numbers of each key in order."""

    messages: int
    keys: int  # 0 = messages may come in any order
    received: int = 0
    ended_at: float = 0.0
    consumers: list[_Consumer] = field(default_factory=list)
    _seen: bytearray = field(default_factory=bytearray)
    _next: list[int] = field(default_factory=list)  # by key, the number due

    def __post_init__(self) -> None:
        self._seen = bytearray(self.messages)
        self._next = list(range(self.keys))

    def take(self, number: int) -> None:
        """Count a message. Raises PeerFailed if it came twice or is not the next of its key."""
        if self._seen[number]:
            raise PeerFailed(f"message {number} came twice")
        self._seen[number] = 1
        if self.keys:
            key = number % self.keys
            if self._next[key] != number:
                raise PeerFailed(f"message {number} came where {self._next[key]} of its key was due")
            self._next[key] = number + self.keys
        self.received += 1
        if self.received == self.messages:
            self.ended_at = time.perf_counter()


class _Consumer:
    """Renews its permits when half are used, and acks in groups, as clients do. It never acks the last message."""

    def __init__(
        self, peer: BinaryPeer, backlog: _Backlog, permits: int, chance: random.Random | None
    ) -> None:
        self.received = 0
        self._peer = peer
        self._backlog = backlog
        self._all_permits = permits
        self._permits = permits
        self._chance = chance  # None = acks in the order of arrival
        self._ack_at = _HELD if chance is not None else _ACKS_A_COMMAND
        self._held: list[tuple[int, int, int | None]] = []
        self._acked: tuple[int, int] | None = None
        peer.on_message = self._on_message

    def begin(self) -> None:
        self._peer.write([commands.flow(0, self._permits)])

    async def finish(self) -> None:
        """Ack the rest and wait until all acks are durable."""
        self._ack(len(self._held))
        if self._acked is not None:
            await self._peer.acked([self._acked])

    def _on_message(self, ledger_id: int, entry_id: int, entry: bytes) -> None:
        number = number_of(entry)
        self._backlog.take(number)
        self.received += 1
        if number != self._backlog.messages - 1:
            self._held.append((ledger_id, entry_id, None))
        if len(self._held) >= self._ack_at:
            self._ack(_ACKS_A_COMMAND)
        self._permits -= 1
        if self._permits <= self._all_permits // 2:
            self._peer.write([commands.flow(0, self._all_permits - self._permits)])
            self._permits = self._all_permits

    def _ack(self, count: int) -> None:
        if not count:
            return
        if self._chance is not None:
            self._chance.shuffle(self._held)
        acks, self._held = self._held[:count], self._held[count:]
        self._acked = acks[-1][:2]
        self._peer.write([commands.ack(0, acks)])


async def spread_drain(
    port: int,
    topic: str,
    subscription: str,
    messages: int,
    *,
    type_: SubType,
    consumers: int,
    acks_at_random: bool,
    keys: int = 0,
) -> float:
    """Receive the topic's `messages` with a new subscription and ack each of them but the last.

    Return the messages per second from the first permit to the last message; most acks are sent in this time. Raises
    PeerFailed if a message comes twice, out of its key's order or not at all, if a consumer gets none, or if an ack was
    lost.
    """
    backlog = _Backlog(messages, keys)
    chance = random.Random(subscription) if acks_at_random else None
    peers = [await BinaryPeer.connect(port) for _ in range(consumers)]
    try:
        for peer in peers:
            await peer.subscribe(topic, subscription, type_)
            backlog.consumers.append(_Consumer(peer, backlog, _PERMITS // consumers, chance))
        began = time.perf_counter()
        for consumer in backlog.consumers:
            consumer.begin()
        await until(
            lambda: backlog.received == messages,
            lambda: backlog.received,
            peers,
            f"draining {messages} messages",
        )
        if not all(consumer.received for consumer in backlog.consumers):
            raise PeerFailed("one of the consumers got nothing")
        await asyncio.gather(*(consumer.finish() for consumer in backlog.consumers))
    finally:
        for peer in peers:
            peer.close()
    await check_left(port, topic, subscription, [messages - 1])
    return messages / (backlog.ended_at - began)
