"""`/ws/v2/producer/…`: JSON messages in, acks out once they are durable (reference A4 … A6)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from broker.core.client_identity import ClientIdentity
from broker.core.topic_name import TopicName
from broker.doors.handshake_errors import HandshakeRefused
from broker.doors.read_gate import ReadGate
from broker.doors.websocket.json.errors import CloseCode, close_reason
from broker.doors.websocket.json.producer import ArrayAcks, ProducerMessage, SendError, decode_frame
from broker.doors.websocket.producer.partition_choice import PartitionChoice
from broker.doors.websocket.producer.publish_lane import PublishLane, Reply
from broker.doors.websocket.socket import PROBE_TIMEOUT_MS, BrokerSocket
from broker.producers.requests import ProducerRequest

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.core.errors import BrokerError
    from broker.doors.ports import BrokerPort
    from broker.doors.websocket.json.options import ProducerOptions
    from broker.doors.websocket.transport import Socket

__all__ = ["ProducerSocket"]

_ALONE: Final = (None, 0)  # a message that was not in an array


class ProducerSocket(BrokerSocket):
    """One producing socket: a lane for each partition, one for a topic that has none."""

    def __init__(
        self, broker: BrokerPort, socket: Socket, clock: Clock, topic: str, options: ProducerOptions
    ) -> None:
        super().__init__(socket)
        self._options = options
        self._clock = clock
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._gate = ReadGate(pause=self._may_read.clear, resume=self._may_read.set)
        self._broker = broker
        self._topic = topic
        self._lanes: list[PublishLane] = []
        self._choice = PartitionChoice(1, routing=options.routing_mode, hashing=options.hashing_scheme)
        self._is_lost = False

    async def open(self) -> None:
        """Open a producer on the topic, or on each of its partitions under one name."""
        topic = TopicName.parse(self._topic)
        partitions = await self._broker.partition_count(topic, create=True)
        identity = ClientIdentity(address=self.address, client_version="", face="websocket")
        names = [topic.with_partition(index) for index in range(partitions)] or [topic]
        given = producer_name = self._options.producer_name
        for name in names:
            lane = PublishLane(
                self,
                self._options,
                self._gate,
                self._clock,
                partition=-1 if name.partition is None else name.partition,
                max_message_bytes=self._broker.settings.max_message_bytes,
            )
            self._lanes.append(lane)
            request = ProducerRequest(
                topic=name,
                name=producer_name,
                user_provided_name=given is not None,
                on_throttled=self._gate.throttled,
            )
            lane.attach(await self._broker.open_producer(request, identity, lane))
            producer_name = lane.name
        options = self._options
        self._choice = PartitionChoice(
            len(names), routing=options.routing_mode, hashing=options.hashing_scheme
        )

    def refusal(self, status: int, reason: str) -> HandshakeRefused:
        """Pulsar's wording (A3)."""
        return HandshakeRefused(status, f"Failed to create producer: {reason}")

    async def on_text(self, text: str) -> None:
        """One message or an array of them. Waits while too much has no receipt."""
        decoded = decode_frame(text, self._clock.now_ms())
        if type(decoded) is list:
            array = ArrayAcks(len(decoded))
            for index, each in enumerate(decoded):
                self._publish(each, (each.context, array, index))
        elif not isinstance(decoded, list):
            self._publish(decoded, (decoded.context, *_ALONE))
        if not self._gate.is_open:
            await self._may_read.wait()

    def _publish(self, message: ProducerMessage | SendError, reply: Reply) -> None:
        if isinstance(message, SendError):
            self.answer(((reply, message.to_frame()),))
        else:
            self._lanes[self._choice.of(message.key)].publish(message, reply)

    def answer(self, answers: Sequence[tuple[Reply, bytes]]) -> None:
        """Send these acks or refusals with one write; those of an array wait for its last."""
        frames: list[bytes] = []
        for (_, array, index), frame in answers:
            whole = frame if array is None else array.settle(index, frame)
            if whole is not None:
                frames.append(whole)
        if frames and not self._is_lost:
            self.socket.write_frames(frames, binary=False)
            if not self.socket.is_writable():
                self._gate.output_stuck(stuck=True)

    def opened(self) -> None:
        """A peer that publishes without reading its acks is not read from until it does."""
        self.socket.on_writable(lambda: self._gate.output_stuck(stuck=False))

    def closed_by_broker(self, error: BrokerError | None) -> None:
        """The topic moved or ends: what has no ack has an unknown outcome, so the client must connect again."""
        reason = "connect again" if error is None else str(error)
        self.socket.close(CloseCode.SERVICE_RESTART, close_reason(reason))
        self.lost()

    async def is_alive(self) -> bool:
        """Ask the peer: somebody else wants this producer's name."""
        return await self.socket.is_alive(PROBE_TIMEOUT_MS)

    def lost(self) -> None:
        """Let the producers go; what was handed to the broker is stored all the same."""
        self._is_lost = True
        for lane in self._lanes:
            lane.detach()
        self._may_read.set()
