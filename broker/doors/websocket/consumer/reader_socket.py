"""Readers in the WebSocket API, `/ws/v2/reader/…`."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType
from broker.core.topic_name import TopicName
from broker.doors.handshake_errors import HandshakeRefused
from broker.doors.websocket.consumer.push_socket import PushSocket
from broker.doors.websocket.json.options import reader_options
from broker.doors.websocket.json.paths import full_topic
from broker.doors.websocket.json.reader import decode_reader_frame
from broker.doors.websocket.json.window import DeliveryWindow
from broker.doors.websocket.socket import only_text
from broker.subscription.requests import AckRequest, SubscribeRequest
from vela.wire.message_id import EARLIEST, LATEST

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.doors.ports import BrokerPort
    from broker.doors.websocket.consumer.delivery_source import DeliverySource, Outgoing
    from broker.doors.websocket.consumer.fragment_cache import FragmentCache

__all__ = ["ReaderSocket"]

_OWN_STATUS = (401, 403)


class ReaderSocket(PushSocket):
    """One reader with its own non-durable Exclusive subscription."""

    def __init__(self, *, broker: BrokerPort, clock: Clock, fragments: FragmentCache) -> None:
        super().__init__(broker=broker, clock=clock, fragments=fragments)
        self._suffix = secrets.token_hex(5)
        self._passed: dict[DeliverySource, Position] = {}

    async def connect(self) -> None:
        topic = full_topic(self.path_arguments)
        options = self._options = reader_options(self.query)
        self.window = DeliveryWindow.push(options.window)
        async with self.opening():
            await self.subscribe((topic,), self._request, options.crypto_failure_action)
        await self.accept()
        self.start(options.window)

    def _request(self, topic: TopicName, partitions: int) -> SubscribeRequest:
        start, remaining = self._start(topic)
        prefix = "multiTopicsReader" if partitions else "reader"
        return SubscribeRequest(
            topic=topic,
            subscription=f"{prefix}-{self._suffix}",
            type=SubscriptionType.EXCLUSIVE,
            consumer_name=self._options.reader_name or self._suffix,
            durable=False,
            start=start,
            start_remaining=remaining,
        )

    def _start(self, topic: TopicName) -> tuple[Position, int | None]:
        """Return the position of the first entry to send, and a bitset of the messages to send from this entry.

        The bitset is None if the reader gets the whole entry.
        """
        message_id = self._options.start
        position = Position(message_id.ledger_id, message_id.entry_id)
        if message_id in (EARLIEST, LATEST):
            return position, None
        if topic.partition is not None and message_id.partition not in (-1, topic.partition):
            return Position(*_EARLIEST), None
        members = (1 << message_id.batch_size) - 1
        after = members & ~((1 << (message_id.batch_index + 1)) - 1)
        if message_id.batch_index >= 0 and after:
            return position, after
        return Position(position.ledger_id, position.entry_id + 1), None

    def refusal(self, status: int, reason: str) -> HandshakeRefused:
        """Return a refusal. Every status except 401 and 403 becomes 500, as in Pulsar."""
        return HandshakeRefused(
            status if status in _OWN_STATUS else 500, f"Failed to create reader: {reason}"
        )

    def push(self, source: DeliverySource, entry: Outgoing) -> None:
        """Push the entry, then move the cursor."""
        super().push(source, entry)
        if not self._passed:
            self._loop.call_soon(self._move_cursors)
        self._passed[source] = Position(entry.ledger_id, entry.entry_id)

    def _move_cursors(self) -> None:
        passed, self._passed = self._passed, {}
        for source, position in passed.items():
            if source.consumer is not None:
                source.consumer.ack([AckRequest(position)], cumulative=True)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        frame = decode_reader_frame(only_text(text_data))
        self.taken = frame.processed + frame.end_of_topic_requests
        if frame.end_of_topic_requests:
            await self.answer_end_of_topic(frame.end_of_topic_requests)
        if frame.processed:
            self.settled(self.sources[0], frame.processed)


_EARLIEST = (EARLIEST.ledger_id, EARLIEST.entry_id)
