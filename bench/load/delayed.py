"""Make delayed messages, and measure over TCP how late they come."""

from __future__ import annotations

import asyncio
import os
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.load.peers.binary import BinaryPeer, PeerFailed
from vela.wire.binary import commands
from vela.wire.binary.enums import SubType
from vela.wire.entry import encode_single

__all__ = ["Lateness", "delayed_entry"]

_DUE: Final = struct.Struct(">Q")
_PERMITS: Final = 10_000
_ACKS_A_COMMAND: Final = 100
_PATIENCE_S: Final = 60.0


def delayed_entry(due_ms: int, payload_bytes: int) -> bytes:
    """Return a message due at `due_ms`. Its payload begins with that time; the rest is random."""
    return encode_single(
        producer_name="bench",
        sequence_id=0,
        publish_time_ms=time.time_ns() // 1_000_000,
        payload=_DUE.pack(due_ms) + os.urandom(payload_bytes - _DUE.size),
        deliver_at_ms=due_ms,
    )


@dataclass(slots=True)
class _Received:
    late_ms: list[float]
    acks: list[tuple[int, int, int | None]]
    permits: int = _PERMITS


class Lateness:
    """A Shared consumer that records how long after its due time each message came, and acks it."""

    def __init__(self, peer: BinaryPeer, payload_bytes: int) -> None:
        self._peer = peer
        self._payload_bytes = payload_bytes
        self._received = _Received([], [])
        self._wanted = 0
        self._done = asyncio.Event()
        peer.on_message = self._on_message

    @classmethod
    async def start(cls, port: int, topic: str, subscription: str, payload_bytes: int) -> Lateness:
        """Subscribe and grant permits."""
        peer = await BinaryPeer.connect(port)
        await peer.subscribe(topic, subscription, SubType.SHARED)
        consumer = cls(peer, payload_bytes)
        peer.write([commands.flow(0, _PERMITS)])
        return consumer

    @property
    def late_ms(self) -> Sequence[float]:
        """How late each message came, in the order of arrival."""
        return self._received.late_ms

    async def has(self, messages: int) -> None:
        """Wait until this many messages have come in total. Raises PeerFailed when none comes for a minute."""
        self._wanted = messages
        while len(self._received.late_ms) < messages:
            before = len(self._received.late_ms)
            self._done.clear()
            try:
                await asyncio.wait_for(self._done.wait(), _PATIENCE_S)
            except TimeoutError:
                if len(self._received.late_ms) == before:
                    raise PeerFailed(f"{before} of {messages} delayed messages came") from None
            self._peer.check()

    def stop(self) -> None:
        """Drop the connection."""
        self._peer.close()

    def _on_message(self, ledger_id: int, entry_id: int, entry: bytes) -> None:
        received = self._received
        (due_ms,) = _DUE.unpack_from(entry, len(entry) - self._payload_bytes)
        late_ms = time.time_ns() / 1e6 - due_ms
        if late_ms < 0:
            raise PeerFailed(f"{ledger_id}:{entry_id} came {-late_ms:.1f} ms before its time")
        received.late_ms.append(late_ms)
        received.acks.append((ledger_id, entry_id, None))
        received.permits -= 1
        answers: list[bytes] = []
        if len(received.acks) >= _ACKS_A_COMMAND or len(received.late_ms) == self._wanted:
            answers.append(commands.ack(0, received.acks))
            received.acks = []
        if received.permits <= _PERMITS // 2:
            answers.append(commands.flow(0, _PERMITS - received.permits))
            received.permits = _PERMITS
        if answers:
            self._peer.write(answers)
        if len(received.late_ms) == self._wanted:
            self._done.set()
