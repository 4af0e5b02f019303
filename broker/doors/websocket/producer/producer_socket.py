"""The socket `/ws/v2/producer/…`, on which a client publishes JSON messages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from broker.core.errors import ServiceNotReady
from broker.core.topic_name import TopicName
from broker.doors.handshake_errors import HandshakeRefused
from broker.doors.read_gate import ReadGate
from broker.doors.websocket.json.errors import CloseCode
from broker.doors.websocket.json.options import producer_options
from broker.doors.websocket.json.paths import full_topic
from broker.doors.websocket.json.producer import ArrayAcks, ProducerMessage, SendError, decode_frame
from broker.doors.websocket.producer.partition_choice import PartitionChoice
from broker.doors.websocket.producer.publish_lane import PublishLane, Reply
from broker.doors.websocket.socket import PROBE_TIMEOUT_MS, BrokerSocket, only_text
from broker.producers.requests import ProducerRequest

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.core.errors import BrokerError
    from broker.doors.ports import BrokerPort
    from broker.doors.websocket.json.options import ProducerOptions

__all__ = ["ProducerSocket"]

_ALONE: Final = (None, 0)


class ProducerSocket(BrokerSocket):
    """Publishes a client's messages to one topic, with a `PublishLane` for each partition."""

    def __init__(self, *, broker: BrokerPort, clock: Clock) -> None:
        super().__init__(broker=broker, clock=clock)
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._gate = ReadGate(pause=self._may_read.clear, resume=self._may_read.set)
        self._lanes: list[PublishLane] = []
        self._is_lost = False

    async def connect(self) -> None:
        topic = full_topic(self.path_arguments)
        options = producer_options(self.query)
        self._is_encrypted = bool(options.encryption_keys)
        async with self.opening():
            await self._open_lanes(TopicName.parse(topic), options)
        self._choice = PartitionChoice(
            len(self._lanes), routing=options.routing_mode, hashing=options.hashing_scheme
        )
        await self.accept()
        # `answer` stops reading while too many acks are unsent. This callback allows reading again.
        self.transport.on_writable(lambda: self._gate.output_stuck(stuck=False))

    async def _open_lanes(self, topic: TopicName, options: ProducerOptions) -> None:
        partitions = await self.broker.partition_count(topic, create=True)
        given = producer_name = options.producer_name
        for name in [topic.with_partition(index) for index in range(partitions)] or [topic]:
            lane = PublishLane(
                self,
                options,
                self._gate,
                self.clock,
                partition=-1 if name.partition is None else name.partition,
                max_message_bytes=self.broker.settings.max_message_bytes,
            )
            self._lanes.append(lane)
            request = ProducerRequest(
                topic=name,
                name=producer_name,
                user_provided_name=given is not None,
                on_throttled=self._gate.throttled,
            )
            lane.attach(await self.broker.open_producer(request, self.identity, lane))
            producer_name = lane.name
        await self.check_partitions(topic, partitions)

    def refusal(self, status: int, reason: str) -> HandshakeRefused:
        """Return the refusal in Pulsar's wording."""
        return HandshakeRefused(status, f"Failed to create producer: {reason}")

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        decoded = decode_frame(only_text(text_data), self.clock.now_ms(), is_encrypted=self._is_encrypted)
        self.taken = 1
        if type(decoded) is list:
            self.taken = len(decoded)
            array = ArrayAcks(len(decoded))
            for index, each in enumerate(decoded):
                self._publish(each, (each.context, array, index))
        elif not isinstance(decoded, list):
            self._publish(decoded, (decoded.context, *_ALONE))
        if not self._gate.is_open:
            await self.transport.share.away(self._may_read.wait())

    def _publish(self, message: ProducerMessage | SendError, reply: Reply) -> None:
        if isinstance(message, SendError):
            self.answer(((reply, message.to_frame()),))
        else:
            self._lanes[self._choice.of(message.key)].publish(message, reply)

    def answer(self, answers: Sequence[tuple[Reply, bytes]]) -> None:
        """Send these answers in one write. Answer an array of messages only when all its messages have answers."""
        frames: list[bytes] = []
        for (_, array, index), frame in answers:
            whole = frame if array is None else array.settle(index, frame)
            if whole is not None:
                frames.append(whole)
        if frames and not self._is_lost:
            self.transport.write_frames(frames, binary=False)
            if not self.transport.is_writable():
                self._gate.output_stuck(stuck=True)

    def closed_by_broker(self, error: BrokerError | None) -> None:
        """Close the socket with code 1012, so that the client connects again."""
        reason = "connect again" if error is None else str(error)
        why = error or ServiceNotReady("the producer was closed while it was being opened: connect again")
        self.end(CloseCode.SERVICE_RESTART, reason, why)

    async def is_alive(self) -> bool:
        return await self.transport.is_alive(PROBE_TIMEOUT_MS)

    def release(self) -> None:
        """Publish the waiting batches, then detach the producers. Safe to repeat."""
        self._is_lost = True
        for lane in self._lanes:
            lane.detach()
        self._may_read.set()
