"""One connection with a producer and a consumer on each of many topics."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from bench.load.messages import entries
from bench.load.peers.binary import BinaryPeer, PeerFailed
from vela.wire.binary import commands
from vela.wire.binary.enums import InitialPosition, SubType
from vela.wire.pb import vela_pulsar_pb2 as pb

__all__ = ["ManyTopics"]

_AT_ONCE = 16  # opened at a time
_PERMITS = 1000


class ManyTopics(BinaryPeer):
    """Topics, each with a producer and a consumer, whose ids are the topic's index. Consumers ack messages at once."""

    def __init__(self) -> None:
        super().__init__()
        self.delivered = 0
        self.receipts = 0
        self._entry = b""
        self._sent: list[int] = []

    @classmethod
    async def open(cls, port: int, topics: Sequence[str], payload_bytes: int) -> ManyTopics:
        """Connect, subscribe to every topic and open a producer on each."""
        peer = await cls.connect(port)
        if not isinstance(peer, ManyTopics):
            raise TypeError("connect made another peer")
        await peer.attach(topics, payload_bytes)
        return peer

    async def attach(self, topics: Sequence[str], payload_bytes: int) -> None:
        """Subscribe and open a producer on each topic, a few at a time."""
        self._entry = entries.single(os.urandom(payload_bytes)).data
        self._sent = [0] * len(topics)
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(number: int, topic: str) -> None:
            async with gate:
                await self._attach(number, topic)

        await asyncio.gather(*(one(number, topic) for number, topic in enumerate(topics)))

    def send(self, number: int) -> None:
        """Send one message to the topic with this index."""
        self.write(commands.send(number, self._sent[number], self._entry))
        self._sent[number] += 1

    async def all_arrived(self, count: int, patience_s: float) -> None:
        """Wait until there were `count` deliveries and `count` receipts. Raises PeerFailed when they do not come."""
        try:
            async with asyncio.timeout(patience_s):
                while self.delivered < count or self.receipts < count:
                    self.check()
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise PeerFailed(f"{self.delivered} of {count} messages arrived") from None

    async def _attach(self, number: int, topic: str) -> None:
        request = self._request()
        await self._answer(
            request,
            commands.subscribe(
                topic,
                "one",
                type=SubType.SHARED,
                consumer_id=number,
                request_id=request,
                initial_position=InitialPosition.EARLIEST,
            ),
        )
        self.write([commands.flow(number, _PERMITS)])
        request = self._request()
        await self._answer(
            request,
            commands.producer(topic, producer_id=number, request_id=request, user_provided_name=False),
        )

    def data_received(self, data: bytes) -> None:
        for command, payload in self._decoder.feed(data):
            parsed = pb.BaseCommand.FromString(command)
            if payload is not None and parsed.type == pb.BaseCommand.MESSAGE:
                where = parsed.message.message_id
                self.delivered += 1
                self.write(
                    [commands.ack(parsed.message.consumer_id, [(where.ledgerId, where.entryId, None)])]
                )
            elif parsed.type == pb.BaseCommand.SEND_RECEIPT:
                self.receipts += 1
            else:
                self._control(parsed)
