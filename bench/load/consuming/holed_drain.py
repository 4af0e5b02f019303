"""Consume the messages after a range in which every second one was acked."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from bench.load.messages.numbered import check_left, number_of
from bench.load.peers.binary import BinaryPeer, PeerFailed
from bench.load.peers.waiting import until
from bench.usage import CpuTime
from vela.wire.binary import commands
from vela.wire.binary.enums import SubType

__all__ = ["holed_drain"]

_PERMITS: Final = 10_000
_ACKS_A_COMMAND: Final = 500


class _Consumer:
    """Takes the numbers in order.

    Of the first `holed` messages, acks all or every second one. Of the later messages, acks all but the last.
    """

    def __init__(self, peer: BinaryPeer, messages: int, holed: int, *, leaves_holes: bool) -> None:
        self.received = 0
        self.limit = holed  # the consumer grants permits for at most this many messages in total
        self.left: list[int] = []
        self._peer = peer
        self._last = messages - 1
        self._holed = holed if leaves_holes else 0
        self._granted = 0
        self._acks: list[tuple[int, int, int | None]] = []
        self._acked = (-1, -1)
        peer.on_message = self._on_message

    def grant(self) -> None:
        """Grant permits up to the limit, but for no more messages than a receiver queue holds."""
        more = min(self.limit, self.received + _PERMITS) - self._granted
        if more:
            self._granted += more
            self._peer.write([commands.flow(0, more)])

    async def acked(self) -> None:
        """Send the acks that are left, and wait until all acks are durable."""
        self._ack()
        await self._peer.acked([self._acked])

    def _on_message(self, ledger_id: int, entry_id: int, entry: bytes) -> None:
        number = number_of(entry)
        if number != self.received:
            raise PeerFailed(f"message {number} came where {self.received} was due")
        if number == self._last or (number < self._holed and not number % 2):
            self.left.append(number)
        else:
            self._acks.append((ledger_id, entry_id, None))
            if len(self._acks) >= _ACKS_A_COMMAND:
                self._ack()
        self.received += 1
        if self._granted - self.received <= _PERMITS // 2:
            self.grant()

    def _ack(self) -> None:
        if self._acks:
            self._acked = self._acks[-1][:2]
            self._peer.write([commands.ack(0, self._acks)])
            self._acks = []


async def holed_drain(
    port: int,
    topic: str,
    subscription: str,
    messages: int,
    *,
    holed: int,
    leaves_holes: bool,
    cpu: Callable[[], CpuTime],
) -> tuple[float, str]:
    """Receive the topic's first `holed` messages and ack every second one, or all; then time the rest.

    Of the rest, each message but the last is acked as it comes. Return the rest's messages per second, from the first
    permit to the last message, and the CPU time per message in words. Raises PeerFailed if a message is missing or out
    of order, or if the messages left unacked are not the intended ones.
    """
    peer = await BinaryPeer.connect(port)
    try:
        # The consumer is Exclusive, because a Shared one gets no more once it has 50,000 unacked messages.
        await peer.subscribe(topic, subscription, SubType.EXCLUSIVE)
        consumer = _Consumer(peer, messages, holed, leaves_holes=leaves_holes)
        consumer.grant()
        await until(lambda: consumer.received == holed, lambda: consumer.received, [peer], "the first part")
        await consumer.acked()
        consumer.limit = messages
        began, used = time.perf_counter(), cpu()
        consumer.grant()
        await until(lambda: consumer.received == messages, lambda: consumer.received, [peer], "the rest")
        seconds, used_then = time.perf_counter() - began, cpu()
        await consumer.acked()
    finally:
        peer.close()
    await check_left(port, topic, subscription, consumer.left)
    return (messages - holed) / seconds, (used_then - used).per(messages - holed)
