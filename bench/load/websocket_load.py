"""Publish, or publish and consume, JSON over WebSocket as fast as answers come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.load.messages.json_frames import MessageFrames, ack_frame, key_of, message_id_of
from bench.load.peers.binary import PeerFailed
from bench.load.peers.websocket import WebSocketPeer

__all__ = ["Cycled", "cycle_for", "publish_for"]

_RECEIPT = b'{"result":"ok"'
_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycled:
    """How many messages the measured part of a run handled, and how long it took."""

    messages: int  # with a receipt; if there is a consumer, also delivered and acked
    seconds: float
    everything: int  # messages of the whole run, warm-up included, for the CPU time per message

    @property
    def per_s(self) -> float:
        """The messages per second."""
        return self.messages / self.seconds


class _Producer:
    def __init__(self, peer: WebSocketPeer, frames: MessageFrames, window: int) -> None:
        self.receipts = 0
        self.sent = 0
        self.is_stopping = False
        self._peer = peer
        self._frames = frames
        self._window = window
        peer.on_frames = self._on_frames

    def fill(self) -> None:
        """Send until the window is full."""
        last = self.receipts + self._window
        frame = self._frames.frame
        self._peer.write([frame(number) for number in range(self.sent, last)])
        self.sent = last

    def _on_frames(self, frames: list[bytes]) -> None:
        for frame in frames:
            if not frame.startswith(_RECEIPT):
                raise PeerFailed(f"the broker answered {frame[:200]!r}")
        self.receipts += len(frames)
        if not self.is_stopping:
            self.fill()


class _Consumer:
    def __init__(self, peer: WebSocketPeer) -> None:
        self.received = 0
        self._peer = peer
        peer.on_frames = self._on_frames

    def _on_frames(self, frames: list[bytes]) -> None:
        acks: list[bytes] = []
        for frame in frames:
            number = key_of(frame)
            if number != self.received:
                raise PeerFailed(f"message {number} came where {self.received} was due")
            self.received += 1
            acks.append(ack_frame(message_id_of(frame)))
        self._peer.write(acks)


async def publish_for(
    port: int, path: str, *, payload_bytes: int, window: int, warm_up_s: float, run_s: float
) -> Cycled:
    """Publish with `window` messages unanswered. Raises PeerFailed when an answer is not a receipt."""
    peer = await WebSocketPeer.connect(port, path)
    try:
        producer = _Producer(peer, MessageFrames(payload_bytes), window)
        producer.fill()
        await asyncio.sleep(warm_up_s)
        before, began = producer.receipts, time.perf_counter()
        await asyncio.sleep(run_s)
        receipts, seconds = producer.receipts - before, time.perf_counter() - began
        producer.is_stopping = True
        await _until(lambda: producer.receipts == producer.sent, peer)
        return Cycled(messages=receipts, seconds=seconds, everything=producer.sent)
    finally:
        peer.close()


async def cycle_for(
    port: int,
    producer_path: str,
    consumer_path: str,
    *,
    payload_bytes: int,
    window: int,
    warm_up_s: float,
    run_s: float,
) -> Cycled:
    """Publish, receive each message in order and ack it. Raises PeerFailed when one is missing or out of order."""
    consuming = await WebSocketPeer.connect(port, consumer_path)
    producing = await WebSocketPeer.connect(port, producer_path)
    try:
        consumer = _Consumer(consuming)
        producer = _Producer(producing, MessageFrames(payload_bytes), window)
        producer.fill()
        await asyncio.sleep(warm_up_s)
        before, began = consumer.received, time.perf_counter()
        await asyncio.sleep(run_s)
        received, seconds = consumer.received - before, time.perf_counter() - began
        producer.is_stopping = True
        await _until(lambda: producer.receipts == producer.sent == consumer.received, producing, consuming)
        return Cycled(messages=received, seconds=seconds, everything=producer.sent)
    finally:
        producing.close()
        consuming.close()


async def _until(condition: Callable[[], bool], *peers: WebSocketPeer) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        for peer in peers:
            peer.check()
        if time.monotonic() > deadline:
            raise PeerFailed("not everything that was sent was answered and delivered")
        await asyncio.sleep(0.01)
