"""Publish to one topic that several WebSocket consumers read, at the pace of the slowest."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, Protocol

from bench.load.messages.json_frames import (
    MessageFrames,
    ack_frame,
    acks_frame,
    consumer_path,
    key_of,
    message_id_of,
    producer_path,
)
from bench.load.messages.numbered import check_left, numbered_entries
from bench.load.peers.binary import BinaryPeer, PeerFailed
from bench.load.peers.waiting import until
from bench.load.peers.websocket import WebSocketPeer, text_frame
from broker.doors.websocket.json.frames import MAX_ITEMS_PER_FRAME
from vela.wire.binary import commands
from vela.wire.entry import OutgoingMessage, encode_batch

__all__ = ["BATCH_MESSAGES", "PAYLOAD_BYTES", "FanIn", "binary_batches", "fan_out_for", "json_singles"]

BATCH_MESSAGES: Final = 100
PAYLOAD_BYTES: Final = 64
# Numbers start again after this many messages, which is more than are ever in flight, so that a consumer notices a
# lost batch.
_ROUND: Final = 20_000
_AHEAD: Final = 4000  # messages sent and not yet at the slowest consumer
_JSON_WINDOW: Final = 64  # frames without a receipt
_IS_END: Final = text_frame(b'{"type":"isEndOfTopic"}')
_END_ANSWER: Final = b'{"endOfTopic"'


class FanIn(Protocol):
    """The producer of a fan-out."""

    sent: int  # messages
    receipts: int  # messages

    def fill(self, slowest: int) -> None:
        """Send as much as is allowed when the slowest consumer has received `slowest` messages."""

    def check(self) -> None:
        """Raise the connection's error, if there is one."""

    def close(self) -> None:
        """Drop the connection."""


class _BinaryBatches:
    def __init__(self, peer: BinaryPeer) -> None:
        self.sent = 0
        self.receipts = 0
        self.check, self.close = peer.check, peer.close
        self._peer = peer
        payload = os.urandom(PAYLOAD_BYTES)
        self._batches = [
            encode_batch(
                [
                    OutgoingMessage(payload=payload, key=f"{n:010d}")
                    for n in range(first, first + BATCH_MESSAGES)
                ],
                producer_name="bench",
                sequence_id=first,
                publish_time_ms=time.time_ns() // 1_000_000,
            )
            for first in range(0, _ROUND, BATCH_MESSAGES)
        ]
        peer.on_receipt = self._on_receipt

    def fill(self, slowest: int) -> None:
        buffers: list[bytes] = []
        while self.sent + BATCH_MESSAGES <= slowest + _AHEAD:
            batch = self._batches[self.sent % _ROUND // BATCH_MESSAGES]
            buffers += commands.send(0, self.sent, batch, messages=BATCH_MESSAGES)
            self.sent += BATCH_MESSAGES
        if buffers:
            self._peer.write(buffers)

    def _on_receipt(self, sequence_id: int) -> None:
        if sequence_id != self.receipts:
            raise PeerFailed(f"receipt {sequence_id} came where {self.receipts} was due")
        self.receipts += BATCH_MESSAGES


class _JsonSingles:
    def __init__(self, peer: WebSocketPeer) -> None:
        self.sent = 0
        self.receipts = 0
        self.check, self.close = peer.check, peer.close
        self._peer = peer
        self._frames = MessageFrames(PAYLOAD_BYTES)
        peer.on_frames = self._on_frames

    def fill(self, slowest: int) -> None:
        last = min(slowest + _AHEAD, self.receipts + _JSON_WINDOW)
        if last > self.sent:
            self._peer.write([self._frames.frame(number % _ROUND) for number in range(self.sent, last)])
            self.sent = last

    def _on_frames(self, frames: list[bytes]) -> None:
        for frame in frames:
            if not frame.startswith(b'{"result":"ok"'):
                raise PeerFailed(f"the broker answered {frame[:200]!r}")
        self.receipts += len(frames)


async def binary_batches(port: int, topic: str) -> FanIn:
    """Open a producer over TCP that sends prepared batches."""
    peer = await BinaryPeer.connect(port)
    await peer.open_producer(topic)
    return _BinaryBatches(peer)


async def json_singles(port: int, topic: str) -> FanIn:
    """Open a WebSocket producer that sends one frame per message."""
    return _JsonSingles(await WebSocketPeer.connect(port, producer_path(topic)))


class _Consumer:
    """Takes the numbers in order. Acks the messages of one read in as few frames as are allowed."""

    def __init__(self, peer: WebSocketPeer, on_received: Callable[[], None], acks_a_frame: int) -> None:
        self.received = 0
        self.check, self.close = peer.check, peer.close
        self._peer = peer
        self._on_received = on_received
        self._acks_a_frame = acks_a_frame
        self._is_applied = False
        peer.on_frames = self._on_frames

    async def applied(self) -> None:
        """Wait until the broker has read every ack: it reads commands in order."""
        self._peer.write([_IS_END])
        await until(lambda: self._is_applied, lambda: 0, [self._peer], "the answer to isEndOfTopic")

    def _on_frames(self, frames: list[bytes]) -> None:
        if frames[-1].startswith(_END_ANSWER):
            self._is_applied = True
            return
        received = self.received
        for frame in frames:
            number = key_of(frame)
            if number != received % _ROUND:
                raise PeerFailed(f"message {number} came where {received % _ROUND} was due")
            received += 1
        self.received = received
        ids = [message_id_of(frame) for frame in frames]
        if self._acks_a_frame == 1:
            self._peer.write([ack_frame(one) for one in ids])
        else:
            self._peer.write([acks_frame(part) for part in _parts(ids, self._acks_a_frame)])
        self._on_received()


def _parts(ids: Sequence[bytes], size: int) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(ids), size):
        yield ids[start : start + size]


