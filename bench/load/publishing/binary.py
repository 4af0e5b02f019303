"""Publish over TCP as fast as receipts come, with a window of prepared entries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.load.messages.entries import Entry
from bench.load.peers.binary import BinaryPeer, PeerFailed
from vela.wire.binary import commands

__all__ = ["Published", "publish_count", "publish_each", "publish_for"]

_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """How many messages the measured part of a run stored, and how long it took."""

    messages: int
    seconds: float

    @property
    def per_s(self) -> float:
        """How many messages got their receipt per second."""
        return self.messages / self.seconds


class _Window:
    """Keeps between half of `window` and `window` sends unanswered until told to stop; receipts must come in order."""

    def __init__(
        self,
        peer: BinaryPeer,
        data_of: Callable[[int], bytes],
        window: int,
        most: int | None,
        *,
        messages: int = 1,
    ) -> None:
        self.receipts = 0
        self.sent = 0
        self.is_stopping = False
        self.drained = asyncio.Event()
        self._peer = peer
        self._data_of = data_of  # by sequence id
        self._messages = messages  # in each entry
        self._window = window
        self._most = most
        self._refill_at = window // 2
        peer.on_receipt = self._on_receipt

    def fill(self) -> None:
        """Send until the window is full."""
        last = self.receipts + self._window
        if self._most is not None:
            last = min(last, self._most)
        data_of, messages = self._data_of, self._messages
        buffers: list[bytes] = []
        for sequence_id in range(self.sent, last):
            buffers += commands.send(0, sequence_id, data_of(sequence_id), messages=messages)
        if buffers:
            self.sent = last
            self._peer.write(buffers)

    def _on_receipt(self, sequence_id: int) -> None:
        if sequence_id != self.receipts:
            raise PeerFailed(f"receipt {sequence_id} came where {self.receipts} was due")
        self.receipts += 1
        # Half a window at a time: a system call per entry would cost the generator more than an entry costs the broker.
        if not self.is_stopping and self.sent - self.receipts <= self._refill_at:
            self.fill()
        if self.sent == self.receipts:
            self.drained.set()


async def publish_for(
    port: int, topic: str, entry: Entry, *, window: int, warm_up_s: float, run_s: float
) -> Published:
    """Publish one entry over and over. Raises PeerFailed if a receipt is missing or out of order."""
    peer = await BinaryPeer.connect(port)
    try:
        await peer.open_producer(topic)
        flow = _Window(peer, lambda _: entry.data, window, None, messages=entry.messages)
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
    """Publish one entry `count` times, as a preload."""
    seconds = await _publish(port, topic, lambda _: entry.data, count, window=window, messages=entry.messages)
    return Published(messages=count * entry.messages, seconds=seconds)


async def publish_each(
    port: int, topic: str, data_of: Callable[[int], bytes], count: int, *, window: int
) -> Published:
    """Publish `count` messages, each made when it is sent, as a preload of different messages."""
    seconds = await _publish(port, topic, data_of, count, window=window, messages=1)
    return Published(messages=count, seconds=seconds)


async def _publish(
    port: int, topic: str, data_of: Callable[[int], bytes], count: int, *, window: int, messages: int
) -> float:
    """Publish `count` entries and return how many seconds it took."""
    peer = await BinaryPeer.connect(port)
    try:
        await peer.open_producer(topic)
        flow = _Window(peer, data_of, window, count, messages=messages)
        began = time.perf_counter()
        flow.fill()
        while flow.receipts < count:
            await _drained(peer, flow)
        return time.perf_counter() - began
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
