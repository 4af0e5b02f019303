"""The client's end of a binary connection in tests: it sends commands and reads those that the broker wrote."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from broker.core.access.credentials import ClientCertificate
from broker.doors.binary.connection import BinaryConnection
from tests.support.manual_timers import ManualTimers
from tests.unit.doors.fake_broker import FakeBroker
from vela.wire.binary import commands
from vela.wire.binary.enums import InitialPosition, SubType
from vela.wire.binary.frames import FrameDecoder
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand

TOPIC = "persistent://public/default/orders"


class FakeLink:
    """A `ByteLink` that records what was written."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.unsent_bytes = 0
        self.writable = True
        self.reading = True
        self.is_closed = False
        self.pauses = 0

    def write(self, buffers: Sequence[bytes]) -> None:
        self.writes.append(b"".join(buffers))

    def is_writable(self) -> bool:
        return self.writable

    def pause_reading(self) -> None:
        self.reading = False
        self.pauses += 1

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True


class WireClient:
    """Speaks to a BinaryConnection without a network."""

    def __init__(
        self, broker: FakeBroker, *, connect: bool = True, certificate: ClientCertificate | None = None
    ) -> None:
        self.broker = broker
        self.link = FakeLink()
        self.timers = ManualTimers()
        self.connection = BinaryConnection(
            broker,
            self.link,
            address="test:1",
            face="binary",
            share=broker.connections.loop_time.share(),
            certificate=certificate,
            call_later=self.timers.call_later_in_loop,
        )
        self._decoder = FrameDecoder(64 * 1024 * 1024)
        self._seen = 0
        if connect:
            self.tell(commands.connect(client_version="test", protocol_version=21))
            assert self.names() == ["CONNECTED"]

    def is_read_from(self) -> bool:
        """Return whether the broker reads from this peer."""
        return self.link.reading

    def is_closed(self) -> bool:
        """Return whether the broker has closed the connection."""
        return self.link.is_closed

    def tell(self, *frames: bytes) -> None:
        """Send frames to the broker in one piece."""
        self.connection.receive(b"".join(frames))

    def heard(self) -> list[BaseCommand]:
        """Return the commands written since the last call."""
        data = b"".join(self.link.writes[self._seen :])
        self._seen = len(self.link.writes)
        return [BaseCommand.FromString(frame.command) for frame in self._decoder.feed(data)]

    def names(self) -> list[str]:
        """Return the names of the commands written since the last call."""
        return [BaseCommand.Type.Name(command.type) for command in self.heard()]

    async def open_producer(self, producer_id: int = 1, *, name: str | None = "p") -> None:
        self.tell(commands.producer(TOPIC, producer_id=producer_id, request_id=7, name=name))
        await self.answered()
        assert self.names() == ["PRODUCER_SUCCESS"]

    async def subscribe(
        self, consumer_id: int = 1, *, type_: SubType = SubType.EXCLUSIVE, subscription: str = "s"
    ) -> None:
        self.tell(
            commands.subscribe(
                TOPIC,
                subscription,
                type=type_,
                consumer_id=consumer_id,
                request_id=8,
                initial_position=InitialPosition.EARLIEST,
            )
        )
        await self.answered()
        assert self.names() == ["SUCCESS"]

    async def settle(self) -> None:
        """Let every callback and task that is ready run."""
        await settle()

    async def answered(self) -> None:
        """Settle until the broker has written something.

        On a slow machine, the connection's turn may end before the answer is written.
        """
        await settle()
        async with asyncio.timeout(10):
            while len(self.link.writes) == self._seen:
                await settle()


async def settle(*, passes: int = 20) -> None:
    """Let callbacks and tasks that are ready run, and those that they start, for `passes` turns of the loop."""
    for _ in range(passes):
        await asyncio.sleep(0)