async def fan_out_for(
    binary_port: int,
    http_port: int,
    topic: str,
    open_producer: Callable[[str], Awaitable[FanIn]],
    *,
    subscriptions: int,
    warm_up_s: float,
    run_s: float,
    acks_a_frame: int = MAX_ITEMS_PER_FRAME,
) -> tuple[float, int]:
    """Return the deliveries to all consumers together, per second and in the whole run.

    Pulsar's API has one ack per frame; Vela also takes several, in an array. Raises PeerFailed if a consumer misses a
    message or gets it out of order, or if an ack was lost.
    """
    names = [f"s{number}" for number in range(subscriptions)]
    peers = [await WebSocketPeer.connect(http_port, consumer_path(topic, name)) for name in names]
    producer = await open_producer(topic)
    is_running = True

    def fill() -> None:
        if is_running:
            producer.fill(min(consumer.received for consumer in consumers))

    def delivered() -> int:
        return sum(consumer.received for consumer in consumers)

    consumers = [_Consumer(peer, fill, acks_a_frame) for peer in peers]
    everyone: list[FanIn | _Consumer] = [producer, *consumers]
    try:
        fill()
        await asyncio.sleep(warm_up_s)
        before, began = delivered(), time.perf_counter()
        await asyncio.sleep(run_s)
        per_s = (delivered() - before) / (time.perf_counter() - began)
        is_running = False
        await until(
            lambda: producer.receipts == producer.sent and delivered() == producer.sent * subscriptions,
            delivered,
            everyone,
            f"of {producer.sent} messages to {subscriptions} subscriptions",
        )
        await asyncio.gather(*(consumer.applied() for consumer in consumers))
    finally:
        for one in everyone:
            one.close()
    await _check_acked(binary_port, topic, names)
    return per_s, producer.sent * subscriptions


async def _check_acked(port: int, topic: str, subscriptions: list[str]) -> None:
    """Publish one more message, and check that it is the only unacked one of every subscription."""
    peer = await BinaryPeer.connect(port)
    receipts: list[int] = []
    peer.on_receipt = receipts.append
    try:
        await peer.open_producer(topic)
        peer.write(commands.send(0, 0, numbered_entries()(0)))
        await until(lambda: bool(receipts), lambda: 0, [peer], "the last receipt")
    finally:
        peer.close()
    for subscription in subscriptions:
        await check_left(port, topic, subscription, [0])
