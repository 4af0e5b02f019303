"""Turn a socket's messages into entries, and the broker's receipts into acks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from broker.core.entry import FLAG_BATCH
from broker.core.errors import MessageTooLarge
from broker.core.hash_slots import slot_of_key
from broker.doors.websocket.json.errors import WebSocketError
from broker.doors.websocket.json.producer import ArrayAcks, ProducerMessage, SendError, ack_frame
from broker.log.sends import Receipt, SendRequest
from broker.producers.entry_size import check_entry_size
from vela.wire.entry import Compression, OutgoingMessage, encode_batch, encode_single
from vela.wire.message_id import MessageId

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.core.errors import BrokerError
    from broker.doors.ports import ProducerPort
    from broker.doors.read_gate import ReadGate
    from broker.doors.websocket.json.options import ProducerOptions

__all__ = ["LaneOwner", "PublishLane", "Reply"]

MAX_BATCH_BYTES: Final = 128 * 1024
# Estimated overhead of each message in a batch
_MEMBER_BYTES: Final = 16
MAX_CONTEXT_CHARACTERS: Final = 16 * 1024

Reply: TypeAlias = tuple[str | None, ArrayAcks | None, int]
"""The context of an unanswered message, the acks of its JSON array, and its index in the array.

The acks are None if the client sent the message without an array.
"""


class LaneOwner(Protocol):
    """The socket that owns a `PublishLane`."""

    def answer(self, answers: Sequence[tuple[Reply, bytes]]) -> None:
        """Send these answers."""

    def closed_by_broker(self, error: BrokerError | None) -> None:
        """Close the socket after the broker has closed a producer."""

    async def is_alive(self) -> bool:
        """Return whether the peer is alive."""


class _Pending:
    __slots__ = ("is_batch", "queued_s", "replies", "sequence_id")

    def __init__(
        self, sequence_id: int, replies: Sequence[Reply], *, is_batch: bool, queued_s: float
    ) -> None:
        self.sequence_id = sequence_id
        self.replies = replies  # Empty after the send has timed out
        self.is_batch = is_batch
        self.queued_s = queued_s


class PublishLane:
    """Publishes to one topic or partition, in the order of the calls."""

    def __init__(
        self,
        owner: LaneOwner,
        options: ProducerOptions,
        gate: ReadGate,
        clock: Clock,
        *,
        partition: int,
        max_message_bytes: int,
    ) -> None:
        self.name = ""
        self._owner = owner
        self._options = options
        self._gate = gate
        self._clock = clock
        self._max_message_bytes = max_message_bytes
        self._partition = partition  # -1 if the topic is not partitioned
        self._producer: ProducerPort | None = None
        self._compression = Compression[options.compression.name]
        initial = options.initial_sequence_id
        self._next_sequence_id = 0 if initial is None else initial + 1
        self._pending: deque[_Pending] = deque()
        self._pending_messages = 0
        self._batch: list[OutgoingMessage] = []
        self._batch_replies: list[Reply] = []
        self._batch_bytes = 0
        self._batch_timer: asyncio.TimerHandle | None = None
        self._timeout_timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def attach(self, producer: ProducerPort) -> None:
        """Use the producer that the broker opened."""
        self._producer = producer
        self.name = producer.name
        if self._options.initial_sequence_id is None:
            self._next_sequence_id = producer.last_sequence_id + 1

    def detach(self) -> None:
        """Publish the waiting batch, then detach the producer. Safe to repeat."""
        self._flush_batch()
        if self._timeout_timer is not None:
            self._timeout_timer.cancel()
            self._timeout_timer = None
        if self._producer is not None:
            producer, self._producer = self._producer, None
            producer.detach()

    def publish(self, message: ProducerMessage, reply: Reply) -> None:
        """Publish a message, or refuse the message if a limit is exceeded."""
        options = self._options
        if message.context is not None and len(message.context) > MAX_CONTEXT_CHARACTERS:
            text = f"context has {len(message.context)} characters, the limit is {MAX_CONTEXT_CHARACTERS}"
            self._refuse((reply,), text)
            return
        size_bytes = len(message.payload)
        policy_bytes = 0 if self._producer is None else self._producer.max_message_bytes
        limit_bytes = min(self._max_message_bytes, policy_bytes or self._max_message_bytes)
        if size_bytes > limit_bytes:
            source = "policy max_message_bytes" if limit_bytes == policy_bytes else "VELA_MAX_MESSAGE_BYTES"
            text = f"payload of {size_bytes} bytes, the limit is {limit_bytes} ({source})"
            if self._producer is not None:
                self._producer.refused(MessageTooLarge(text))
            self._refuse((reply,), text)
            return
        if options.max_pending_messages and self._pending_messages >= options.max_pending_messages:
            self._refuse(
                (reply,), f"{self._pending_messages} messages are without an ack (maxPendingMessages)"
            )
            return
        if options.batching_enabled and message.deliver_at_ms is None:
            self._add_to_batch(message, reply, most_bytes=min(MAX_BATCH_BYTES, limit_bytes))
        else:
            self._flush_batch()
            self._publish_alone(message, reply)

    def _publish_alone(self, message: ProducerMessage, reply: Reply) -> None:
        sequence_id = self._next_sequence_id
        self._next_sequence_id = sequence_id + 1
        data = encode_single(
            producer_name=self.name,
            sequence_id=sequence_id,
            publish_time_ms=self._clock.now_ms(),
            payload=message.payload,
            properties=message.properties,
            key=message.key,
            event_time_ms=message.event_time_ms,
            deliver_at_ms=message.deliver_at_ms,
            compression=self._compression,
            encrypt=None
            if message.encryption is None
            else partial(message.encryption.noted, self._options.encryption_keys),
        )
        slot = None if message.key is None else slot_of_key(message.key.encode())
        request = SendRequest(sequence_id, 0, 1, 0, message.deliver_at_ms or 0, slot, data)
        self._send(request, (reply,))

    def _add_to_batch(self, message: ProducerMessage, reply: Reply, *, most_bytes: int) -> None:
        options, size_bytes = self._options, _size_in_batch(message)
        if self._batch and self._batch_bytes + size_bytes > most_bytes:
            self._flush_batch()
        self._batch.append(
            OutgoingMessage(
                payload=message.payload,
                properties=message.properties,
                key=message.key,
                event_time_ms=message.event_time_ms,
            )
        )
        self._batch_replies.append(reply)
        self._batch_bytes += size_bytes
        self._pending_messages += 1
        if len(self._batch) >= options.batching_max_messages:
            self._flush_batch()
        elif self._batch_timer is None:
            delay_s = options.batching_max_publish_delay_ms / 1000
            self._batch_timer = self._loop.call_later(delay_s, self._flush_batch)

    def _flush_batch(self) -> None:
        if self._batch_timer is not None:
            self._batch_timer.cancel()
            self._batch_timer = None
        if not self._batch:
            return
        batch, replies = self._batch, self._batch_replies
        self._batch, self._batch_replies, self._batch_bytes = [], [], 0
        self._pending_messages -= len(batch)
        first = self._next_sequence_id
        self._next_sequence_id = first + len(batch)
        data = encode_batch(
            batch,
            producer_name=self.name,
            sequence_id=first,
            publish_time_ms=self._clock.now_ms(),
            compression=self._compression,
        )
        request = SendRequest(first, self._next_sequence_id - 1, len(batch), FLAG_BATCH, 0, None, data)
        self._send(request, replies)

    def _send(self, request: SendRequest, replies: Sequence[Reply]) -> None:
        if self._producer is None:
            return
        try:
            check_entry_size(len(request.data), max_message_bytes=self._max_message_bytes)
        except MessageTooLarge as error:
            self._producer.refused(error)
            self._refuse(replies, str(error))
            return
        now_s = self._loop.time()
        self._pending.append(
            _Pending(request.sequence_id, replies, is_batch=bool(request.flags & FLAG_BATCH), queued_s=now_s)
        )
        self._pending_messages += len(replies)
        self._gate.send_queued(len(request.data))
        if self._timeout_timer is None and self._options.send_timeout_ms:
            self._watch(self._options.send_timeout_ms / 1000)
        self._producer.send(request)

    def on_receipts(self, receipts: Sequence[Receipt]) -> None:
        answers: list[tuple[Reply, bytes]] = []
        partition, size_bytes = self._partition, 0
        for receipt in receipts:
            size_bytes += receipt.size_bytes
            pending = self._pending.popleft()
            replies = pending.replies
            self._pending_messages -= len(replies)
            ledger_id, entry_id = receipt.ledger_id, receipt.entry_id
            if not pending.is_batch:
                for reply in replies:
                    text = MessageId(ledger_id, entry_id, partition).to_base64()
                    answers.append((reply, ack_frame(text, reply[0])))
                continue
            for index, reply in enumerate(replies):
                text = MessageId(ledger_id, entry_id, partition, index, len(replies)).to_base64()
                answers.append((reply, ack_frame(text, reply[0])))
        self._owner.answer(answers)
        self._gate.sends_answered(len(receipts), size_bytes)

    def on_send_failed(self, request: SendRequest, error: BrokerError) -> None:
        for pending in self._pending:
            if pending.sequence_id == request.sequence_id:
                self._pending.remove(pending)
                self._pending_messages -= len(pending.replies)
                self._refuse(pending.replies, str(error))
                break
        self._gate.sends_answered(1, len(request.data))

    def on_producer_closed(self, error: BrokerError | None) -> None:
        self._producer = None
        self._owner.closed_by_broker(error)

    async def is_alive(self) -> bool:
        return await self._owner.is_alive()

    def _refuse(self, replies: Sequence[Reply], reason: str) -> None:
        error = WebSocketError.UNKNOWN_ERROR
        self._owner.answer(
            [
                (reply, SendError(error=error, message=reason, context=reply[0]).to_frame())
                for reply in replies
            ]
        )

    def _watch(self, delay_s: float) -> None:
        self._timeout_timer = self._loop.call_later(delay_s, self._time_out)

    def _time_out(self) -> None:
        self._timeout_timer = None
        timeout_s = self._options.send_timeout_ms / 1000
        now_s = self._loop.time()
        for pending in self._pending:
            left_s = pending.queued_s + timeout_s - now_s
            if left_s > 0:
                self._watch(left_s)
                return
            replies, pending.replies = pending.replies, ()
            self._pending_messages -= len(replies)
            self._refuse(replies, f"no receipt within {timeout_s:g} s; the message may still be stored")


def _size_in_batch(message: ProducerMessage) -> int:
    texts = (message.key or "", message.context or "", *message.properties, *message.properties.values())
    return _MEMBER_BYTES + len(message.payload) + sum(map(len, texts))
