"""Send messages one by one at a fixed rate over each protocol, and measure when the consumer has them."""

from __future__ import annotations

import os

from bench.load.messages import entries
from bench.load.messages.json_frames import (
    MessageFrames,
    ack_frame,
    consumer_path,
    key_of,
    message_id_of,
    producer_path,
)
from bench.load.open_loop import Latencies, OpenLoop
from bench.load.peers.binary import BinaryPeer
from bench.load.peers.websocket import WebSocketPeer
from vela.wire.binary import commands
from vela.wire.binary.enums import SubType

__all__ = ["binary_latency", "json_latency", "websocket_latency"]

_NUMBER_BYTES = 8
_PERMITS = 1000


async def binary_latency(
    port: int, topic: str, *, payload_bytes: int, per_s: float, warm_up_s: float, run_s: float
) -> Latencies:
    """Measure over TCP: each message is sent alone, and an Exclusive consumer acks each."""
    consumer = await BinaryPeer.connect(port)
    producer = await BinaryPeer.connect(port)
    loop = OpenLoop(per_s=per_s, warm_up_s=warm_up_s, run_s=run_s)
    filling = os.urandom(payload_bytes - _NUMBER_BYTES)
    permits = 0

    def on_message(ledger_id: int, entry_id: int, entry: bytes) -> None:
        nonlocal permits
        loop.arrived(int.from_bytes(entry[-payload_bytes : _NUMBER_BYTES - payload_bytes], "big"))
        answers = [commands.ack(0, [(ledger_id, entry_id, None)])]
        permits -= 1
        if permits <= _PERMITS // 2:
            answers.append(commands.flow(0, _PERMITS - permits))
            permits = _PERMITS
        consumer.write(answers)

    def send(number: int) -> None:
        payload = number.to_bytes(_NUMBER_BYTES, "big") + filling
        producer.write(commands.send(0, number, entries.single(payload, number).data))

    try:
        await consumer.subscribe(topic, "latency", SubType.EXCLUSIVE)
        await producer.open_producer(topic)
        consumer.on_message = on_message
        producer.on_receipt = lambda _: None
        permits = _PERMITS
        consumer.write([commands.flow(0, permits)])
        latencies = await loop.run(send)
        consumer.check()
        producer.check()
        return latencies
    finally:
        producer.close()
        consumer.close()


async def websocket_latency(
    port: int, topic: str, *, payload_bytes: int, per_s: float, warm_up_s: float, run_s: float
) -> Latencies:
    """Measure over WebSocket with JSON: one frame per message, and one ack per message."""
    return await json_latency(
        port,
        producer_path(topic),
        consumer_path(topic, "latency"),
        payload_bytes=payload_bytes,
        per_s=per_s,
        warm_up_s=warm_up_s,
        run_s=run_s,
    )


async def json_latency(
    port: int,
    producing: str,
    consuming: str,
    *,
    payload_bytes: int,
    per_s: float,
    warm_up_s: float,
    run_s: float,
) -> Latencies:
    """Measure like `websocket_latency`, at these paths: the bare server has other paths than Vela."""
    consumer = await WebSocketPeer.connect(port, consuming)
    producer = await WebSocketPeer.connect(port, producing)
    loop = OpenLoop(per_s=per_s, warm_up_s=warm_up_s, run_s=run_s)
    frames = MessageFrames(payload_bytes)

    def on_frames(pushes: list[bytes]) -> None:
        for push in pushes:
            loop.arrived(key_of(push))
        consumer.write([ack_frame(message_id_of(push)) for push in pushes])

    try:
        consumer.on_frames = on_frames
        latencies = await loop.run(lambda number: producer.write([frames.frame(number)]))
        consumer.check()
        producer.check()
        return latencies
    finally:
        producer.close()
        consumer.close()
