"""A minimal client of the binary protocol: it sends prepared frames and passes receipts and messages to callbacks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from vela.wire.binary import commands
from vela.wire.binary.enums import InitialPosition, SubType
from vela.wire.binary.frames import Frame, FrameDecoder
from vela.wire.binary.plain_replies import plain_reply
from vela.wire.binary.replies import Message
from vela.wire.pb import vela_pulsar_pb2 as pb

__all__ = ["BinaryPeer", "PeerFailed"]

_LARGEST_FRAME_BYTES = 16 * 1024 * 1024

OnReceipt = Callable[[int], None]  # sequence id
OnMessage = Callable[[int, int, bytes], None]  # ledger, entry, the entry's bytes


class PeerFailed(Exception):
    """The broker refused something or closed the connection: the run gives no figure."""


class BinaryPeer(asyncio.Protocol):
    """One connection with at most one producer or consumer, whose id is 0."""

    def __init__(self) -> None:
        self.on_receipt: OnReceipt = _unexpected
        self.on_message: OnMessage = _unexpected
        self.on_ready_to_write: Callable[[], None] = lambda: None
        self.failure: PeerFailed | None = None
        self._decoder = FrameDecoder(_LARGEST_FRAME_BYTES)
        self._answers: dict[int, asyncio.Future[pb.BaseCommand]] = {}
        self._next_request = 1
        self._loop = asyncio.get_running_loop()
        self.connected: asyncio.Future[None] = self._loop.create_future()

    @classmethod
    async def connect(cls, port: int) -> BinaryPeer:
        """Connect to 127.0.0.1 and shake hands."""
        _, peer = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        peer.write([commands.connect(client_version="vela-bench", protocol_version=21)])
        await asyncio.wait_for(peer.connected, 10)
        return peer

    async def open_producer(self, topic: str) -> None:
        """Open producer 0."""
        request = self._request()
        await self._answer(
            request, commands.producer(topic, producer_id=0, request_id=request, user_provided_name=False)
        )

    async def subscribe(
        self, topic: str, subscription: str, type_: SubType, start: InitialPosition = InitialPosition.EARLIEST
    ) -> None:
        """Open consumer 0. It gets no messages until `write` sends permits."""
        request = self._request()
        await self._answer(
            request,
            commands.subscribe(
                topic, subscription, type=type_, consumer_id=0, request_id=request, initial_position=start
            ),
        )

    async def acked(self, ids: Sequence[tuple[int, int]], *, cumulative: bool = False) -> None:
        """Acknowledge entries, and wait until the acknowledgement is durable."""
        request = self._request()
        await self._answer(
            request, commands.ack(0, [(*one, None) for one in ids], cumulative=cumulative, request_id=request)
        )

    def write(self, buffers: Sequence[bytes]) -> None:
        """Send prepared bytes."""
        self.transport.writelines(buffers)

    def close(self) -> None:
        """Drop the connection."""
        self.transport.abort()

    def check(self) -> None:
        """Raise the connection's error, if there is one."""
        if self.failure is not None:
            raise self.failure

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for frame in self._decoder.feed(data):
            reply = plain_reply(frame)
            if isinstance(reply, Message):
                self.on_message(reply.ledger_id, reply.entry_id, reply.entry_block)
            elif reply is not None:
                self.on_receipt(reply.sequence_id)
            else:
                self._other(frame)

    def resume_writing(self) -> None:
        self.on_ready_to_write()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(PeerFailed(f"the connection was closed: {exc}"))

    def _other(self, frame: Frame) -> None:
        command = pb.BaseCommand.FromString(frame.command)
        if command.type == pb.BaseCommand.MESSAGE and frame.payload is not None:
            where = command.message.message_id
            self.on_message(where.ledgerId, where.entryId, frame.payload)
        elif command.type == pb.BaseCommand.SEND_RECEIPT:
            self.on_receipt(command.send_receipt.sequence_id)
        else:
            self._control(command)

    def _control(self, command: pb.BaseCommand) -> None:
        kind = pb.BaseCommand.Type.Name(command.type)
        if command.type == pb.BaseCommand.CONNECTED:
            self.connected.set_result(None)
        elif command.type == pb.BaseCommand.PING:
            self.write([commands.pong()])
        elif command.type == pb.BaseCommand.PRODUCER_SUCCESS:
            self._answers.pop(command.producer_success.request_id).set_result(command)
        elif command.type == pb.BaseCommand.SUCCESS:
            self._answers.pop(command.success.request_id).set_result(command)
        elif command.type == pb.BaseCommand.ACK_RESPONSE and not command.ackResponse.message:
            self._answers.pop(command.ackResponse.request_id).set_result(command)
        elif command.type not in (pb.BaseCommand.PONG, pb.BaseCommand.ACTIVE_CONSUMER_CHANGE):
            self._fail(PeerFailed(f"the broker answered {kind}: {command}"))

    def _fail(self, failure: PeerFailed) -> None:
        self.failure = self.failure or failure
        if not self.connected.done():
            self.connected.set_exception(self.failure)
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(self.failure)
        self._answers.clear()

    def _request(self) -> int:
        self._next_request += 1
        return self._next_request

    async def _answer(self, request: int, frame: bytes) -> pb.BaseCommand:
        answer = self._answers[request] = self._loop.create_future()
        self.write([frame])
        return await asyncio.wait_for(answer, 60)


def _unexpected(*_: object) -> None:
    raise PeerFailed("the broker sent a receipt or a message that this peer did not expect")
