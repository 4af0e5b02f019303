"""Publish and consume at full speed for a long time, measured in slices."""

from __future__ import annotations

import asyncio
import os
import time

from bench.load.messages import entries
from bench.load.peers.binary import BinaryPeer
from vela.wire.binary import commands
from vela.wire.binary.enums import SubType

__all__ = ["SteadyCycle"]

_PERMITS = 2000
_WINDOW = 64


class SteadyCycle:
    """One producer that sends messages one by one, and one Shared consumer that acks each message, until `stop`."""

    def __init__(self, producer: BinaryPeer, consumer: BinaryPeer, payload_bytes: int) -> None:
        self.delivered = 0
        self._receipts = 0
        self._sent = 0
        self._permits = _PERMITS
        self._producer = producer
        self._consumer = consumer
        self._entry = entries.single(os.urandom(payload_bytes)).data
        self._acks: list[tuple[int, int, int | None]] = []
        self._ack_scheduled = False
        self._is_finishing = False
        producer.on_receipt = self._on_receipt
        consumer.on_message = self._on_message

    @classmethod
    async def start(cls, port: int, topic: str, payload_bytes: int) -> SteadyCycle:
        """Connect and begin."""
        consumer = await BinaryPeer.connect(port)
        producer = await BinaryPeer.connect(port)
        await consumer.subscribe(topic, "steady", SubType.SHARED)
        await producer.open_producer(topic)
        cycle = cls(producer, consumer, payload_bytes)
        consumer.write([commands.flow(0, _PERMITS)])
        cycle.fill()
        return cycle

    async def per_s(self, seconds: float) -> float:
        """Wait for `seconds` and return the messages delivered per second in that time.

        Raises PeerFailed if a peer has failed.
        """
        before, began = self.delivered, time.perf_counter()
        await asyncio.sleep(seconds)
        self._producer.check()
        self._consumer.check()
        return (self.delivered - before) / (time.perf_counter() - began)

    async def finish(self) -> None:
        """Send no more, and wait until all sent messages have been delivered. The consumer acks them as they come."""
        self._is_finishing = True
        while self.delivered < self._sent:
            self._producer.check()
            self._consumer.check()
            await asyncio.sleep(0.01)

    def stop(self) -> None:
        """Drop both connections."""
        self._producer.close()
        self._consumer.close()

    def fill(self) -> None:
        """Send as much as the window and the consumer allow."""
        # The producer runs ahead of the consumer by the consumer's permits at most, so both go at the pace of the
        # slower one.
        last = self._sent
        if not self._is_finishing:
            last = min(self._receipts + _WINDOW, self.delivered + _PERMITS)
        buffers: list[bytes] = []
        for sequence_id in range(self._sent, last):
            buffers += commands.send(0, sequence_id, self._entry)
        if buffers:
            self._sent = last
            self._producer.write(buffers)

    def _on_receipt(self, _: int) -> None:
        self._receipts += 1
        if self._sent - self._receipts <= _WINDOW // 2:
            self.fill()

    def _on_message(self, ledger_id: int, entry_id: int, _: bytes) -> None:
        self.delivered += 1
        self._permits -= 1
        self._acks.append((ledger_id, entry_id, None))
        if not self._ack_scheduled:
            self._ack_scheduled = True
            asyncio.get_running_loop().call_soon(self._ack)

    def _ack(self) -> None:
        self._ack_scheduled = False
        answers = [commands.ack(0, self._acks)]
        self._acks = []
        if self._permits <= _PERMITS // 2:
            answers.append(commands.flow(0, _PERMITS - self._permits))
            self._permits = _PERMITS
        self._consumer.write(answers)
        self.fill()
