"""Publishing over TCP as fast as receipts come: a window of entries built beforehand."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from bench.load.binary_peer import BinaryPeer, PeerFailed
from bench.load.entries import Entry
from vela.wire.binary import commands

__all__ = ["Published", "publish_count", "publish_for"]

_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What a run's measured part stored."""

    messages: int
    seconds: float

    @property
    def per_s(self) -> float:
        """Messages with a receipt per second."""
        return self.messages / self.seconds


class _Window:
    """Keeps `window` sends unanswered until told to stop; receipts must come in order."""

    def __init__(self, peer: BinaryPeer, entry: Entry, window: int, most: int | None) -> None:
        self.receipts = 0
        self.sent = 0
        self.is_stopping = False
        self.drained = asyncio.Event()
        self._peer = peer
        self._entry = entry
        self._window = window
        self._most = most
        self._refill_at = window // 2
        peer.on_receipt = self._on_receipt

    def fill(self) -> None:
        """Send until the window is full."""
        last = self.receipts + self._window
        if self._most is not None:
            last = min(last, self._most)
        data, messages = self._entry.data, self._entry.messages
        buffers: list[bytes] = []
        for sequence_id in range(self.sent, last):
            buffers += commands.send(0, sequence_id, data, messages=messages)
        if buffers:
            self.sent = last
            self._peer.write(buffers)

    def _on_receipt(self, sequence_id: int) -> None:
        if sequence_id != self.receipts:
            raise PeerFailed(f"receipt {sequence_id} came where {self.receipts} was due")
        self.receipts += 1
        # Half a window at a time: a system call an entry would cost the generator more than the broker.
        if not self.is_stopping and self.sent - self.receipts <= self._refill_at:
            self.fill()
        if self.sent == self.receipts:
            self.drained.set()


async def publish_for(
    port: int, topic: str, entry: Entry, *, window: int, warm_up_s: float, run_s: float
) -> Published:
    """Publish one entry over and over. Raises PeerFailed when a receipt is missing or out of order."""
    peer = await BinaryPeer.connect(port)
    try:
        await peer.open_producer(topic)
        flow = _Window(peer, entry, window, None)
        flow.fill()
        await asyncio.sleep(warm_up_s)
        before, began = flow.receipts, time.perf_counter()
        await asyncio.sleep(run_s)
        receipts, seconds = flow.receipts - before, time.perf_counter() - began
        flow.is_stopping = True
        await _drained(peer, flow)
        return Published(messages=receipts * entry.messages, seconds=seconds)
    finally:
        peer.close()


async def publish_count(port: int, topic: str, entry: Entry, count: int, *, window: int) -> Published:
    """Publish one entry `count` times: a preload."""
    peer = await BinaryPeer.connect(port)
    try:
        await peer.open_producer(topic)
        flow = _Window(peer, entry, window, count)
        began = time.perf_counter()
        flow.fill()
        while flow.receipts < count:
            await _drained(peer, flow)
        return Published(messages=count * entry.messages, seconds=time.perf_counter() - began)
    finally:
        peer.close()


async def _drained(peer: BinaryPeer, flow: _Window) -> None:
    seen = -1
    while flow.sent != flow.receipts:
        flow.drained.clear()
        try:
            await asyncio.wait_for(flow.drained.wait(), _PATIENCE_S)
        except TimeoutError:
            if flow.receipts == seen:
                raise PeerFailed(f"{flow.sent - flow.receipts} sends got no receipt") from None
        seen = flow.receipts
        peer.check()
    peer.check()
