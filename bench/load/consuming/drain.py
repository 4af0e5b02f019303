"""Consume over TCP as fast as entries come, and ack them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from bench.load.peers.binary import BinaryPeer, PeerFailed
from vela.wire.binary import commands
from vela.wire.binary.enums import SubType

__all__ = ["drain"]

_PERMITS = 10_000
_ACKS_A_COMMAND = 500
_PATIENCE_S = 60.0


class _Drain:
    """Renews its permits when half of them are used, and acks in groups, as clients do."""

    def __init__(
        self, peer: BinaryPeer, entries: int, *, must_ack: Callable[[int], bool], permits_per_entry: int
    ) -> None:
        self.received = 0
        self.done = asyncio.Event()
        self._peer = peer
        self._entries = entries
        self._must_ack = must_ack
        self._permits_per_entry = permits_per_entry
        self._permits = _PERMITS
        self._acks: list[tuple[int, int, int | None]] = []
        self.last = (-1, -1)
        peer.on_message = self._on_message

    def begin(self) -> None:
        self._peer.write([commands.flow(0, self._permits)])

    def _on_message(self, ledger_id: int, entry_id: int, _: bytes) -> None:
        if (ledger_id, entry_id) <= self.last:
            raise PeerFailed(f"{ledger_id}:{entry_id} came after {self.last}")
        self.last = (ledger_id, entry_id)
        if self._must_ack(self.received):
            self._acks.append((ledger_id, entry_id, None))
        self.received += 1
        self._permits -= self._permits_per_entry
        answers: list[bytes] = []
        if len(self._acks) >= _ACKS_A_COMMAND or (self._acks and self.received == self._entries):
            answers.append(commands.ack(0, self._acks))
            self._acks = []
        if self._permits <= _PERMITS // 2:
            answers.append(commands.flow(0, _PERMITS - self._permits))
            self._permits = _PERMITS
        if answers:
            self._peer.write(answers)
        if self.received == self._entries:
            self.done.set()


async def drain(
    port: int,
    topic: str,
    subscription: str,
    entries: int,
    *,
    type_: SubType = SubType.SHARED,
    permits_per_entry: int = 1,
    must_ack: Callable[[int], bool] = lambda _: True,
) -> float:
    """Receive `entries` from the subscription's cursor on, in order; ack those that `must_ack` selects, and the last.

    Return the entries per second from the first permit to the last entry, once the acks are durable.
    """
    peer = await BinaryPeer.connect(port)
    try:
        await peer.subscribe(topic, subscription, type_)
        work = _Drain(peer, entries, must_ack=must_ack, permits_per_entry=permits_per_entry)
        began = time.perf_counter()
        work.begin()
        seen = 0
        while not work.done.is_set():
            try:
                await asyncio.wait_for(work.done.wait(), _PATIENCE_S)
            except TimeoutError:
                if work.received == seen:
                    raise PeerFailed(f"{work.received} of {entries} entries came") from None
            seen = work.received
            peer.check()
        seconds = time.perf_counter() - began
        # This may be a second ack of the entry. Its answer comes when all acks are durable.
        await peer.acked([work.last])
        return entries / seconds
    finally:
        peer.close()
