"""Messages with numbers, so that a consumer notices a missing, duplicate or out-of-order message."""

from __future__ import annotations

import asyncio
import os
import struct
import time
from collections.abc import Callable, Sequence
from typing import Final

from bench.load.peers.binary import BinaryPeer, PeerFailed
from bench.load.peers.waiting import until
from vela.wire.binary import commands
from vela.wire.binary.enums import SubType
from vela.wire.entry import encode_single

__all__ = ["PAYLOAD_BYTES", "check_left", "number_of", "numbered_entries"]

PAYLOAD_BYTES: Final = 100
_NUMBER: Final = struct.Struct(">Q")
_SETTLING_S: Final = 10.0
_BEYOND: Final = 10  # permits above what is expected, so that a surplus message would arrive as well


def numbered_entries(*, keys: int = 0) -> Callable[[int], bytes]:
    """Return a function that makes the entry of a number: a message sent alone whose payload begins with the number.

    With `keys`, the message of number n has the key n modulo `keys`.
    """
    rest = os.urandom(PAYLOAD_BYTES - _NUMBER.size)
    now_ms = time.time_ns() // 1_000_000

    def entry(number: int) -> bytes:
        return encode_single(
            producer_name="bench",
            sequence_id=number,
            publish_time_ms=now_ms,
            payload=_NUMBER.pack(number) + rest,
            key=f"{number % keys}" if keys else None,
        )

    return entry


def number_of(entry: bytes) -> int:
    """Return the number of an entry that `numbered_entries` made."""
    (number,) = _NUMBER.unpack_from(entry, len(entry) - PAYLOAD_BYTES)
    return int(number)


async def check_left(port: int, topic: str, subscription: str, left: Sequence[int]) -> None:
    """Check that exactly these numbers, in order, are unacked. Earlier consumers must have closed.

    `left` ends with the topic's last message, so that nothing can come after it. The check acks nothing. It looks again
    for a while, because the broker may still be applying acks that asked for no answer. Raises PeerFailed.
    """
    deadline = time.monotonic() + _SETTLING_S
    while (came := await _unacked(port, topic, subscription, len(left))) != list(left):
        if time.monotonic() > deadline:
            wrong = next(n for n, number in enumerate(left) if came[n] != number)
            raise PeerFailed(f"{came[wrong]} is unacked where {left[wrong]} should be")
        await asyncio.sleep(0.2)


async def _unacked(port: int, topic: str, subscription: str, count: int) -> list[int]:
    """Return the numbers of the unacked messages that arrive, in order, as soon as there are `count` or more."""
    peer = await _only_consumer(port, topic, subscription)
    try:
        came: list[int] = []
        peer.on_message = lambda _ledger, _entry, data: came.append(number_of(data))
        peer.write([commands.flow(0, count + _BEYOND)])
        await until(lambda: len(came) >= count, lambda: len(came), [peer], "what was left unacked")
        return came
    finally:
        peer.close()


async def _only_consumer(port: int, topic: str, subscription: str) -> BinaryPeer:
    """Subscribe alone. Retry for a while, because the broker may still be closing earlier consumers' connections."""
    deadline = time.monotonic() + _SETTLING_S
    while True:
        peer = await BinaryPeer.connect(port)
        try:
            await peer.subscribe(topic, subscription, SubType.EXCLUSIVE)
        except PeerFailed:
            peer.close()
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)
        else:
            return peer
